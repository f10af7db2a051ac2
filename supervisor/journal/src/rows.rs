//! From stored rows to values. Whatever is stored, the answer is a value or an error that
//! names the row and the column; never a panic.

use std::str::FromStr;

use rusqlite::Row;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{DataError, DataFault};
use crate::model::{
    Adjudication, Event, Gap, Lease, Operation, Output, Owner, Run, Stream, Task, UnknownName,
};
use crate::query::Counts;

/// Why a row could not be read.
#[derive(Debug)]
pub(crate) enum RowError {
    Sqlite(rusqlite::Error),
    Data(DataError),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Which row, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    table: &'static str,
    id: &'a str,
}

impl<'a> Key<'a> {
    pub(crate) fn new(table: &'static str, id: &'a str) -> Self {
        Self { table, id }
    }

    fn fault(self, column: &'static str, source: impl Into<DataFault>) -> RowError {
        RowError::Data(DataError {
            column,
            row: format!("{} {:?}", self.table, self.id),
            source: source.into(),
        })
    }
}

/// A list of names as JSON.
pub(crate) fn list_text(names: &[String]) -> String {
    Value::from(names.to_vec()).to_string()
}

pub(crate) fn parse<T: FromStr<Err = UnknownName>>(
    text: &str,
    column: &'static str,
    key: Key<'_>,
) -> Result<T, RowError> {
    text.parse().map_err(|e: UnknownName| key.fault(column, e))
}

pub(crate) fn named<T: FromStr<Err = UnknownName>>(
    row: &Row<'_>,
    column: &'static str,
    key: Key<'_>,
) -> Result<T, RowError> {
    parse(
        row.get_ref(column)?
            .as_str()
            .map_err(rusqlite::Error::from)?,
        column,
        key,
    )
}

pub(crate) fn optional_named<T: FromStr<Err = UnknownName>>(
    row: &Row<'_>,
    column: &'static str,
    key: Key<'_>,
) -> Result<Option<T>, RowError> {
    let text = row
        .get_ref(column)?
        .as_str_or_null()
        .map_err(rusqlite::Error::from)?;
    text.map(|text| parse(text, column, key)).transpose()
}

pub(crate) fn parse_json(
    text: &str,
    column: &'static str,
    key: Key<'_>,
) -> Result<Value, RowError> {
    serde_json::from_str(text).map_err(|e| key.fault(column, e))
}

fn json(row: &Row<'_>, column: &'static str, key: Key<'_>) -> Result<Value, RowError> {
    parse_json(
        row.get_ref(column)?
            .as_str()
            .map_err(rusqlite::Error::from)?,
        column,
        key,
    )
}

pub(crate) fn optional_json(
    row: &Row<'_>,
    column: &'static str,
    key: Key<'_>,
) -> Result<Option<Value>, RowError> {
    let text = row
        .get_ref(column)?
        .as_str_or_null()
        .map_err(rusqlite::Error::from)?;
    text.map(|text| parse_json(text, column, key)).transpose()
}

fn list(row: &Row<'_>, column: &'static str, key: Key<'_>) -> Result<Vec<String>, RowError> {
    let text = row
        .get_ref(column)?
        .as_str()
        .map_err(rusqlite::Error::from)?;
    serde_json::from_str(text).map_err(|e| key.fault(column, e))
}

fn unsigned(value: i64, column: &'static str, key: Key<'_>) -> Result<u64, RowError> {
    u64::try_from(value).map_err(|_| key.fault(column, DataFault::Range(value)))
}

pub(crate) fn optional_unsigned(
    row: &Row<'_>,
    column: &'static str,
    key: Key<'_>,
) -> Result<Option<u64>, RowError> {
    let value: Option<i64> = row.get(column)?;
    value.map(|value| unsigned(value, column, key)).transpose()
}

pub(crate) const TASK: &str = "id, name, created_at_ms, meta_json";

