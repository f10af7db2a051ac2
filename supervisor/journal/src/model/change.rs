//! What a commit is made of: the changes of the record, as their callers state them. The rules
//! they must keep are in `apply`.

use serde_json::Value;

#[cfg(doc)]
use super::Operation;
use super::{
    Adjudication, OperationKind, OperationStatus, Outcome, Output, PauseMeans, PruneReason,
    ReplayMode, Run, RunStatus, Stream, Task, TerminationReason,
};

/// One step of a commit. The steps of one commit happen together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Adds a task, or gives a known one another name and meta.
    SaveTask(Task),
    /// Adds a Run.
    AddRun(Run),
    /// Adds an operation in status `intent_registered` with its leases, and journals
    /// `OPERATION_INTENT_REGISTERED`.
    RegisterOperation(Box<NewOperation>),
    /// Adds an operation of which nothing has run and nothing will, without leases and without
    /// an event: its result follows in the same commit.
    AddOperation(Box<NewOperation>),
    /// Gives a registered operation its process and journals the transition to `active`.
    ActivateOperation {
        /// Which.
        operation_id: String,
        /// Who its process is.
        process_identity: Value,
        /// Who holds it.
        holder: Value,
    },
    /// Journals the transition of an active operation to `stopping`.
    StopOperation {
        /// Which.
        operation_id: String,
        /// Why it is stopped.
        reason: TerminationReason,
    },
    /// Journals `OPERATION_PAUSED`: every process of an active operation stands still, and none did before.
    PauseOperation {
        /// Which.
        operation_id: String,
        /// By what.
        means: PauseMeans,
    },
    /// Journals `OPERATION_RESUMED`: a paused operation goes on.
    ResumeOperation {
        /// Which.
        operation_id: String,
    },
    /// Journals `STOP_ACTION_BEGUN`: what was declared for the end of an unfinished operation has a process,
    /// which waits at its gate. Once for an operation.
    BeginStopAction {
        /// Which.
        operation_id: String,
        /// Who its process is.
        process_identity: Value,
        /// Who holds it.
        holder: Value,
    },
    /// Keeps in which order the streams of an unfinished operation were read.
    KeepOutputOrder {
        /// Which.
        operation_id: String,
        /// The order, as the kernel writes it.
        order: Vec<u8>,
    },
    /// Gives an unfinished operation its result; once.
    FinishOperation(Box<Finish>),
    /// Decides about a finished operation whose end could not be proven, once: keeps the
    /// decision, journals `OPERATION_ADJUDICATED` and frees its leases.
    Adjudicate {
        /// Which.
        operation_id: String,
        /// What was decided.
        adjudication: Adjudication,
    },
    /// Records that the file of one output is given up, and journals `OUTPUT_PRUNED`. The caller
    /// removes the file once this is durable.
    PruneOutput {
        /// The operation; it is done, its end is known or decided about, and its Run has ended.
        operation_id: String,
        /// Which of its streams.
        stream: Stream,
        /// Why.
        reason: PruneReason,
    },
    /// Journals that a submission was answered from the record.
    NoteReplay {
        /// The operation that answered.
        operation_id: String,
        /// How.
        mode: ReplayMode,
        /// The Run that asked.
        calling_run_id: String,
        /// The Run the operation belongs to.
        original_run_id: String,
        /// The operation's status when it answered.
        original_status: OperationStatus,
    },
    /// Journals `HOST_MOVING`: the processes of a delegated control group are about to be moved, so that it can hand
    /// controllers to the groups below it.
    NoteHostMoving {
        /// The group, as a path.
        group: String,
        /// The controllers, with spaces between them.
        controllers: String,
    },
    /// Journals `HOST_MOVED`: they were moved.
    NoteHostMoved {
        /// To this group, as a path.
        group: String,
        /// How many there were.
        processes: u32,
    },
    /// Ends a Run, as `succeeded` only when all of its operations are done and the end of each is
    /// known or decided about; a Run that has the same terminal status already is left alone.
    EndRun {
        /// Which.
        run_id: String,
        /// A terminal status.
        status: RunStatus,
        /// Why.
        reason: TerminationReason,
    },
}

/// A new operation.
#[derive(Debug, Clone, PartialEq)]
pub struct NewOperation {
    /// See [`Operation::id`].
    pub id: String,
    /// See [`Operation::run_id`]; the Run must exist and must not have ended.
    pub run_id: String,
    /// See [`Operation::kind`].
    pub kind: OperationKind,
    /// See [`Operation::name`].
    pub name: String,
    /// See [`Operation::input_fingerprint`].
    pub input_fingerprint: String,
    /// Resources to lease with it; each must be free.
    pub required_resources: Vec<String>,
    /// See [`Operation::mutation_roots`].
    pub mutation_roots: Vec<String>,
    /// See [`Operation::capability_id`].
    pub capability_id: Option<String>,
    /// See [`Operation::timeout_ms`].
    pub timeout_ms: Option<u64>,
    /// See [`Operation::resource_budget`].
    pub resource_budget: Option<Value>,
    /// See [`Operation::spawn_gated`].
    pub spawn_gated: Option<bool>,
}

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The operation.
    pub operation_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The result as JSON, without output text.
    pub result: Value,
    /// What is kept of its output.
    pub outputs: Vec<Output>,
    /// Whether its leases are freed; they are kept when its end cannot be proven.
    pub release_resources: bool,
}
