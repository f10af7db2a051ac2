//! An open domain, as its owner has it: the write side behind a queue, the read side on a
//! connection of its own.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use rusqlite::Connection;

use crate::claim::Taken;
use crate::connection;
use crate::error::StorageError;
use crate::folder::DomainDir;
use crate::footing::Footing;
use crate::main_file::MainFile;
use crate::model::{Change, Lease, Operation, Owner};
use crate::open::{self, OpenError, OpenOptions};
use crate::origin::OpenedAs;
use crate::query::{Query, ReadError, sealed};
use crate::queue::{Queue, locked};
use crate::writer::{CommitError, Writer};

/// A domain that this process owns, until it is closed or dropped.
///
/// All methods take `&self` and may be called from any number of threads. Questions are asked
/// through [`Query`](crate::Query) and never wait for a commit.
#[derive(Debug)]
pub struct Journal {
    queue: Queue<Vec<Change>, Result<CommitReceipt, CommitError>>,
    dir: DomainDir,
    domain_id: String,
    owner: Owner,
    opened_as: OpenedAs,
    is_log_missing: bool,
    before: Option<Owner>,
    // Dropped in this order: the connections, then the descriptor that must outlive them.
    /// Opened with the first question: a command that asks none does not pay for it.
    readings: Mutex<Option<Connection>>,
    writer: Writer,
    _main: MainFile,
}

/// What opening has put together.
pub(crate) struct Parts {
    pub(crate) writer: Connection,
    pub(crate) main: MainFile,
    pub(crate) taken: Taken,
    pub(crate) dir: DomainDir,
    pub(crate) footing: Footing,
}

/// The events of one commit. Both are `None` when it had none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// Position of the first.
    pub first_seq: Option<i64>,
    /// Position of the last.
    pub last_seq: Option<i64>,
}

/// What a new owner must know before it admits anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Unsettled {
    /// Operations without a result, the oldest first.
    pub operations: Vec<Operation>,
    /// Every lease that is held.
    pub leases: Vec<Lease>,
}

/// What a journal has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Requests taken up, refused ones included.
    pub requests: u64,
    /// Transactions committed; each is one durable write.
    pub transactions: u64,
    /// The most requests that shared one transaction.
    pub largest_batch: u64,
    /// Requests in line at this moment.
    pub waiting: usize,
}

impl Journal {
    /// Takes the domain in `dir`, and makes it if it is not there.
    ///
    /// On return the lock is held, the schema is current, and a new epoch is durable. Waits for
    /// at most `options.wait` for another owner to leave, without polling.
    ///
    /// # Errors
    /// See [`OpenError`]. After a failure nothing has changed and no lock is held.
    pub fn open(dir: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, OpenError> {
        open::open(dir.as_ref(), options)
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            writer,
            main,
            taken,
            dir,
            footing,
        } = parts;
        let Taken {
            claim,
            opened_as,
            is_log_missing,
        } = taken;
        Self {
            queue: Queue::new(),
            writer: Writer::new(writer, dir.database(), footing, claim.owner.clone()),
            readings: Mutex::new(None),
            dir,
            domain_id: claim.domain_id,
            owner: claim.owner,
            opened_as,
            is_log_missing,
            before: claim.before,
            _main: main,
        }
    }

    /// Makes `changes` part of the record, all or none, in this order.
    ///
    /// On return they are on disk (fdatasync(2) of the log). When no other commit is going on
    /// this happens on the calling thread at once; else the request joins the next batch and
    /// shares its disk write. Requests are taken in the order of their arrival.
    ///
    /// # Errors
    /// See [`CommitError`]; in every case but [`CommitError::Broken`] and
    /// [`CommitError::Abandoned`] it is certain that nothing was recorded.
    pub fn commit(&self, changes: Vec<Change>) -> Result<CommitReceipt, CommitError> {
        self.queue
            .submit(changes, |batch| self.writer.run(&batch))
            .unwrap_or(Err(CommitError::Abandoned))
    }

    /// Checks that this process still owns the domain: the lock file is the one that it holds
    /// locked, and the owner row names it. Every commit checks the same.
    ///
    /// # Errors
    /// [`CommitError::Fenced`] if it does not, then and ever after; [`CommitError::Storage`] if
    /// it cannot be told.
    pub fn verify_ownership(&self) -> Result<(), CommitError> {
        self.writer.check()
    }

    /// What earlier owners have left unsettled. Asked on the connection that commits, so it is for
    /// the time before there is anything to commit.
    ///
    /// # Errors
    /// As for any question.
    pub fn unsettled(&self) -> Result<Unsettled, ReadError> {
        Ok(Unsettled {
            operations: self.writer.unfinished()?,
            leases: self.writer.leases()?,
        })
    }

    /// The paths of the domain.
    #[must_use]
    pub fn dir(&self) -> &DomainDir {
        &self.dir
    }

    /// The domain's name.
    #[must_use]
    pub fn domain_id(&self) -> &str {
        &self.domain_id
    }

    /// This opening, as the owner row had it when the domain was taken.
    #[must_use]
    pub fn claim(&self) -> &Owner {
        &self.owner
    }

    /// As what this opening found the database: the file of its last owner, or a copy of it. What
    /// an earlier opening noticed of unfinished operations is in [`Query::inherited`].
    #[must_use]
    pub fn opened_as(&self) -> OpenedAs {
        self.opened_as
    }

    /// Who had the domain before this opening, as it left the owner row: without
    /// [`Owner::released_at_ms`] it died. `None` in a new domain.
    #[must_use]
    pub fn before(&self) -> Option<&Owner> {
        self.before.as_ref()
    }

    /// Whether the last owner had not left in order, and the log that such an owner leaves was not
    /// there. What it had recorded last may be lost; or another program has written the log back
    /// into the database, and nothing is.
    #[must_use]
    pub fn is_log_missing(&self) -> bool {
        self.is_log_missing
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counts = &self.writer.counts;
        Stats {
            requests: counts.requests.load(Ordering::Relaxed),
            transactions: counts.transactions.load(Ordering::Relaxed),
            largest_batch: counts.largest_batch.load(Ordering::Relaxed),
            waiting: self.queue.waiting(),
        }
    }

    /// Gives the domain back: marks the owner row released, writes the log back into the
    /// database, and drops the lock. Dropping a journal does the same without telling of errors.
    ///
    /// # Errors
    /// [`StorageError`] if a step failed. The lock is dropped all the same, and whatever was
    /// committed stays: a log left behind is read by the next opening.
    pub fn close(self) -> Result<(), StorageError> {
        let Self {
            readings,
            writer,
            _main,
            ..
        } = self;
        // The reading connection goes first: the last one to close writes the log back.
        drop(readings);
        writer.close()
    }
}

impl sealed::Source for Journal {
    fn with<T>(
        &self,
        ask: impl FnOnce(&Connection, &Path) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let database = self.dir.database();
        let mut readings = locked(&self.readings);
        let connection = match &mut *readings {
            Some(connection) => connection,
            none => none.insert(
                connection::open_for_reading(&database)
                    .map_err(StorageError::context(&database, "open"))?,
            ),
        };
        ask(connection, &database)
    }
}
