//! One batch of requests, one transaction: ownership first, then each request in a savepoint of
//! its own, then one commit. `queue` says who runs it; `apply` says what a change does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi::{SQLITE_CORRUPT, SQLITE_IOERR, SQLITE_NOTADB};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use xioflow_killpoint as killpoint;

use crate::apply::{self, ApplyError, Rejected, Span};
use crate::clock;
use crate::connection;
use crate::error::{DataError, StorageError};
use crate::fence::{self, FenceReason};
use crate::footing::{Footing, Part, Slip};
use crate::journal::CommitReceipt;
use crate::model::{Change, Owner};
use crate::owner;
use crate::points;
use crate::query::{ReadError, sealed};
use crate::queue::locked;

/// Why a commit did not happen. It is all or nothing: none of its changes are in the record.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// A rule of the record forbids it. The journal and other requests are not affected.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// This owner has lost the domain. Every later commit fails the same way.
    #[error("{} is no longer ours: {reason}; stop, and open it again", path.display())]
    Fenced {
        /// The file that shows it.
        path: PathBuf,
        /// What was found.
        reason: FenceReason,
    },
    /// The storage refused. Nothing of the batch is recorded; the journal can be used on.
    #[error(transparent)]
    Storage(Arc<StorageError>),
    /// The storage failed so that nobody can tell, before the domain is opened again, whether
    /// the batch is durable. Every later commit fails the same way.
    #[error(
        "the journal is unusable after a storage failure; open the domain again to see what was recorded"
    )]
    Broken(#[source] Arc<StorageError>),
    /// A stored value that a change depends on makes no sense.
    #[error(transparent)]
    Data(Arc<DataError>),
    /// The thread that was committing for this one panicked. The journal can be used on, but
    /// whether this request was recorded has to be read.
    #[error(
        "the thread that was committing this request panicked; read the record to see whether it was kept"
    )]
    Abandoned,
}

/// The write side of an open domain.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: Mutex<Option<Connection>>,
    database: PathBuf,
    footing: Footing,
    owner: Owner,
    /// What every commit answers, once set.
    poison: Mutex<Option<CommitError>>,
    pub(crate) counts: Counts,
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) transactions: AtomicU64,
    pub(crate) largest_batch: AtomicU64,
}