pub(crate) fn task(row: &Row<'_>) -> Result<Task, RowError> {
    let id: String = row.get("id")?;
    let key = Key::new("tasks", &id);
    Ok(Task {
        name: row.get("name")?,
        created_at_ms: row.get("created_at_ms")?,
        meta: json(row, "meta_json", key)?,
        id,
    })
}

pub(crate) const RUN: &str =
    "id, task_id, owner, status, termination_reason, started_at_ms, ended_at_ms, config_json";

pub(crate) fn run(row: &Row<'_>) -> Result<Run, RowError> {
    let id: String = row.get("id")?;
    let key = Key::new("runs", &id);
    Ok(Run {
        task_id: row.get("task_id")?,
        owner: row.get("owner")?,
        status: named(row, "status", key)?,
        termination_reason: optional_named(row, "termination_reason", key)?,
        started_at_ms: row.get("started_at_ms")?,
        ended_at_ms: row.get("ended_at_ms")?,
        config: json(row, "config_json", key)?,
        id,
    })
}

pub(crate) const OPERATION: &str = "id, run_id, kind, name, input_fingerprint, status, required_resources_json,
    mutation_roots_json, capability_id, timeout_ms, resource_budget_json, output_ref, process_identity_json,
    holder_json, spawn_gated, created_at_ms, finished_at_ms, outcome, result_json, adjudication_json,
    CASE status WHEN 'active' THEN (
        SELECT CASE type WHEN 'OPERATION_PAUSED'
               THEN json_object('means', json_extract(payload_json, '$.means'), 'sinceMs', timestamp_ms) END
        FROM journal_events
        WHERE operation_id = operations.id AND type IN ('OPERATION_PAUSED', 'OPERATION_RESUMED')
        ORDER BY seq DESC LIMIT 1) END AS pause_json";

/// The same of a database that no owner of this release has opened yet.
pub(crate) const OPERATION_BEFORE_ADJUDICATIONS: &str = "id, run_id, kind, name, input_fingerprint, status,
    required_resources_json, mutation_roots_json, capability_id, timeout_ms, resource_budget_json, output_ref,
    process_identity_json, holder_json, spawn_gated, created_at_ms, finished_at_ms, outcome, result_json,
    NULL AS adjudication_json, NULL AS pause_json";

pub(crate) fn operation(row: &Row<'_>) -> Result<Operation, RowError> {
    let id: String = row.get("id")?;
    let key = Key::new("operations", &id);
    let timeout_ms: Option<i64> = row.get("timeout_ms")?;
    Ok(Operation {
        run_id: row.get("run_id")?,
        kind: named(row, "kind", key)?,
        name: row.get("name")?,
        input_fingerprint: row.get("input_fingerprint")?,
        status: named(row, "status", key)?,
        required_resources: list(row, "required_resources_json", key)?,
        mutation_roots: list(row, "mutation_roots_json", key)?,
        capability_id: row.get("capability_id")?,
        timeout_ms: timeout_ms
            .map(|ms| unsigned(ms, "timeout_ms", key))
            .transpose()?,
        resource_budget: optional_json(row, "resource_budget_json", key)?,
        output_ref: row.get("output_ref")?,
        process_identity: optional_json(row, "process_identity_json", key)?,
        holder: optional_json(row, "holder_json", key)?,
        spawn_gated: row.get("spawn_gated")?,
        created_at_ms: row.get("created_at_ms")?,
        finished_at_ms: row.get("finished_at_ms")?,
        outcome: optional_named(row, "outcome", key)?,
        result: optional_json(row, "result_json", key)?,
        adjudication: adjudication(row, key)?,
        pause: read_json(row, "pause_json", key)?,
        id,
    })
}

/// What was decided about an operation, if anything was.
pub(crate) fn adjudication(row: &Row<'_>, key: Key<'_>) -> Result<Option<Adjudication>, RowError> {
    read_json(row, "adjudication_json", key)
}

fn read_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &'static str,
    key: Key<'_>,
) -> Result<Option<T>, RowError> {
    let text = row
        .get_ref(column)?
        .as_str_or_null()
        .map_err(rusqlite::Error::from)?;
    text.map(|text| serde_json::from_str(text).map_err(|e| key.fault(column, e)))
        .transpose()
}

