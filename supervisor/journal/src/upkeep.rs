//! What recovery and pruning ask of a domain: Runs that are open, ends that nobody has decided
//! about, stored files by age. Part of `query`; the rules of the changes that follow are in `apply`.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row, params};

use crate::model::{Operation, Outcome, Run, RunStatus, Stream};
use crate::origin::{self, FileIdentity, OpenedAs};
use crate::owner;
use crate::query::{collect, operation_columns, version};
use crate::rows::{self, Key, RowError};
use crate::schema::ADJUDICATIONS_SINCE;

/// Unfinished operations that an owner of another file has recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Those of a file that this one is a copy of. Nothing that is found of them is this
    /// domain's: no process of theirs is to be signalled or waited for.
    pub copied: BTreeSet<String>,
    /// Those of this inode on a device that had another number. A process of theirs that still
    /// lives shows that this is a snapshot, and is not this domain's either.
    pub renumbered: BTreeSet<String>,
}

/// A Run that has not ended, with what decides how it can.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenRun {
    /// The Run.
    pub run: Run,
    /// How many operations it has.
    pub operations: u64,
    /// How many of them have no result.
    pub unfinished: u64,
    /// How many ended in a way that could not be proven, and nobody has decided about.
    pub unadjudicated: u64,
}

/// A stored file of a finished operation's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// The operation.
    pub operation_id: String,
    /// Which of its streams.
    pub stream: Stream,
    /// Name of the file in the artifacts folder.
    pub artifact: String,
    /// How much the command wrote to the stream.
    pub total_bytes: u64,
    /// When the result was recorded.
    pub finished_at_ms: i64,
    /// The operation's Run.
    pub run_id: String,
    /// Where that is.
    pub run_status: RunStatus,
    /// How the operation ended.
    pub outcome: Outcome,
    /// Whether an end that could not be proven was decided about.
    pub is_adjudicated: bool,
    /// Position of the operation, for the page that follows.
    ordinal: i64,
}

/// Why a stored file may not be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeptBecause {
    /// The operation's end is unknown, and the file may be what tells it.
    Indeterminate,
    /// The operation's Run is open, and may still ask for it.
    OpenRun,
}

impl StoredFile {
    /// Why the file may not be given up; `None` if it may. `Change::PruneOutput` checks the same.
    #[must_use]
    pub const fn kept_because(&self) -> Option<KeptBecause> {
        if matches!(self.outcome, Outcome::Indeterminate) && !self.is_adjudicated {
            Some(KeptBecause::Indeterminate)
        } else if !self.run_status.is_terminal() {
            Some(KeptBecause::OpenRun)
        } else {
            None
        }
    }
}

/// Names its index: left alone, SQLite goes through all of the table to save itself a sort.
pub(crate) fn unfinished(connection: &Connection) -> Result<Vec<Operation>, RowError> {
    let columns = operation_columns(connection)?;
    let sql = format!(
        "SELECT {columns} FROM operations INDEXED BY operations_unfinished
         WHERE status <> 'done' ORDER BY ordinal"
    );
    collect(connection, &sql, [], rows::operation)
}

pub(crate) fn unadjudicated(
    connection: &Connection,
    at_most: i64,
) -> Result<Vec<Operation>, RowError> {
    let columns = operation_columns(connection)?;
    let (index, undecided) = if version(connection)? < ADJUDICATIONS_SINCE {
        ("", "")
    } else {
        (
            "INDEXED BY operations_unadjudicated",
            "AND adjudication_json IS NULL",
        )
    };
    let sql = format!(
        "SELECT {columns} FROM operations {index} WHERE outcome = 'indeterminate' {undecided}
         ORDER BY ordinal LIMIT ?1"
    );
    collect(connection, &sql, [at_most], rows::operation)
}

