//! Output in frames, for clients that want to know where each byte belongs: both streams through one
//! descriptor, in the order in which they were read, with their offsets and with what is missing.
//!
//! A frame is a header of [`HEADER_LEN`] bytes, and for bytes that came these bytes: one byte that says what
//! it is, the offset in the stream, and the length, both little-endian.

use crate::operation::Stream;

/// Length of a header in bytes.
pub const HEADER_LEN: usize = 17;

/// Most bytes of a stream in one frame.
pub const DATA_MAX_BYTES: u64 = 1024 * 1024;

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The stream that it is about.
    pub stream: Stream,
    /// Whether the bytes are missing: they are stored nowhere, and nothing follows.
    pub is_gap: bool,
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// How many bytes there are.
    pub len: u64,
}

/// Why a header is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoHeader;

impl Header {
    /// As it is written.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let stream = match self.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = stream | u8::from(self.is_gap) << 1;
        bytes[1..9].copy_from_slice(&self.offset.to_le_bytes());
        bytes[9..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`NoHeader`] if it says what this release does not know, or more bytes than a frame can have.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, NoHeader> {
        let (what, offset, len) = (bytes[0], number(&bytes[1..9]), number(&bytes[9..]));
        let (stream, is_gap) = match what {
            0 | 2 => (Stream::Stdout, what == 2),
            1 | 3 => (Stream::Stderr, what == 3),
            _ => return Err(NoHeader),
        };
        let is_possible = offset.checked_add(len).is_some() && (is_gap || len <= DATA_MAX_BYTES);
        let header = Self {
            stream,
            is_gap,
            offset,
            len,
        };
        is_possible.then_some(header).ok_or(NoHeader)
    }
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_an_impossible_one_is_refused() {
        for (stream, is_gap, offset, len) in [
            (Stream::Stdout, false, 0, DATA_MAX_BYTES),
            (Stream::Stderr, false, u64::MAX - 1, 1),
            (Stream::Stdout, true, 7, u64::MAX - 7),
            (Stream::Stderr, true, 0x0102_0304_0506_0708, 0),
        ] {
            let header = Header {
                stream,
                is_gap,
                offset,
                len,
            };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
        let too_long = Header {
            stream: Stream::Stdout,
            is_gap: false,
            offset: 0,
            len: DATA_MAX_BYTES + 1,
        };
        assert_eq!(Header::decode(&too_long.encode()), Err(NoHeader));
        assert_eq!(Header::decode(&[4; HEADER_LEN]), Err(NoHeader));
        assert_eq!(Header::decode(&[0xff; HEADER_LEN]), Err(NoHeader));
    }
}