pub(crate) const OUTPUT: &str = "operation_id, stream, total_bytes, lines, sha256, artifact,
    content, gap_from, gap_to, spill_error, pruned_at_ms";

/// The same of a database that has gaps and nothing pruned.
pub(crate) const OUTPUT_BEFORE_PRUNING: &str =
    "operation_id, stream, total_bytes, lines, sha256, artifact,
    content, gap_from, gap_to, spill_error, NULL AS pruned_at_ms";

/// The same of a database that no owner of this release has opened yet.
pub(crate) const OUTPUT_BEFORE_GAPS: &str = "operation_id, stream, total_bytes, NULL AS lines,
    sha256, artifact, content, NULL AS gap_from, NULL AS gap_to, spill_error, NULL AS pruned_at_ms";

pub(crate) fn output(row: &Row<'_>) -> Result<Output, RowError> {
    let id: String = row.get("operation_id")?;
    let key = Key::new("operation_outputs", &id);
    Ok(Output {
        stream: named::<Stream>(row, "stream", key)?,
        total_bytes: unsigned(row.get("total_bytes")?, "total_bytes", key)?,
        lines: optional_unsigned(row, "lines", key)?,
        sha256: row.get("sha256")?,
        artifact: row.get("artifact")?,
        content: row.get("content")?,
        gap: gap(row, key)?,
        spill_error: row.get("spill_error")?,
        pruned_at_ms: row.get("pruned_at_ms")?,
    })
}

/// Both ends are there or neither, and in order: the schema says so, and whoever reads a gap
/// subtracts one from the other.
fn gap(row: &Row<'_>, key: Key<'_>) -> Result<Option<Gap>, RowError> {
    let from = optional_unsigned(row, "gap_from", key)?;
    let to: Option<i64> = row.get("gap_to")?;
    let Some((from, to)) = from.zip(to) else {
        return Ok(None);
    };
    match unsigned(to, "gap_to", key)? {
        end if end > from => Ok(Some(Gap { from, to: end })),
        _ => Err(key.fault("gap_to", DataFault::Range(to))),
    }
}

pub(crate) const EVENT: &str = "seq, run_id, operation_id, type, payload_json, timestamp_ms";

pub(crate) fn event(row: &Row<'_>) -> Result<Event, RowError> {
    let seq: i64 = row.get("seq")?;
    Ok(Event {
        seq,
        run_id: row.get("run_id")?,
        operation_id: row.get("operation_id")?,
        kind: row.get("type")?,
        payload: json(
            row,
            "payload_json",
            Key::new("journal_events", &seq.to_string()),
        )?,
        timestamp_ms: row.get("timestamp_ms")?,
    })
}

pub(crate) const LEASE: &str = "resource_id, operation_id, acquired_at_ms";

pub(crate) fn lease(row: &Row<'_>) -> Result<Lease, RowError> {
    Ok(Lease {
        resource_id: row.get("resource_id")?,
        operation_id: row.get("operation_id")?,
        acquired_at_ms: row.get("acquired_at_ms")?,
    })
}

pub(crate) fn counts(row: &Row<'_>) -> Result<Counts, RowError> {
    let count = |at: usize| {
        row.get::<_, i64>(at)
            .map(|value| u64::try_from(value).unwrap_or(0))
    };
    Ok(Counts {
        total: count(0)?,
        unfinished: count(1)?,
        indeterminate: count(2)?,
        unadjudicated: count(3)?,
    })
}

pub(crate) const OWNER: &str = "owner_id, epoch, pid, hostname, acquired_at_ms, released_at_ms";

pub(crate) fn owner(row: &Row<'_>) -> Result<Owner, RowError> {
    Ok(Owner {
        owner_id: row.get("owner_id")?,
        epoch: row.get("epoch")?,
        pid: row.get("pid")?,
        hostname: row.get("hostname")?,
        acquired_at_ms: row.get("acquired_at_ms")?,
        released_at_ms: row.get("released_at_ms")?,
    })
}
