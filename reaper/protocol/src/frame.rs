//! Frames without I/O: bytes in, messages out.
//!
//! A frame is a little-endian `u32` with the length of the body, then the body. The length is
//! checked before memory is taken for it.

use alloc::vec::Vec;
use core::fmt;

use minicbor::{Decode, Encode};

/// The longest body of a frame, in bytes.
///
/// Linux takes at most 6 MiB of arguments and environment together (three quarters of the 8 MiB
/// that execve(2) allows for a stack), so every command that can run at all fits.
pub const FRAME_LEN_MAX: usize = 8 * 1024 * 1024;

const PREFIX_LEN: usize = 4;

/// Why bytes are not the message that was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// The length says more than [`FRAME_LEN_MAX`]; nothing of the body was read.
    TooLong {
        /// The length that the frame claimed, in bytes.
        claimed: u32,
    },
    /// The body is not one message of the expected type.
    Malformed {
        /// Length of the body, in bytes.
        len: usize,
    },
    /// The stream ended inside a frame.
    Truncated {
        /// How many bytes of the unfinished frame had come.
        received: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { claimed } => {
                write!(
                    f,
                    "frame of {claimed} bytes, at most {FRAME_LEN_MAX} are allowed"
                )
            }
            Self::Malformed { len } => write!(f, "frame of {len} bytes is not a known message"),
            Self::Truncated { received } => {
                write!(f, "stream ended {received} bytes into a frame")
            }
        }
    }
}

impl core::error::Error for FrameError {}

/// Appends the frame of `message` to `out`.
///
/// # Errors
/// [`FrameError::TooLong`] if the body is longer than [`FRAME_LEN_MAX`]; `out` is then as before.
///
/// # Panics
/// If an encoder fails that writes to memory, which the derived ones do not.
pub fn encode<T: Encode<()>>(message: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_LEN]);
    // Writing to a Vec cannot fail, and our derived encoders have no failure of their own.
    minicbor::encode(message, &mut *out).expect("encoding to memory does not fail");
    let body_len = out.len() - start - PREFIX_LEN;
    match u32::try_from(body_len) {
        Ok(len) if body_len <= FRAME_LEN_MAX => {
            out[start..start + PREFIX_LEN].copy_from_slice(&len.to_le_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(FrameError::TooLong {
                claimed: u32::try_from(body_len).unwrap_or(u32::MAX),
            })
        }
    }
}

/// Collects bytes of one stream and hands out the messages in them.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Makes a decoder for a stream that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
        }
    }

    /// Adds bytes that came from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next whole message, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] and [`FrameError::Malformed`]. The stream cannot be trusted after
    /// either: there is no way to find the next frame.
    pub fn next_message<T>(&mut self) -> Result<Option<T>, FrameError>
    where
        T: for<'b> Decode<'b, ()>,
    {
        let unread = &self.bytes[self.taken..];
        let Some((prefix, rest)) = unread.split_first_chunk::<PREFIX_LEN>() else {
            return Ok(None);
        };
        let claimed = u32::from_le_bytes(*prefix);
        let len = match usize::try_from(claimed) {
            Ok(len) if len <= FRAME_LEN_MAX => len,
            _ => return Err(FrameError::TooLong { claimed }),
        };
        let Some(body) = rest.get(..len) else {
            return Ok(None);
        };
        let mut decoder = minicbor::Decoder::new(body);
        let message = decoder
            .decode()
            .map_err(|_| FrameError::Malformed { len })?;
        if decoder.position() != len {
            return Err(FrameError::Malformed { len });
        }
        self.taken += PREFIX_LEN + len;
        Ok(Some(message))
    }

    /// Says whether the stream may end here.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if bytes of an unfinished frame are left.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.bytes.len() - self.taken {
            0 => Ok(()),
            received => Err(FrameError::Truncated { received }),
        }
    }
}
