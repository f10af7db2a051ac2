//! Reading a domain. One set of questions, for its owner and for readers alike; each answer is
//! of one moment.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Params, Row};

use crate::artifacts;
use crate::error::{DataError, StorageError};
use crate::header::FileError;
use crate::integrity::{self, IntegrityReport, IntegrityStep};
use crate::model::{Event, Lease, Operation, OperationStatus, Output, Owner, Run, RunStatus, Task};
use crate::origin::FileIdentity;
use crate::rows::{self, RowError};
use crate::schema::{ADJUDICATIONS_SINCE, OUTPUT_GAPS_SINCE, OUTPUT_ORDER_SINCE};
use crate::upkeep::{self, Inherited, OpenRun, StoredFile};

/// Why a domain could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no domain here.
    #[error("there is no domain in {}; check the path, or run something in it first", path.display())]
    Absent {
        /// The folder.
        path: PathBuf,
    },
    /// The newest changes are in a log that this user cannot open beside the database, and an
    /// answer without them would be wrong.
    #[error(
        "{} holds the newest changes and cannot be opened; read as the owner of the domain, or copy the folder to a writable place",
        path.display()
    )]
    LogUnreadable {
        /// The log.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file at the place of the database is not one that this release can use.
    #[error(transparent)]
    File(#[from] FileError),
    /// A stored value makes no sense.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The storage underneath refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// How many operations there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub total: u64,
    /// Those without a result.
    pub unfinished: u64,
    /// Those whose end could not be proven.
    pub indeterminate: u64,
    /// Those of them about which nobody has decided.
    pub unadjudicated: u64,
}

/// Which operations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFilter {
    /// Only those of this Run.
    pub run_id: Option<String>,
    /// Only those in this status.
    pub status: Option<OperationStatus>,
    /// At most so many.
    pub limit: Option<usize>,
}

/// Where answers come from: a connection and the file it reads. Sealed, so that SQLite stays
/// out of the interface.
pub(crate) mod sealed {
    use super::{Connection, Path, ReadError};

    /// Lends a connection that only reads.
    pub trait Source {
        /// Runs `ask` on the connection.
        fn with<T>(
            &self,
            ask: impl FnOnce(&Connection, &Path) -> Result<T, ReadError>,
        ) -> Result<T, ReadError>;
    }
}