type Answer = Result<CommitReceipt, CommitError>;

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        database: PathBuf,
        footing: Footing,
        owner: Owner,
    ) -> Self {
        Self {
            connection: Mutex::new(Some(connection)),
            database,
            footing,
            owner,
            poison: Mutex::new(None),
            counts: Counts::default(),
        }
    }

    /// Commits a batch; the answers are in the order of the requests.
    pub(crate) fn run(&self, batch: &[Vec<Change>]) -> Vec<Answer> {
        self.counts
            .requests
            .fetch_add(batch.len() as u64, Ordering::Relaxed);
        match self.transact(batch) {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn transact(&self, batch: &[Vec<Change>]) -> Result<Vec<Answer>, CommitError> {
        let guard = locked(&self.connection);
        let Some(connection) = guard.as_ref() else {
            unreachable!("a commit borrows the journal, and closing consumes it");
        };
        self.check_footing(connection)?;
        let answers = self.transact_on(connection, batch);
        // What has been committed is; a log that cannot be looked at is told of next time.
        drop(self.footing.leave_log());
        answers
    }

    fn transact_on(
        &self,
        connection: &Connection,
        batch: &[Vec<Change>],
    ) -> Result<Vec<Answer>, CommitError> {
        let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        let mut transaction = begun.map_err(|e| self.storage("write", e))?;
        self.check_row(&transaction)?;
        let answers = self.apply_all(&mut transaction, batch)?;
        if answers.iter().all(Result::is_err) {
            transaction
                .rollback()
                .map_err(|e| self.breaks("roll back", e))?;
            return Ok(answers);
        }
        points::each(batch, "before-commit");
        transaction.commit().map_err(|e| self.commit_failed(e))?;
        points::each(batch, "after-commit");
        self.counts.transactions.fetch_add(1, Ordering::Relaxed);
        self.counts
            .largest_batch
            .fetch_max(batch.len() as u64, Ordering::Relaxed);
        // Followers are told after the change has become visible. It is durable by now, so a
        // bell that will not ring is theirs to notice by their time limit, not a failed commit.
        drop(self.footing.lock().ring());
        Ok(answers)
    }

    fn apply_all(
        &self,
        transaction: &mut Transaction<'_>,
        batch: &[Vec<Change>],
    ) -> Result<Vec<Answer>, CommitError> {
        let now_ms = clock::now_ms();
        batch
            .iter()
            .map(|changes| self.apply_one(transaction, changes, now_ms))
            .collect()
    }

    /// Applies one request. The outer error is the batch's, the inner one the request's own.
    fn apply_one(
        &self,
        transaction: &mut Transaction<'_>,
        changes: &[Change],
        now_ms: i64,
    ) -> Result<Answer, CommitError> {
        let savepoint = transaction
            .savepoint()
            .map_err(|e| self.storage("write", e))?;
        let error = match apply::apply(&savepoint, changes, now_ms) {
            Ok(span) => {
                savepoint.commit().map_err(|e| self.storage("write", e))?;
                return Ok(Ok(span.into()));
            }
            Err(ApplyError::Rejected(rejected)) => rejected.into(),
            Err(ApplyError::Data(error)) => CommitError::Data(Arc::new(error)),
            Err(ApplyError::Sqlite(error)) => self.storage("write", error),
        };
        // After some errors, a full disk among them, SQLite has undone the whole transaction.
        if savepoint.is_autocommit() {
            return Err(error);
        }
        savepoint
            .finish()
            .map_err(|e| self.breaks("roll back", e))?;
        Ok(Err(error))
    }

    /// Whether this owner still has the domain, by its files and the owner row.
    pub(crate) fn check(&self) -> Result<(), CommitError> {
        match locked(&self.connection).as_ref() {
            Some(connection) => {
                self.check_footing(connection)?;
                self.check_row(connection)
            }
            None => unreachable!("a check borrows the journal, and closing consumes it"),
        }
    }

    /// Whether the files are those that were opened.
    fn check_footing(&self, connection: &Connection) -> Result<(), CommitError> {
        if let Some(poison) = &*locked(&self.poison) {
            return Err(poison.clone());
        }
        // Not being able to look is no proof of loss: this batch fails, later ones may not.
        let (part, slip) = match self.footing.look().map_err(examined)? {
            None => return Ok(()),
            Some(Slip::LogChanged) if log_is_empty(connection) => {
                // Another program has asked SQLite to empty the log, after writing it back.
                return self.footing.leave_log().map_err(examined);
            }
            Some(slip @ Slip::LogChanged) => (Part::Log, slip),
            Some(slip @ (Slip::Gone(part) | Slip::Replaced(part))) => (part, slip),
        };
        let path = self.footing.path(part);
        Err(self.fenced(path, fence::reason(slip, connection)))
    }

    fn fenced(&self, path: &Path, reason: FenceReason) -> CommitError {
        let path = path.to_owned();
        self.poisoned(CommitError::Fenced { path, reason })
    }

    fn check_row(&self, connection: &Connection) -> Result<(), CommitError> {
        let found = owner::read(connection)
            .map_err(|e| self.storage("read", e))?
            .map(|claim| claim.owner);
        match found {
            Some(found)
                if found.epoch == self.owner.epoch && found.owner_id == self.owner.owner_id =>
            {
                Ok(())
            }
            found => {
                let reason = FenceReason::Superseded {
                    ours: self.owner.epoch,
                    found,
                };
                Err(self.poisoned(CommitError::Fenced {
                    path: self.database.clone(),
                    reason,
                }))
            }
        }
    }

    /// A commit that ran out of space has left no trace. After any other failure to write or to
    /// sync, the commit record may or may not have reached the disk.
    fn commit_failed(&self, error: rusqlite::Error) -> CommitError {
        let code = error.sqlite_error().map_or(0, |e| e.extended_code & 0xff);
        match code {
            SQLITE_IOERR | SQLITE_CORRUPT | SQLITE_NOTADB => self.breaks("commit to", error),
            _ => self.storage("commit to", error),
        }
    }

    fn storage(&self, doing: &'static str, error: rusqlite::Error) -> CommitError {
        CommitError::Storage(Arc::new(StorageError::new(&self.database, doing, error)))
    }

    fn breaks(&self, doing: &'static str, error: rusqlite::Error) -> CommitError {
        self.poisoned(CommitError::Broken(Arc::new(StorageError::new(
            &self.database,
            doing,
            error,
        ))))
    }

    fn poisoned(&self, error: CommitError) -> CommitError {
        locked(&self.poison).get_or_insert(error).clone()
    }

    /// Gives the domain back: marks the row, writes the log back, and leaves the lock to be
    /// dropped. An owner that has lost the domain marks nothing.
    pub(crate) fn close(&self) -> Result<(), StorageError> {
        let Some(connection) = locked(&self.connection).take() else {
            return Ok(());
        };
        killpoint::pass(|| "close:before-release");
        // Looked at once more: closing must not take away files that are another's by now.
        drop(self.check_footing(&connection));
        let released = match &*locked(&self.poison) {
            Some(_) => Ok(()),
            None => connection::relax_commits(&connection)
                .and_then(|()| owner::release(&connection, &self.owner, clock::now_ms()))
                .and_then(|()| connection::checkpoint_on_close(&connection)),
        };
        killpoint::pass(|| "close:released");
        let closed = connection.close().map_err(|(_, e)| e);
        killpoint::pass(|| "close:checkpointed");
        released
            .and(closed)
            .map_err(StorageError::context(&self.database, "close"))?;
        let lock = self.footing.lock();
        lock.clear_note()
            .map_err(StorageError::context(lock.path(), "clear"))
    }
}

fn examined(error: StorageError) -> CommitError {
    CommitError::Storage(Arc::new(error))
}

fn log_is_empty(connection: &Connection) -> bool {
    fence::log_frames(connection).is_ok_and(|log| log.is_empty())
}

impl sealed::Source for Writer {
    fn with<T>(
        &self,
        ask: impl FnOnce(&Connection, &Path) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match locked(&self.connection).as_ref() {
            Some(connection) => ask(connection, &self.database),
            None => unreachable!("a question borrows the journal, and closing consumes it"),
        }
    }
}

impl Drop for Writer {
    /// Closes without telling of errors: whatever was committed is durable already.
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl From<Span> for CommitReceipt {
    fn from(span: Span) -> Self {
        Self {
            first_seq: span.first,
            last_seq: span.last,
        }
    }
}
