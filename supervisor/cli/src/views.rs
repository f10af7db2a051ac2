//! What programs read: twins of the records, with times as text and without what only the
//! journal needs.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use xioflow_kernel::journal::{Event, Lease, LockNote, Operation, OwnerState, Run, Stream};
use xioflow_kernel::{OperationResult, TextView, text_view};

/// A time, RFC 3339 in UTC.
pub(crate) fn time(ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

/// One line of a list of operations.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperationLine {
    operation_id: String,
    run_id: String,
    name: String,
    kind: &'static str,
    status: &'static str,
    outcome: Option<&'static str>,
    exit_code: Value,
    signal: Value,
    termination_reason: Value,
    created_at: String,
    finished_at: Option<String>,
    duration_ms: Value,
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
            outcome: operation.outcome.map(|outcome| outcome.as_str()),
            exit_code: field("exitCode"),
            signal: field("signal"),
            termination_reason: field("terminationReason"),
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
pub(crate) struct OperationView {
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
    pub(crate) fn new(operation: &Operation, run: Option<&Run>, result: Option<Value>) -> Self {
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

/// A result with its output as texts to read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WithViews<'a> {
    #[serde(flatten)]
    result: &'a OperationResult,
    stdout_view: TextView,
    stderr_view: TextView,
}

impl<'a> WithViews<'a> {
    pub(crate) fn of(result: &'a OperationResult) -> Self {
        let view = |stream| text_view(&result.kept_output(stream));
        Self {
            result,
            stdout_view: view(Stream::Stdout),
            stderr_view: view(Stream::Stderr),
        }
    }
}

/// One event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventView {
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

/// Who owns the domain now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerView {
    /// `held`, `free`, or `cannot_tell`.
    pub(crate) state: &'static str,
    /// What the owner says of itself.
    pub(crate) note: Option<LockNote>,
    /// Why it cannot be told.
    pub(crate) why: Option<String>,
}

impl From<OwnerState> for OwnerView {
    fn from(state: OwnerState) -> Self {
        match state {
            OwnerState::Held { note } => Self {
                state: "held",
                note,
                why: None,
            },
            OwnerState::Free => Self {
                state: "free",
                note: None,
                why: None,
            },
            OwnerState::CannotTell { why } => Self {
                state: "cannot_tell",
                note: None,
                why: Some(why),
            },
        }
    }
}

/// A held resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseView {
    pub(crate) resource: String,
    pub(crate) operation_id: String,
    acquired_at: String,
}

impl From<Lease> for LeaseView {
    fn from(lease: Lease) -> Self {
        Self {
            resource: lease.resource_id,
            operation_id: lease.operation_id,
            acquired_at: time(lease.acquired_at_ms),
        }
    }
}
