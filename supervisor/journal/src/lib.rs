//! The durable record of a domain: who owns it, what ran in it, who holds what, what happened.
//!
//! A domain is a folder. One process at a time owns it, through a [`Journal`]; anybody may look
//! on, through a [`Reader`]. Both answer the same questions, those of [`Query`]. This crate
//! knows SQLite and that folder, and nothing of processes, frames or terminals.
//!
//! # Use
//!
//! ```
//! use serde_json::json;
//! use xioflow_journal::{Change, Journal, OpenOptions, Query, Reader, Task};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("domain");
//! let journal = Journal::open(&path, &OpenOptions::default())?;
//! let task = Task { id: "t".into(), name: "build".into(), created_at_ms: 0, meta: json!({}) };
//! journal.commit(vec![Change::SaveTask(task)])?;
//!
//! let reader = Reader::open(&path)?;
//! assert_eq!(reader.task("t")?.map(|t| t.name), Some("build".into()));
//! journal.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds
//!
//! - A commit is all or nothing, and on disk when [`Journal::commit`] returns. Commits that come
//!   together share one disk write; one that comes alone is written on the calling thread.
//! - The rules of the record are checked inside the transaction, so no caller can race past
//!   them: see [`Rejected`].
//! - An owner that has lost its lock file, its epoch, or a file that SQLite writes to commits nothing
//!   more, ever: [`CommitError::Fenced`].
//! - A copy of a domain knows that it is one: [`Query::inherited`].
//! - No migration comes without a backup: [`OpenError::Backup`].
//! - A file that is foreign, newer or damaged is refused before anything is written to it.
//! - Argument values, environment values and input have no place in the interface.
//!
//! # Limits inherited from the system
//!
//! - Locks and shared memory need a file system of one host. Those of several are refused by name,
//!   and every lock is tried out once it is taken; a FUSE file system that is a network and passes
//!   that trial is not noticed.
//! - POSIX locks die with *any* descriptor of their file. While a process has a domain open, it
//!   must not open and close `domain.db` by other means than this crate (or SQLite itself).
//! - A wait for another owner that is given up leaves a thread asleep until that owner is gone:
//!   fcntl(2) has no time limit. The thread then drops the lock at once; an opening without
//!   wait in just that moment finds the domain in use.
//!
//! # Testing with it
//!
//! A domain in a temporary folder is cheap (some milliseconds) and real; there is no mock.
//! [`Journal::stats`] counts transactions for tests of sharing.

#![forbid(unsafe_code)]

mod apply;
mod artifacts;
mod backup;
mod claim;
mod clock;
mod connection;
mod create;
mod error;
mod events;
mod fence;
mod filesystem;
mod folder;
mod footing;
mod header;
mod integrity;
mod journal;
mod lock;
mod log_header;
mod main_file;
mod model;
mod open;
mod origin;
mod owner;
#[cfg(test)]
mod plans;
mod points;
mod query;
mod queue;
mod reader;
mod records;
mod rows;
mod schema;
mod upkeep;
mod watch;
mod writer;

pub use apply::Rejected;
pub use error::{Cause, DataError, DataFault, Fault, StorageError};
pub use events::STOP_ACTION_BEGUN;
pub use fence::FenceReason;
pub use folder::DomainDir;
pub use header::FileError;
pub use integrity::{IntegrityReport, IntegrityStep, Problem};
pub use journal::{CommitReceipt, Journal, Stats, Unsettled};
pub use lock::{LockNote, OwnerState};
pub use model::*;
pub use open::{OpenError, OpenOptions};
pub use origin::OpenedAs;
pub use query::{Counts, OperationFilter, Query, ReadError};
pub use reader::Reader;
pub use records::{LazyReader, Records};
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use upkeep::{Inherited, KeptBecause, OpenRun, StoredFile};
pub use writer::CommitError;