/// The questions that a domain answers.
///
/// # Errors
/// All of them fail with [`ReadError::Storage`] when SQLite does, and with [`ReadError::Data`]
/// on a stored value that this release does not know.
pub trait Query: sealed::Source + Sized {
    /// The operation of this id.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn operation(&self, id: &str) -> Result<Option<Operation>, ReadError> {
        self.with(|connection, path| {
            let found = operation_columns(connection).and_then(|columns| {
                let sql = format!("SELECT {columns} FROM operations WHERE id = ?1");
                first_of(connection, &sql, [id], rows::operation)
            });
            found.map_err(|e| read_error(path, e))
        })
    }

    /// Operations, the newest first.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn operations(&self, filter: &OperationFilter) -> Result<Vec<Operation>, ReadError> {
        let of_run = match &filter.run_id {
            None => "?1 IS NULL",
            Some(_) => "run_id = ?1",
        };
        let in_status = match filter.status {
            None => "?2 IS NULL",
            Some(OperationStatus::Done) => "status = ?2",
            // Said twice, so that the index of what is unfinished is known to hold the answer.
            Some(_) => "status = ?2 AND status <> 'done'",
        };
        let condition = format!("{of_run} AND {in_status}");
        let rest = format!("{condition} ORDER BY ordinal DESC LIMIT ?3");
        let status = filter.status.map(OperationStatus::as_str);
        let params = (filter.run_id.as_deref(), status, limit(filter.limit));
        operations_where(self, &rest, params)
    }

    /// How many operations there are.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn counts(&self) -> Result<Counts, ReadError> {
        self.with(|connection, path| counted(connection).map_err(|e| read_error(path, e)))
    }

    /// Operations that have no result, the oldest first.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn unfinished(&self) -> Result<Vec<Operation>, ReadError> {
        self.with(|connection, path| {
            upkeep::unfinished(connection).map_err(|e| read_error(path, e))
        })
    }

    /// Operations whose end could not be proven and about which nobody has decided, the oldest
    /// first.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn unadjudicated(&self, at_most: Option<usize>) -> Result<Vec<Operation>, ReadError> {
        self.with(|connection, path| {
            upkeep::unadjudicated(connection, limit(at_most)).map_err(|e| read_error(path, e))
        })
    }

    /// Unfinished operations that were not recorded by an owner of this file, but in the file that
    /// it is a copy of. Their processes may be somebody else's to watch over.
    ///
    /// A reader of a copy that no owner has opened yet answers what that owner will be told.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn inherited(&self) -> Result<Inherited, ReadError> {
        self.with(|connection, path| {
            let found = std::fs::metadata(path).map_err(StorageError::context(path, "examine"))?;
            upkeep::inherited(connection, FileIdentity::of(&found)).map_err(|e| read_error(path, e))
        })
    }

    /// Runs that have not ended, the oldest first, with what decides how they can.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn open_runs(&self) -> Result<Vec<OpenRun>, ReadError> {
        self.with(|connection, path| upkeep::open_runs(connection).map_err(|e| read_error(path, e)))
    }

    /// Files of stored output that have not been given up, the oldest result first: a page of at
    /// most so many, which begins after the last of the page before.
    ///
    /// Those that may not be pruned are among them; see [`StoredFile::kept_because`].
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn stored_files(
        &self,
        after: Option<&StoredFile>,
        at_most: usize,
    ) -> Result<Vec<StoredFile>, ReadError> {
        self.with(|connection, path| {
            upkeep::stored_files(connection, after, limit(Some(at_most)))
                .map_err(|e| read_error(path, e))
        })
    }

    /// The output that is stored in a file of this name, given up or not. What of it is in the journal comes with it.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn output_in(&self, artifact: &str) -> Result<Option<Output>, ReadError> {
        self.with(|connection, path| {
            artifacts::output_in(connection, artifact).map_err(|e| read_error(path, e))
        })
    }

    /// Names of the files that the newest `events` events say were given up, the oldest first. One whose remover
    /// died before it could remove it is among them.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn pruned_lately(&self, events: u32) -> Result<Vec<String>, ReadError> {
        self.with(|connection, path| {
            artifacts::pruned_lately(connection, events).map_err(|e| read_error(path, e))
        })
    }

    /// Operations whose results are among the newest `events` events, the oldest first. The owner that recorded
    /// one may have died before it could remove the file of output that is in the journal now.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn settled_lately(&self, events: u32) -> Result<Vec<String>, ReadError> {
        self.with(|connection, path| {
            artifacts::settled_lately(connection, events).map_err(|e| read_error(path, e))
        })
    }

    /// What is kept of an operation's output, stdout first.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn outputs(&self, operation_id: &str) -> Result<Vec<Output>, ReadError> {
        self.with(|connection, path| {
            output_rows(connection, operation_id).map_err(|e| read_error(path, e))
        })
    }

    /// In which order an operation's two streams were read, as the kernel wrote it.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn output_order(&self, operation_id: &str) -> Result<Option<Vec<u8>>, ReadError> {
        self.with(|connection, path| {
            output_order(connection, operation_id).map_err(|e| read_error(path, e))
        })
    }

    /// The Run of this id.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn run(&self, id: &str) -> Result<Option<Run>, ReadError> {
        first(
            self,
            &format!("SELECT {} FROM runs WHERE id = ?1", rows::RUN),
            [id],
            rows::run,
        )
    }

    /// Runs, the newest first: all, or those in one status.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn runs(&self, status: Option<RunStatus>) -> Result<Vec<Run>, ReadError> {
        let condition = if status.is_some() {
            "status = ?1"
        } else {
            "?1 IS NULL"
        };
        let sql = format!(
            "SELECT {} FROM runs WHERE {condition} ORDER BY ordinal DESC",
            rows::RUN
        );
        all(self, &sql, [status.map(RunStatus::as_str)], rows::run)
    }

    /// The task of this id.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn task(&self, id: &str) -> Result<Option<Task>, ReadError> {
        first(
            self,
            &format!("SELECT {} FROM tasks WHERE id = ?1", rows::TASK),
            [id],
            rows::task,
        )
    }

    /// Events after a position, in order: of one operation, or of all.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn events(
        &self,
        after_seq: i64,
        operation_id: Option<&str>,
        at_most: Option<usize>,
    ) -> Result<Vec<Event>, ReadError> {
        let condition = if operation_id.is_some() {
            "operation_id = ?2"
        } else {
            "?2 IS NULL"
        };
        let sql = format!(
            "SELECT {} FROM journal_events WHERE seq > ?1 AND {condition} ORDER BY seq LIMIT ?3",
            rows::EVENT
        );
        all(
            self,
            &sql,
            (after_seq, operation_id, limit(at_most)),
            rows::event,
        )
    }

    /// The position of the newest event; 0 before the first.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn last_seq(&self) -> Result<i64, ReadError> {
        let sql = "SELECT coalesce(max(seq), 0) FROM journal_events";
        Ok(first(self, sql, [], |row| Ok(row.get(0)?))?.unwrap_or(0))
    }

    /// All leases, by resource.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn leases(&self) -> Result<Vec<Lease>, ReadError> {
        let sql = format!(
            "SELECT {} FROM resource_leases ORDER BY resource_id",
            rows::LEASE
        );
        all(self, &sql, [], rows::lease)
    }

    /// Reads all of the database, and says what is not as it must be: damage that SQLite finds, and rows
    /// that break a rule of the record. `progress` is told of each step before it is taken.
    ///
    /// Takes as long as reading the file does, some seconds a gigabyte. Writes nothing, and works
    /// beside a living owner. What it cannot find is a changed byte inside a value that is still a
    /// possible one: SQLite keeps no sums of its pages.
    ///
    /// # Errors
    /// Those of every question; damage is no error, but in the report.
    fn check_integrity(
        &self,
        progress: impl FnMut(IntegrityStep),
    ) -> Result<IntegrityReport, ReadError> {
        self.with(|connection, path| integrity::check(connection, path, progress))
    }

    /// The owner, present or last; `None` only in a domain that was never opened completely.
    ///
    /// # Errors
    /// Those of every question; see [`Query`].
    fn owner(&self) -> Result<Option<Owner>, ReadError> {
        first(
            self,
            &format!("SELECT {} FROM owners", rows::OWNER),
            [],
            rows::owner,
        )
    }
}

