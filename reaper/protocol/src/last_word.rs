//! What the helper leaves on disk when the supervisor is gone.
//!
//! The file is written beside its name, synced, and then renamed, so a file with the name is
//! whole. Recovery takes it as evidence: an exit that happened after the supervisor's death is
//! still an observed one.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use minicbor::{Decode, Encode};

use crate::frame::{Decoder, encode};
use crate::{FrameError, Identity, LaunchFailure, PidNamespace, TreeEnd};

/// Version of the file's content. A reader that knows another one says so and uses nothing.
pub const LAST_WORD_FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"XFLWORD\n";

/// The last word of a helper.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LastWord {
    /// [`LAST_WORD_FORMAT`] of the writer.
    #[n(0)]
    pub format: u32,
    /// The operation of the launch.
    #[n(1)]
    pub operation_id: String,
    /// Who the helper was.
    #[n(2)]
    pub holder: Identity,
    /// Who the command was; null when it was never created.
    #[n(3)]
    pub root: Option<Identity>,
    /// Whether the gate was opened, so that the command may have run.
    #[n(4)]
    pub released: bool,
    /// Why it did not start, if it did not.
    #[n(5)]
    pub launch_failure: Option<LaunchFailure>,
    /// How the tree ended.
    #[n(6)]
    pub end: TreeEnd,
    /// Whether nothing of the tree was left.
    #[n(7)]
    pub empty: bool,
    /// When it was written: wall clock, milliseconds since 1970. For people, never for decisions.
    #[n(8)]
    pub written_at_ms: u64,
    /// Whether it was the helper that ended the tree, because the supervisor was gone.
    #[n(9)]
    pub stopped: bool,
    /// The PID namespace of the tree, if it had one of its own.
    #[n(10)]
    pub namespace: Option<PidNamespace>,
}

/// Why a file is not a last word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastWordError {
    /// It does not begin like one.
    Foreign,
    /// It was written by a helper with another format.
    Format {
        /// The format it names.
        found: u32,
    },
    /// Its content is damaged.
    Damaged(FrameError),
}

impl fmt::Display for LastWordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("not the last word of a helper"),
            Self::Format { found } => write!(
                f,
                "last word in format {found}, this release reads format {LAST_WORD_FORMAT}"
            ),
            Self::Damaged(error) => write!(f, "damaged last word: {error}"),
        }
    }
}

impl core::error::Error for LastWordError {}

impl LastWord {
    /// The whole content of the file.
    ///
    /// # Errors
    /// [`FrameError::TooLong`], which the bounds on process lists rule out.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FrameError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.format.to_le_bytes());
        encode(self, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// [`LastWordError`] says by cause why it cannot be used.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LastWordError> {
        let rest = bytes
            .strip_prefix(MAGIC.as_slice())
            .ok_or(LastWordError::Foreign)?;
        let (format, frame) = rest
            .split_first_chunk::<4>()
            .ok_or(LastWordError::Foreign)?;
        let found = u32::from_le_bytes(*format);
        if found != LAST_WORD_FORMAT {
            return Err(LastWordError::Format { found });
        }
        let mut decoder = Decoder::new();
        decoder.push(frame);
        let word = decoder.next_message().map_err(LastWordError::Damaged)?;
        decoder.finish().map_err(LastWordError::Damaged)?;
        let word: Self = word.ok_or(LastWordError::Damaged(FrameError::Truncated {
            received: frame.len(),
        }))?;
        // Both places say the same, or one of them is damaged.
        if word.format != found {
            let len = frame.len();
            return Err(LastWordError::Damaged(FrameError::Malformed { len }));
        }
        Ok(word)
    }
}
