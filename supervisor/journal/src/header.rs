//! The first hundred bytes of a database file, read before SQLite sees it: whether it is ours,
//! and whether this release may touch it. Pure; `main_file` does the reading.

use std::path::{Path, PathBuf};

use crate::schema::{APPLICATION_ID, SCHEMA_VERSION};

/// How much of a file SQLite's header takes.
pub(crate) const HEADER_LEN: usize = 100;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A file at the place of the database that is not a database this release can use. It has
/// been read and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is no SQLite database at all.
    #[error("{} is not an SQLite database; move it away or choose another folder", path.display())]
    NotSqlite {
        /// The file.
        path: PathBuf,
    },
    /// It belongs to another application.
    #[error(
        "{} belongs to another application (application id {application_id:#010x}); choose another folder",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The application id found in it.
        application_id: u32,
    },
    /// It was written by a newer release.
    #[error(
        "{} has schema version {found}, and this release knows up to {known}; upgrade xioflow to open it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found in it.
        found: u32,
        /// The newest version that this release knows.
        known: u32,
    },
    /// It is shorter than it says itself.
    #[error("{} is cut off: {len} bytes of {expected}; restore it from a backup", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// How many bytes it has.
        len: u64,
        /// How many it should have at least.
        expected: u64,
    },
    /// Its header contradicts the file format.
    #[error("{} has a damaged header ({what}); restore it from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The header of its log is wrong, so SQLite would pass over all that the log holds.
    #[error(
        "{} has a damaged header, so the newest changes in it would be lost without a word; restore it from a backup, or \
         move it away, and nothing else, to go on with what was there before them",
        path.display()
    )]
    DamagedLog {
        /// The log.
        path: PathBuf,
    },
    /// It is missing, yet a log of its last changes is still here. A new database in its place
    /// would swallow the old one's changes.
    #[error(
        "{} is what is left of a database that is gone; restore that database beside it, or move it away",
        path.display()
    )]
    StrayLog {
        /// The log.
        path: PathBuf,
    },
}

/// What the start of a file shows.
pub(crate) struct Header<'a> {
    /// The file, for messages.
    pub(crate) path: &'a Path,
    /// Its first bytes, up to [`HEADER_LEN`].
    pub(crate) bytes: &'a [u8],
    /// Its length.
    pub(crate) len: u64,
    /// Whether a write-ahead log with content lies beside it, which may hold the pages that
    /// the file itself lacks: a checkpoint that a crash cut short writes the header first.
    pub(crate) has_log: bool,
}

impl Header<'_> {
    /// Checks everything that can be known without SQLite; returns the schema version.
    pub(crate) fn check(&self) -> Result<u32, FileError> {
        self.check_format()?;
        let version = check_identity(self.path, self.word(68), self.word(60))?;
        self.check_length()?;
        Ok(version)
    }

    fn check_format(&self) -> Result<(), FileError> {
        let known = self.bytes.len().min(MAGIC.len());
        if self.bytes[..known] != MAGIC[..known] {
            return Err(FileError::NotSqlite {
                path: self.path.to_owned(),
            });
        }
        if self.bytes.len() < HEADER_LEN {
            return Err(self.truncated(HEADER_LEN as u64));
        }
        let page = self.page_size();
        if !page.is_power_of_two() || page < 512 {
            return Err(self.damaged("page size"));
        }
        if self.bytes[18] > 2 || self.bytes[19] > 2 || self.bytes[18] == 0 || self.bytes[19] == 0 {
            return Err(self.damaged("format version"));
        }
        if self.bytes[21..24] != [64, 32, 32] {
            return Err(self.damaged("payload fractions"));
        }
        Ok(())
    }

    fn check_length(&self) -> Result<(), FileError> {
        let pages = if self.word(24) == self.word(92) {
            self.word(28)
        } else {
            1
        };
        let expected = self.page_size() * u64::from(pages.max(1));
        if self.len < expected && !self.has_log {
            Err(self.truncated(expected))
        } else {
            Ok(())
        }
    }

    /// In bytes; the value 1 stands for 65536, which does not fit its two bytes.
    fn page_size(&self) -> u64 {
        match u16::from_be_bytes([self.bytes[16], self.bytes[17]]) {
            1 => 65536,
            n => n.into(),
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes([
            self.bytes[at],
            self.bytes[at + 1],
            self.bytes[at + 2],
            self.bytes[at + 3],
        ])
    }

    fn truncated(&self, expected: u64) -> FileError {
        FileError::Truncated {
            path: self.path.to_owned(),
            len: self.len,
            expected,
        }
    }

    fn damaged(&self, what: &'static str) -> FileError {
        FileError::Damaged {
            path: self.path.to_owned(),
            what,
        }
    }
}

