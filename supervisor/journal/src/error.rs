//! What every part of the journal can run into: trouble of the storage underneath, and a stored
//! value that makes no sense. The errors of single tasks live beside their code.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};
use rustix::io::Errno;

use crate::model::UnknownName;

/// Trouble with a file of the domain or the file system under it.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}: {fault}", path.display())]
pub struct StorageError {
    /// The file or folder.
    pub path: PathBuf,
    /// What was being done to it, as a verb.
    pub doing: &'static str,
    /// What kind of trouble.
    pub fault: Fault,
    /// What the system or SQLite said.
    pub source: Cause,
}

/// Kinds of storage trouble that call for different action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The file system is mounted read-only (EROFS).
    ReadOnly,
    /// This user may not do it (EACCES, EPERM).
    Denied,
    /// No space or no quota is left (ENOSPC, EDQUOT, SQLITE_FULL).
    Full,
    /// SQLite found the database damaged (SQLITE_CORRUPT, SQLITE_NOTADB) or shorter than it should be
    /// (SQLITE_IOERR_SHORT_READ).
    Corrupt,
    /// The device or its driver reported an error (EIO, SQLITE_IOERR).
    Device,
    /// A file could not be opened (SQLITE_CANTOPEN).
    Unopenable,
    /// The file system has no advisory locks (EOPNOTSUPP, ENOLCK, ENOSYS; EINVAL of fcntl(2)), or has
    /// some that keep nobody out.
    NoLocks,
    /// The file system cannot carry a write-ahead log.
    NoWriteAheadLog,
    /// A foreign program kept the database locked for longer than the busy limit.
    Busy,
    /// Anything else; the source says what.
    Other,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "the file system is read-only; choose a domain in a writable place, or only read from it",
            Self::Denied => "permission denied; run as the owner of the domain, or choose another folder",
            Self::Full => "no space is left; free some and try again",
            Self::Corrupt => "the database is damaged; keep a copy of the folder, and see `xioflow doctor --domain DIR` for what can be done",
            Self::Device => "the disk reported an error; see the cause and the system's log, then check the domain with `xioflow doctor --domain DIR`",
            Self::Unopenable => "a file of the database cannot be opened; see that it is a file and may be opened, then `xioflow doctor --domain DIR`",
            Self::NoLocks => "the file system has no working locks; put the domain on a local disk (--domain DIR, XIOFLOW_DOMAIN)",
            Self::NoWriteAheadLog => "the file system cannot carry a write-ahead log; put the domain on a local disk (--domain DIR, XIOFLOW_DOMAIN)",
            Self::Busy => "another program keeps the database locked; close it and try again",
            Self::Other => "the system refused; see the cause",
        })
    }
}

/// What the system or SQLite said.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// SQLite failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl StorageError {
    /// Classifies `cause`, which came of `doing` something to `path`.
    pub(crate) fn new(path: &Path, doing: &'static str, cause: impl Into<Cause>) -> Self {
        let source = cause.into();
        let fault = match &source {
            Cause::Io(e) => fault_of_io(e),
            Cause::Sqlite(e) => fault_of_sqlite(path, e),
        };
        Self {
            path: path.to_owned(),
            doing,
            fault,
            source,
        }
    }

    /// For use with `map_err`.
    pub(crate) fn context<C: Into<Cause>>(
        path: &Path,
        doing: &'static str,
    ) -> impl FnOnce(C) -> Self {
        move |cause| Self::new(path, doing, cause)
    }
}

fn fault_of_io(error: &io::Error) -> Fault {
    match Errno::from_io_error(error) {
        Some(Errno::ROFS) => Fault::ReadOnly,
        Some(Errno::ACCESS | Errno::PERM) => Fault::Denied,
        Some(Errno::NOSPC | Errno::DQUOT) => Fault::Full,
        Some(Errno::IO) => Fault::Device,
        Some(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS) => Fault::NoLocks,
        _ => Fault::Other,
    }
}

