//! Reading a domain that somebody else may own: no lock, no byte of the database changed.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::connection;
use crate::error::StorageError;
use crate::folder::DomainDir;
use crate::header::Header;
use crate::lock::{self, OwnerState};
use crate::log_header;
use crate::main_file::MainFile;
use crate::open::has_content;
use crate::query::{Query, ReadError, sealed};
use crate::queue::locked;
use crate::watch::Watch;

/// A domain opened for reading.
///
/// Works beside a live owner, after a crash and after a clean close. Where the folder can be
/// written, SQLite keeps its shared-memory file beside the log; the database itself is never
/// written. In a read-only folder without a log the database is read as it lies.
#[derive(Debug)]
pub struct Reader {
    dir: DomainDir,
    // Dropped in this order: the descriptor must outlive the connection.
    connection: Mutex<Attached>,
    watch: Mutex<Option<Watch>>,
    _main: MainFile,
}

/// A connection and how it was made.
#[derive(Debug)]
struct Attached {
    connection: Connection,
    /// Opened without looking for a log. It goes stale the moment a log appears.
    is_immutable: bool,
}

impl Reader {
    /// Opens the domain in `dir` for reading.
    ///
    /// # Errors
    /// [`ReadError::Absent`] without a domain; [`ReadError::File`] if the database is not one
    /// that this release can read; [`ReadError::LogUnreadable`] if the newest changes are out
    /// of reach; [`ReadError::Storage`] for the rest.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, ReadError> {
        let dir = dir.as_ref();
        let dir = DomainDir::new(dir).map_err(StorageError::context(dir, "find the folder"))?;
        let main = check_file(&dir)?;
        let connection = Mutex::new(attach(&dir)?);
        Ok(Self {
            dir,
            connection,
            watch: Mutex::new(None),
            _main: main,
        })
    }

    /// The paths of the domain.
    #[must_use]
    pub fn dir(&self) -> &DomainDir {
        &self.dir
    }

    /// Whether somebody owns the domain now. Asks the kernel about the lock, without taking it.
    #[must_use]
    pub fn owner_state(&self) -> OwnerState {
        lock::owner_state(&self.dir.lock())
    }

    /// Waits until there are events after `seq`; returns the position of the newest, or `None`
    /// when `timeout` is over first.
    ///
    /// Sleeps in the kernel. The owner touches its lock file after each commit, and a file
    /// watch (inotify(7)) reports that; the owner's end wakes too.
    ///
    /// # Errors
    /// As for any question; and [`ReadError::Storage`] if the folder cannot be watched.
    pub fn changed_since(&self, seq: i64, timeout: Duration) -> Result<Option<i64>, ReadError> {
        let begun = Instant::now();
        let mut watch = locked(&self.watch);
        // The watch stands before the question is asked, so no change falls between them.
        let watch = match &mut *watch {
            Some(watch) => watch,
            empty => empty.insert(self.begin_watch()?),
        };
        loop {
            let newest = self.last_seq()?;
            if newest > seq {
                return Ok(Some(newest));
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if !watch
                .wait(left)
                .map_err(StorageError::context(self.dir.root(), "watch"))?
            {
                return Ok(None);
            }
        }
    }

    fn begin_watch(&self) -> Result<Watch, StorageError> {
        Watch::new(self.dir.root()).map_err(StorageError::context(self.dir.root(), "watch"))
    }
}

impl sealed::Source for Reader {
    fn with<T>(
        &self,
        ask: impl FnOnce(&Connection, &Path) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let mut attached = locked(&self.connection);
        if attached.is_immutable && self.dir.log().exists() {
            *attached = attach(&self.dir)?;
        }
        ask(&attached.connection, &self.dir.database())
    }
}

/// Looks at the database file before SQLite does.
fn check_file(dir: &DomainDir) -> Result<MainFile, ReadError> {
    let database = dir.database();
    let absent = || ReadError::Absent {
        path: dir.root().to_owned(),
    };
    let main = match MainFile::open(&database) {
        Ok(main) => main,
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Err(absent());
        }
        Err(e) => return Err(StorageError::new(&database, "open", e).into()),
    };
    let (bytes, len) = main
        .read_header()
        .map_err(StorageError::context(&database, "read"))?;
    let has_log = has_content(&dir.log())?;
    Header {
        path: &database,
        bytes: &bytes,
        len,
        has_log,
    }
    .check()?;
    log_header::check(&dir.log())?;
    Ok(main)
}

/// Connects, with the log if there is one. The first statement decides whether that works:
/// SQLite looks for the log only then.
fn attach(dir: &DomainDir) -> Result<Attached, ReadError> {
    let database = dir.database();
    let normal = connection::open_for_reading(&database)
        .and_then(|c| connection::identity(&c, &database).map(|identity| (c, identity)));
    let error = match normal {
        Ok((connection, identity)) => {
            identity?;
            return Ok(Attached {
                connection,
                is_immutable: false,
            });
        }
        Err(error) => error,
    };
    if has_content(&dir.log())? {
        return Err(unreadable(dir, error));
    }
    let storage = || StorageError::context(&database, "open");
    let connection = connection::open_immutable(&database).map_err(storage())?;
    connection::identity(&connection, &database).map_err(storage())??;
    Ok(Attached {
        connection,
        is_immutable: true,
    })
}

/// Damage is damage; anything else that keeps SQLite out while there is a log is about the log.
fn unreadable(dir: &DomainDir, source: rusqlite::Error) -> ReadError {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly, SystemIoFailure};
    match source.sqlite_error_code() {
        Some(CannotOpen | PermissionDenied | ReadOnly | SystemIoFailure) => {
            ReadError::LogUnreadable {
                path: dir.log(),
                source,
            }
        }
        _ => StorageError::new(&dir.database(), "open", source).into(),
    }
}
