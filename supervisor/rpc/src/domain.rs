//! `domain.*`, `task.*`, `run.*` and `recovery.*`: what operations belong to.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `domain.status`. It has no parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusOf {}

/// What goes on in the arbiter. What is recorded is read from the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The arbiter's process id.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// Since when it serves, RFC 3339.
    pub started_at: String,
    /// After how long without clients and operations it ends, in milliseconds; null if never.
    pub idle_ms: Option<u64>,
    /// Whether it is ending.
    pub shutting_down: bool,
    /// Open connections, this one included.
    pub connections: u64,
    /// What it executes at this moment, by id.
    pub in_flight: Vec<InFlight>,
    /// What the files of the artifacts folder take, in bytes.
    pub artifact_bytes: u64,
    /// What they may take.
    pub artifact_max_bytes: u64,
    /// What operations may take together; null from a release that has no budget.
    #[serde(default)]
    pub budget: Option<Budget>,
}

/// What the operations of the domain may take together, and what they have of it. A limit that is null is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// How many operations run at once at most.
    pub max_operations: Option<u64>,
    /// What their memory limits come to at most, in bytes.
    pub max_memory_bytes: Option<u64>,
    /// What they may store of their output, in bytes.
    pub max_output_bytes: Option<u64>,
    /// How many operations have not ended.
    pub operations: u64,
    /// What their memory limits come to, in bytes.
    pub memory_bytes: u64,
    /// What they may store, in bytes.
    pub output_bytes: u64,
    /// How many wait for a part of it, or for a resource.
    pub waiting: u64,
}

/// An operation that the arbiter executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// Its id.
    pub operation_id: String,
    /// The Run that it belongs to.
    pub run_id: String,
    /// How many clients wait for its result.
    pub clients: u64,
    /// Whether it goes on without any.
    pub detached: bool,
}

/// `task.save`: records a body of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SaveTask {
    /// Its name, for people.
    pub name: String,
    /// Whatever its host keeps with it.
    #[serde(default)]
    pub meta: Value,
}

/// The answer to [`SaveTask`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskSaved {
    /// Its id.
    pub task_id: String,
}

/// `run.open`: opens a Run, of a Task that is recorded or of a new one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenRun {
    /// The Task; without one, a Task of this name is recorded.
    #[serde(default)]
    pub task_id: Option<String>,
    /// Name of the Task that is recorded.
    #[serde(default)]
    pub name: Option<String>,
    /// Settings to be recorded; a key that may name a secret is left out.
    #[serde(default)]
    pub config: Value,
}

/// The answer to [`OpenRun`] and [`FindRun`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunOpen {
    /// Its id.
    pub run_id: String,
}

/// `run.find`: asks for a Run that was opened before and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FindRun {
    /// Its id.
    pub run_id: String,
}

/// `run.report`: ends a Run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportRun {
    /// Its id.
    pub run_id: String,
    /// `succeeded`, `failed` or `cancelled`.
    pub status: String,
    /// With `failed`: a termination reason of the journal.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The answer to [`ReportRun`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunReported {
    /// The status that was recorded: `indeterminate` if an operation of the Run is.
    pub status: String,
}

/// `recovery.lastReport`. It has no parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastReportOf {}

/// What was settled when the arbiter took the domain over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastReport {
    /// One for each operation that was unfinished.
    pub decisions: Vec<Decision>,
}

/// One decision of recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The operation.
    pub operation_id: String,
    /// The case, a letter of the table in the documentation of recovery.
    pub case: char,
    /// What follows: `cleaned_unspawned`, `settled_by_last_word`, `marked_dead`, `stopped_alive_process`,
    /// `isolated`.
    pub verdict: String,
    /// How the operation ended, an outcome of the journal.
    pub status: String,
    /// What became of its leases: `freed` or `kept`.
    pub leases: String,
    /// What it rests on, as a sentence.
    pub evidence: String,
    /// Who got a signal from recovery, the first 256.
    pub signalled: Vec<u32>,
    /// How much of its standard output had reached the disk, in bytes; null where there is no file.
    pub stdout_bytes: Option<u64>,
    /// The same for standard error.
    pub stderr_bytes: Option<u64>,
    /// What is to be done by hand, for a stop action that was due and is not known to have succeeded.
    #[serde(default)]
    pub guidance: Option<String>,
}