fn fault_of_sqlite(path: &Path, error: &rusqlite::Error) -> Fault {
    let extended = error.sqlite_error().map(|e| e.extended_code);
    match error.sqlite_error_code() {
        _ if extended == Some(ffi::SQLITE_IOERR_SHORT_READ) => Fault::Corrupt,
        Some(ErrorCode::DiskFull) => Fault::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Fault::Corrupt,
        Some(ErrorCode::ReadOnly) => Fault::ReadOnly,
        Some(ErrorCode::PermissionDenied) => Fault::Denied,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fault::Busy,
        // SQLite keeps the errno of these to itself, so the file system is asked.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if is_full(path) => Fault::Full,
        Some(ErrorCode::SystemIoFailure) => Fault::Device,
        Some(ErrorCode::CannotOpen) => Fault::Unopenable,
        _ => Fault::Other,
    }
}

/// Whether the file system under `path` has no free block left for this user.
fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|s| s.f_blocks > 0 && s.f_bavail == 0)
}

/// A stored value that this release cannot make sense of.
#[derive(Debug, thiserror::Error)]
#[error("column {column} of {row} is unreadable")]
pub struct DataError {
    /// The column.
    pub column: &'static str,
    /// The table and the key of the row.
    pub row: String,
    /// What is wrong with it.
    pub source: DataFault,
}

/// What is wrong with a stored value.
#[derive(Debug, thiserror::Error)]
pub enum DataFault {
    /// A name from a newer release, or from elsewhere.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// Text that is not the JSON it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A number outside its range.
    #[error("{0} is out of range")]
    Range(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_errno(errno: Errno) -> Fault {
        StorageError::new(Path::new("/"), "write", errno).fault
    }

    fn of_sqlite(code: i32) -> Fault {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        StorageError::new(Path::new("/"), "write", error).fault
    }

    #[test]
    fn troubles_are_told_apart() {
        assert_eq!(of_errno(Errno::ROFS), Fault::ReadOnly);
        assert_eq!(of_errno(Errno::ACCESS), Fault::Denied);
        assert_eq!(of_errno(Errno::NOSPC), Fault::Full);
        assert_eq!(of_errno(Errno::DQUOT), Fault::Full);
        assert_eq!(of_errno(Errno::OPNOTSUPP), Fault::NoLocks);
        assert_eq!(of_errno(Errno::NOLCK), Fault::NoLocks);
        assert_eq!(of_errno(Errno::NOSYS), Fault::NoLocks);
        assert_eq!(of_errno(Errno::IO), Fault::Device);
        assert_eq!(of_errno(Errno::XDEV), Fault::Other);
        assert_eq!(of_sqlite(ffi::SQLITE_FULL), Fault::Full);
        assert_eq!(of_sqlite(ffi::SQLITE_CORRUPT), Fault::Corrupt);
        assert_eq!(of_sqlite(ffi::SQLITE_NOTADB), Fault::Corrupt);
        assert_eq!(of_sqlite(ffi::SQLITE_READONLY), Fault::ReadOnly);
        assert_eq!(of_sqlite(ffi::SQLITE_BUSY), Fault::Busy);
        assert_eq!(of_sqlite(ffi::SQLITE_IOERR), Fault::Device);
        assert_eq!(of_sqlite(ffi::SQLITE_IOERR_FSYNC), Fault::Device);
        assert_eq!(of_sqlite(ffi::SQLITE_IOERR_SHORT_READ), Fault::Corrupt);
        assert_eq!(of_sqlite(ffi::SQLITE_CANTOPEN), Fault::Unopenable);
        assert_eq!(of_sqlite(ffi::SQLITE_PERM), Fault::Denied);
        assert_eq!(of_sqlite(ffi::SQLITE_ERROR), Fault::Other);
    }

    #[test]
    fn messages_name_the_file_and_the_remedy() {
        let error = StorageError::new(Path::new("/d/domain.lock"), "lock", Errno::NOLCK);
        assert_eq!(
            error.to_string(),
            "lock /d/domain.lock: the file system has no working locks; put the domain on a local disk (--domain DIR, XIOFLOW_DOMAIN)"
        );
        assert!(std::error::Error::source(&error).is_some());
    }
}
