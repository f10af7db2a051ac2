//! Why an owner has lost its domain, and what it still does for the record then.

use rusqlite::Connection;

use crate::footing::{Part, Slip};
use crate::model::Owner;

/// How it became clear that the domain is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FenceReason {
    /// The lock file is gone, so anybody may have taken the domain.
    #[error("its lock file was deleted")]
    LockFileGone,
    /// Another file lies where the lock file was.
    #[error("its lock file was replaced")]
    LockFileReplaced,
    /// The database's file is gone, and what is written goes nowhere.
    #[error("it was deleted")]
    DatabaseGone,
    /// Another file lies where the database was.
    #[error("it was replaced by another file")]
    DatabaseReplaced,
    /// The log of the newest changes is gone, and what is written to it goes nowhere.
    #[error("it was deleted; {}", saved(*is_saved))]
    LogGone {
        /// Whether all that was in it has been written to the database.
        is_saved: bool,
    },
    /// Another file lies where the log was.
    #[error("it was replaced by another file; {}", saved(*is_saved))]
    LogReplaced {
        /// Whether all that was in it has been written to the database.
        is_saved: bool,
    },
    /// The log was cut off or written to by somebody else.
    #[error("it was changed by another program, and the newest changes may be lost")]
    LogChanged,
    /// The shared memory of the log is gone, so readers do not learn of what is written.
    #[error("it was deleted, so nobody sees what is written")]
    SharedMemoryGone,
    /// Another file lies where the shared memory of the log was.
    #[error("it was replaced by another file, so nobody sees what is written")]
    SharedMemoryReplaced,
    /// The owner row names somebody else.
    #[error("epoch {ours} is over, {} is in force", found.as_ref().map_or_else(|| "none".to_owned(), |o| format!("{} of {}", o.epoch, o.owner_id)))]
    Superseded {
        /// Our epoch.
        ours: i64,
        /// The row as it is now.
        found: Option<Owner>,
    },
}

const fn saved(is_saved: bool) -> &'static str {
    if is_saved {
        "what was committed before is in the database"
    } else {
        "what was committed last may be lost"
    }
}

/// The reason that follows from files that are not as they were.
///
/// A log that has lost its name is still open here, and nowhere else. Whatever is in it is brought
/// into the database before its last reader goes: those commits were promised.
pub(crate) fn reason(slip: Slip, connection: &Connection) -> FenceReason {
    match slip {
        Slip::Gone(Part::Lock) => FenceReason::LockFileGone,
        Slip::Replaced(Part::Lock) => FenceReason::LockFileReplaced,
        Slip::Gone(Part::Database) => FenceReason::DatabaseGone,
        Slip::Replaced(Part::Database) => FenceReason::DatabaseReplaced,
        Slip::Gone(Part::SharedMemory) => FenceReason::SharedMemoryGone,
        Slip::Replaced(Part::SharedMemory) => FenceReason::SharedMemoryReplaced,
        Slip::Gone(Part::Log) => FenceReason::LogGone {
            is_saved: save_log(connection),
        },
        Slip::Replaced(Part::Log) => FenceReason::LogReplaced {
            is_saved: save_log(connection),
        },
        Slip::LogChanged => FenceReason::LogChanged,
    }
}

/// Writes the log back into the database; says whether all of it went.
fn save_log(connection: &Connection) -> bool {
    checkpoint(connection, "FULL").is_ok_and(|log| log.is_written_back())
}

/// What SQLite says of its log.
pub(crate) struct LogFrames {
    is_busy: bool,
    all: i64,
    written_back: i64,
}

impl LogFrames {
    fn is_written_back(&self) -> bool {
        !self.is_busy && self.all == self.written_back
    }

    /// Whether there is nothing in the log that the database lacks, and no frame to be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0
    }
}

/// Asks about the log without touching it.
pub(crate) fn log_frames(connection: &Connection) -> rusqlite::Result<LogFrames> {
    checkpoint(connection, "NOOP")
}

fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<LogFrames> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(LogFrames {
            is_busy: row.get(0)?,
            all: row.get(1)?,
            written_back: row.get(2)?,
        })
    })
}
