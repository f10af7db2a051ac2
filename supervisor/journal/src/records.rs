//! The record of a domain for somebody who does not care whose it is: the answers of its owner, or of a
//! reader beside another owner.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rusqlite::Connection;

use crate::journal::Journal;
use crate::query::{ReadError, sealed};
use crate::reader::Reader;

/// A reader that is opened at the first question: most clients of another owner never ask one.
#[derive(Debug)]
pub struct LazyReader {
    folder: PathBuf,
    reader: OnceLock<Reader>,
}

impl LazyReader {
    /// Of the domain in this folder. Nothing is opened yet.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            reader: OnceLock::new(),
        }
    }

    /// The reader.
    ///
    /// # Errors
    /// Those of [`Reader::open`]; the next call tries again.
    pub fn get(&self) -> Result<&Reader, ReadError> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let opened = Reader::open(&self.folder)?;
        // Another thread may have been quicker; then that one is used and this one closed.
        Ok(self.reader.get_or_init(|| opened))
    }
}

/// Where the answers of [`Query`](crate::Query) come from.
#[derive(Debug, Clone, Copy)]
pub enum Records<'a> {
    /// From the owner, which this process is.
    Owner(&'a Journal),
    /// From the files of the domain, beside an owner.
    Beside(&'a LazyReader),
}

impl sealed::Source for Records<'_> {
    fn with<T>(
        &self,
        ask: impl FnOnce(&Connection, &Path) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match self {
            Self::Owner(journal) => journal.with(ask),
            Self::Beside(reader) => reader.get()?.with(ask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::OpenOptions;
    use crate::query::Query;

    #[test]
    fn both_give_the_same_answers_and_an_absent_domain_is_asked_for_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("domain");
        let beside = LazyReader::new(&folder);
        let before = Records::Beside(&beside).counts();
        assert!(
            matches!(before, Err(ReadError::Absent { .. })),
            "{before:?}"
        );
        let journal = Journal::open(&folder, &OpenOptions::default()).unwrap();
        let counts = Records::Owner(&journal).counts().unwrap();
        assert_eq!(Records::Beside(&beside).counts().unwrap(), counts);
    }
}
