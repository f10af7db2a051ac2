//! The last words of helpers, as files in the holders folder.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use xioflow_journal::OperationStatus;
use xioflow_protocol::LastWord;

use crate::error::ExecuteError;
use crate::plain_file;

/// Longest file that is read as a last word, in bytes; a real one is far below.
const WORD_LEN_MAX: u64 = 1024 * 1024;

/// What was found where a last word would be.
#[derive(Debug)]
pub(super) enum Word {
    /// A last word on this operation.
    Said(Box<LastWord>),
    /// No file.
    None,
    /// A file that says nothing that can be relied on.
    Unusable(String),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(_) => f.write_str("the helper left its last word"),
            Self::None => f.write_str("the helper left no last word"),
            Self::Unusable(why) => write!(f, "the helper's last word cannot be used ({why})"),
        }
    }
}

/// Reads the last word on an operation.
pub(super) fn read(path: &Path, operation_id: &str) -> Word {
    match read_file(path) {
        Ok(word) if word.operation_id == operation_id => Word::Said(Box::new(word)),
        Ok(word) => Word::Unusable(format!("it is about operation {}", word.operation_id)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Word::None,
        Err(error) => Word::Unusable(error.to_string()),
    }
}

fn read_file(path: &Path) -> io::Result<LastWord> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells the difference, however long the file is by now.
    let mut file = plain_file::open(path)?.take(WORD_LEN_MAX + 1);
    if file.read_to_end(&mut bytes)? as u64 > WORD_LEN_MAX {
        return Err(io::Error::other("it is too long"));
    }
    LastWord::from_bytes(&bytes).map_err(io::Error::other)
}

/// Removes the last words that nobody needs any more: those on operations that have a result,
/// and those on commands that never got past their gate and were never recorded.
pub(super) fn remove_settled(
    holders: &Path,
    status_of: impl Fn(&str) -> Result<Option<OperationStatus>, ExecuteError>,
) -> Result<(), ExecuteError> {
    let failed = |source| ExecuteError::System {
        act: "read the holders folder",
        source,
    };
    for entry in fs::read_dir(holders).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // What is not a last word is not ours to remove.
        let Ok(word) = read_file(&path) else { continue };
        let settled = match status_of(&word.operation_id)? {
            Some(status) => status == OperationStatus::Done,
            None => !word.released,
        };
        if settled {
            // One that stays behind is removed the next time.
            drop(fs::remove_file(&path));
        }
    }
    Ok(())
}