impl<S: sealed::Source> Query for S {}

/// The first row of an answer.
fn first<T>(
    source: &impl sealed::Source,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Result<T, RowError>,
) -> Result<Option<T>, ReadError> {
    source.with(|connection, path| {
        first_of(connection, sql, params, read).map_err(|e| read_error(path, e))
    })
}

/// The columns of an operation in this database. Its version is asked for each time, because an
/// owner may bring it up to date at any moment.
pub(crate) fn operation_columns(connection: &Connection) -> Result<&'static str, RowError> {
    Ok(if version(connection)? < ADJUDICATIONS_SINCE {
        rows::OPERATION_BEFORE_ADJUDICATIONS
    } else {
        rows::OPERATION
    })
}

fn operations_where(
    source: &impl sealed::Source,
    condition: &str,
    params: impl Params,
) -> Result<Vec<Operation>, ReadError> {
    source.with(|connection, path| {
        let found = operation_columns(connection).and_then(|columns| {
            let sql = format!("SELECT {columns} FROM operations WHERE {condition}");
            collect(connection, &sql, params, rows::operation)
        });
        found.map_err(|e| read_error(path, e))
    })
}

fn counted(connection: &Connection) -> Result<Counts, RowError> {
    let undecided = if version(connection)? < ADJUDICATIONS_SINCE {
        "outcome = 'indeterminate'"
    } else {
        "outcome = 'indeterminate' AND adjudication_json IS NULL"
    };
    let sql = format!(
        "SELECT count(*), count(*) FILTER (WHERE status <> 'done'),
                count(*) FILTER (WHERE outcome = 'indeterminate'),
                count(*) FILTER (WHERE {undecided}) FROM operations"
    );
    let counted = first_of(connection, &sql, [], rows::counts)?;
    // An aggregate without GROUP BY always has one row.
    Ok(counted.unwrap_or_default())
}

pub(crate) fn version(connection: &Connection) -> Result<u32, RowError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// The columns of an output, likewise.
pub(crate) fn output_columns(connection: &Connection) -> Result<&'static str, RowError> {
    Ok(match version(connection)? {
        ..OUTPUT_GAPS_SINCE => rows::OUTPUT_BEFORE_GAPS,
        OUTPUT_GAPS_SINCE..ADJUDICATIONS_SINCE => rows::OUTPUT_BEFORE_PRUNING,
        ADJUDICATIONS_SINCE.. => rows::OUTPUT,
    })
}

fn output_rows(connection: &Connection, operation_id: &str) -> Result<Vec<Output>, RowError> {
    let columns = output_columns(connection)?;
    let sql = format!(
        "SELECT {columns} FROM operation_outputs WHERE operation_id = ?1 ORDER BY stream DESC"
    );
    collect(connection, &sql, [operation_id], rows::output)
}

fn output_order(connection: &Connection, id: &str) -> Result<Option<Vec<u8>>, RowError> {
    if version(connection)? < OUTPUT_ORDER_SINCE {
        return Ok(None);
    }
    let sql = "SELECT output_order FROM operations WHERE id = ?1";
    let order = first_of(connection, sql, [id], |row| Ok(row.get(0)?))?;
    Ok(order.flatten())
}

/// All rows of an answer.
fn all<T>(
    source: &impl sealed::Source,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Result<T, RowError>,
) -> Result<Vec<T>, ReadError> {
    source.with(|connection, path| {
        collect(connection, sql, params, read).map_err(|e| read_error(path, e))
    })
}

pub(crate) fn first_of<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Result<T, RowError>,
) -> Result<Option<T>, RowError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    found.next()?.map(read).transpose()
}

pub(crate) fn collect<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Result<T, RowError>,
) -> Result<Vec<T>, RowError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    let mut answer = Vec::new();
    while let Some(row) = found.next()? {
        answer.push(read(row)?);
    }
    Ok(answer)
}

/// In SQL, a negative limit is none.
fn limit(at_most: Option<usize>) -> i64 {
    at_most.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX))
}

pub(crate) fn read_error(path: &Path, error: RowError) -> ReadError {
    match error {
        RowError::Sqlite(e) => StorageError::new(path, "read", e).into(),
        RowError::Data(e) => e.into(),
    }
}