pub(crate) fn inherited(
    connection: &Connection,
    found: FileIdentity,
) -> Result<Inherited, RowError> {
    if version(connection)? < ADJUDICATIONS_SINCE {
        return Ok(Inherited::default());
    }
    let marks =
        "SELECT coalesce(max(copied_through), 0), coalesce(max(renumbered_through), 0) FROM owners";
    let (mut copied, mut renumbered): (i64, i64) =
        connection.query_row(marks, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match origin::compare(owner::file(connection)?, found) {
        OpenedAs::Copy => copied = i64::MAX,
        OpenedAs::Renumbered => renumbered = i64::MAX,
        OpenedAs::New | OpenedAs::Same | OpenedAs::Unrecorded => {}
    }
    Ok(Inherited {
        copied: unfinished_between(connection, 0, copied)?,
        renumbered: unfinished_between(connection, copied, renumbered)?,
    })
}

/// Ids of unfinished operations after one ordinal and up to another.
fn unfinished_between(
    connection: &Connection,
    after: i64,
    through: i64,
) -> Result<BTreeSet<String>, RowError> {
    let sql = "SELECT id FROM operations INDEXED BY operations_unfinished
               WHERE status <> 'done' AND ordinal > ?1 AND ordinal <= ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let ids = statement.query_map([after, through], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

pub(crate) fn open_runs(connection: &Connection) -> Result<Vec<OpenRun>, RowError> {
    let undecided = if version(connection)? < ADJUDICATIONS_SINCE {
        ""
    } else {
        "AND adjudication_json IS NULL"
    };
    let count = |condition: &str| {
        format!("(SELECT count(*) FROM operations o WHERE o.run_id = runs.id {condition})")
    };
    let sql = format!(
        "SELECT {}, {} AS operations, {} AS unfinished, {} AS unadjudicated FROM runs
         WHERE status IN ('queued', 'starting', 'running', 'stopping') ORDER BY ordinal",
        rows::RUN,
        count(""),
        count("AND status <> 'done'"),
        count(&format!("AND outcome = 'indeterminate' {undecided}")),
    );
    collect(connection, &sql, [], open_run)
}

fn open_run(row: &Row<'_>) -> Result<OpenRun, RowError> {
    let run = rows::run(row)?;
    let key = Key::new("runs", &run.id);
    let count = |column| rows::optional_unsigned(row, column, key).map(Option::unwrap_or_default);
    Ok(OpenRun {
        operations: count("operations")?,
        unfinished: count("unfinished")?,
        unadjudicated: count("unadjudicated")?,
        run,
    })
}

/// Goes along the index of operations that have files. The streams of one operation are the
/// inner loop, so a page can begin between them.
pub(crate) fn stored_files(
    connection: &Connection,
    after: Option<&StoredFile>,
    at_most: i64,
) -> Result<Vec<StoredFile>, RowError> {
    let (has_files, decided, kept) = if version(connection)? < ADJUDICATIONS_SINCE {
        ("o.output_ref IS NOT NULL", "0", "1")
    } else {
        (
            "o.has_files = 1",
            "o.adjudication_json IS NOT NULL",
            "x.pruned_at_ms IS NULL",
        )
    };
    let sql = format!(
        "SELECT o.ordinal, o.id, o.run_id, o.finished_at_ms, o.outcome, {decided} AS is_adjudicated,
             r.status AS run_status, x.stream, x.artifact, x.total_bytes
         FROM operations o CROSS JOIN operation_outputs x ON x.operation_id = o.id
              CROSS JOIN runs r ON r.id = o.run_id
         WHERE {has_files} AND x.artifact IS NOT NULL AND {kept}
           AND (o.finished_at_ms, o.ordinal) >= (?1, ?2) AND NOT (o.ordinal = ?2 AND x.stream <= ?3)
         ORDER BY o.finished_at_ms, o.ordinal, x.stream LIMIT ?4"
    );
    let (finished_at_ms, ordinal, stream) = after.map_or((i64::MIN, i64::MIN, ""), |file| {
        (file.finished_at_ms, file.ordinal, file.stream.as_str())
    });
    let params = params![finished_at_ms, ordinal, stream, at_most];
    collect(connection, &sql, params, stored_file)
}

fn stored_file(row: &Row<'_>) -> Result<StoredFile, RowError> {
    let operation_id: String = row.get("id")?;
    let run_id: String = row.get("run_id")?;
    let key = Key::new("operations", &operation_id);
    let output = Key::new("operation_outputs", &operation_id);
    Ok(StoredFile {
        stream: rows::named(row, "stream", output)?,
        artifact: row.get("artifact")?,
        total_bytes: rows::optional_unsigned(row, "total_bytes", output)?.unwrap_or_default(),
        finished_at_ms: row.get("finished_at_ms")?,
        run_status: rows::named(row, "run_status", Key::new("runs", &run_id))?,
        outcome: rows::named(row, "outcome", key)?,
        is_adjudicated: row.get("is_adjudicated")?,
        ordinal: row.get("ordinal")?,
        run_id,
        operation_id,
    })
}