/// Whether a database of this application id and version may be used; returns the version.
///
/// Asked twice: of the file, and of SQLite once it is open, since a log beside the file may
/// carry a newer header.
pub(crate) fn check_identity(
    path: &Path,
    application_id: u32,
    version: u32,
) -> Result<u32, FileError> {
    if application_id != APPLICATION_ID {
        return Err(FileError::Foreign {
            path: path.to_owned(),
            application_id,
        });
    }
    match version {
        0 => Err(FileError::Damaged {
            path: path.to_owned(),
            what: "schema version 0",
        }),
        v if v > SCHEMA_VERSION => Err(FileError::Newer {
            path: path.to_owned(),
            found: v,
            known: SCHEMA_VERSION,
        }),
        v => Ok(v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header as SQLite writes it for two pages of 4096 bytes.
    fn sound() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..24].copy_from_slice(&[16, 0, 2, 2, 0, 64, 32, 32]);
        bytes[28..32].copy_from_slice(&2_u32.to_be_bytes());
        bytes[60..64].copy_from_slice(&SCHEMA_VERSION.to_be_bytes());
        bytes[68..72].copy_from_slice(&APPLICATION_ID.to_be_bytes());
        bytes
    }

    fn check(bytes: &[u8], len: u64, has_log: bool) -> Result<u32, FileError> {
        Header {
            path: Path::new("domain.db"),
            bytes,
            len,
            has_log,
        }
        .check()
    }

    #[test]
    fn a_sound_header_gives_its_version() {
        assert_eq!(check(&sound(), 8192, false), Ok(SCHEMA_VERSION));
    }

    #[test]
    fn a_short_file_is_cut_off_unless_a_log_may_hold_the_rest() {
        assert!(matches!(
            check(&sound(), 8191, false),
            Err(FileError::Truncated { expected: 8192, .. })
        ));
        assert_eq!(check(&sound(), 8191, true), Ok(SCHEMA_VERSION));
        assert!(matches!(
            check(&sound()[..99], 99, true),
            Err(FileError::Truncated { expected: 100, .. })
        ));
        assert!(matches!(
            check(&sound()[..7], 7, false),
            Err(FileError::Truncated { .. })
        ));
    }

    #[test]
    fn other_content_is_named() {
        assert!(matches!(
            check(b"hello", 5, false),
            Err(FileError::NotSqlite { .. })
        ));
        for (at, value, what) in [
            (17, 3, "page size"),
            (18, 9, "format version"),
            (21, 1, "payload fractions"),
        ] {
            let mut bytes = sound();
            bytes[at] = value;
            assert_eq!(
                check(&bytes, 8192, false),
                Err(FileError::Damaged {
                    path: "domain.db".into(),
                    what
                })
            );
        }
    }

    #[test]
    fn every_cut_of_a_sound_header_is_an_error_and_no_panic() {
        for cut in 1..HEADER_LEN {
            assert!(
                check(&sound()[..cut], cut as u64, false).is_err(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn identity_decides_before_length() {
        let mut bytes = sound();
        bytes[68] = 0;
        assert!(matches!(
            check(&bytes, 100, false),
            Err(FileError::Foreign { .. })
        ));
        let mut bytes = sound();
        bytes[60..64].copy_from_slice(&(SCHEMA_VERSION + 1).to_be_bytes());
        assert!(matches!(
            check(&bytes, 100, false),
            Err(FileError::Newer { .. })
        ));
    }
}
