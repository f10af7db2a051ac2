//! What programs read of the record, whoever asks whom: twins of the records, with times as text and
//! without what only the journal needs. The command line prints them, the arbiter sends them.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use xioflow_journal::{Adjudication, Event, Operation, Pause, PauseMeans, Run};

/// A time of the record, RFC 3339 in UTC.
#[must_use]
pub fn time(ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

/// One line of a list of operations.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationLine {
    operation_id: String,
    run_id: String,
    name: String,
    kind: &'static str,
    status: &'static str,
    /// That it stands still; null while it does not.
    pause: Option<PauseView>,
    outcome: Option<&'static str>,
    exit_code: Value,
    signal: Value,
    termination_reason: Value,
    /// What was decided about an end that could not be proven; null while nobody has, and for any other.
    adjudication: Option<Adjudication>,
    created_at: String,
    finished_at: Option<String>,
    duration_ms: Value,
}

/// That an operation stands still.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PauseView {
    means: PauseMeans,
    since: String,
}

impl From<Pause> for PauseView {
    fn from(pause: Pause) -> Self {
        Self {
            means: pause.means,
            since: time(pause.since_ms),
        }
    }
}

impl From<&Operation> for OperationLine {
    fn from(operation: &Operation) -> Self {
        let field = |name: &str| {
            operation
                .result
                .as_ref()
                .and_then(|result| result.get(name))
                .cloned()
                .unwrap_or_default()
        };
        Self {
            operation_id: operation.id.clone(),
            run_id: operation.run_id.clone(),
            name: operation.name.clone(),
            kind: operation.kind.as_str(),
            status: operation.status.as_str(),
            pause: operation.pause.map(PauseView::from),
            outcome: operation.outcome.map(|outcome| outcome.as_str()),
            exit_code: field("exitCode"),
            signal: field("signal"),
            termination_reason: field("terminationReason"),
            adjudication: operation.adjudication.clone(),
            created_at: time(operation.created_at_ms),
            finished_at: operation.finished_at_ms.map(time),
            // From the submission on, as the result has it.
            duration_ms: field("durationMs"),
        }
    }
}

/// One operation, whole.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationView {
    #[serde(flatten)]
    line: OperationLine,
    task_id: Option<String>,
    run_status: Option<&'static str>,
    input_fingerprint: String,
    required_resources: Vec<String>,
    mutation_roots: Vec<String>,
    timeout_ms: Option<u64>,
    process_identity: Option<Value>,
    holder: Option<Value>,
    spawn_gated: Option<bool>,
    result: Option<Value>,
}

impl OperationView {
    /// Puts it together; `result` is the recorded one with its output.
    #[must_use]
    pub fn new(operation: &Operation, run: Option<&Run>, result: Option<Value>) -> Self {
        Self {
            line: operation.into(),
            task_id: run.map(|run| run.task_id.clone()),
            run_status: run.map(|run| run.status.as_str()),
            input_fingerprint: operation.input_fingerprint.clone(),
            required_resources: operation.required_resources.clone(),
            mutation_roots: operation.mutation_roots.clone(),
            timeout_ms: operation.timeout_ms,
            process_identity: operation.process_identity.clone(),
            holder: operation.holder.clone(),
            spawn_gated: operation.spawn_gated,
            result,
        }
    }
}

/// One event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    seq: i64,
    #[serde(rename = "type")]
    kind: String,
    run_id: Option<String>,
    operation_id: Option<String>,
    timestamp: String,
    payload: Value,
}

impl From<Event> for EventView {
    fn from(event: Event) -> Self {
        Self {
            seq: event.seq,
            kind: event.kind,
            run_id: event.run_id,
            operation_id: event.operation_id,
            timestamp: time(event.timestamp_ms),
            payload: event.payload,
        }
    }
}
