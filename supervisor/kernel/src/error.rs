//! Errors of the kernel, one variant for each thing that a caller can act on.
//!
//! How a command ended is never an error: that is an [`crate::OperationResult`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use xioflow_journal::{CommitError, OpenError, OperationStatus, ReadError, Rejected, RunStatus};

use crate::command::InvalidCommand;
use crate::driver::Driver;
use crate::groups::GroupRefused;
use crate::helper::{LinkError, LocateError};
use crate::leases::{Bytes, Scarcity, Shortage};
use crate::limits::InvalidLimits;
use crate::operation::StoredError;
use crate::result::OperationResult;

/// Why a domain cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The helper's program was not found.
    #[error(transparent)]
    Helper(#[from] LocateError),
    /// A helper could not be started.
    #[error(transparent)]
    Start(#[from] LinkError),
    /// This process cannot be made the net below its helpers.
    #[error("failed to become a child subreaper")]
    Subreaper(#[source] io::Error),
    /// `/proc` is that of another pid namespace: what it says of a number is about somebody else.
    #[error(
        "/proc shows another pid namespace than the one that this process is in, so no process could be identified"
    )]
    ForeignProc,
    /// There is no `/proc`, it cannot be read, or a part of it that is needed is not there.
    #[error(
        "{0}; without /proc no process could be identified, neither now nor after a crash, so nothing runs"
    )]
    NoProc(String),
    /// The journal refuses.
    #[error(transparent)]
    Journal(#[from] OpenError),
    /// The domain's arbiter cannot be used.
    #[error(transparent)]
    Arbiter(#[from] ArbiterError),
    /// There is something that could be the domain's arbiter, and no way to work with it.
    #[error(transparent)]
    Connect(#[from] xioflow_client::ConnectError),
    /// No arbiter could be started.
    #[error(transparent)]
    StartArbiter(#[from] xioflow_client::StartError),
    /// A folder of the domain cannot be used.
    #[error("failed to open {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What an earlier owner left could not be settled.
    #[error("failed to settle what an earlier owner of {} left", path.display())]
    Recovery {
        /// The domain.
        path: PathBuf,
        /// Why.
        source: Box<ExecuteError>,
    },
}

/// Why an arbiter did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ArbiterError {
    /// It is gone.
    #[error("the arbiter of {} is gone; the next client starts another one", folder.display())]
    Lost {
        /// The domain.
        folder: PathBuf,
    },
    /// It refused, for a reason that has no error of its own here.
    #[error("{message}")]
    Refused {
        /// What kind of refusal it is, one of [`xioflow_rpc::refusal::kind`].
        kind: String,
        /// What happened, to what.
        message: String,
        /// What led to it, the nearest cause first.
        causes: Vec<String>,
        /// What to do about it.
        hint: Option<String>,
    },
    /// It could not be reached, or sent what cannot be understood.
    #[error("failed to speak to the domain's arbiter")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a submission has no result of its own.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The command cannot be one.
    #[error(transparent)]
    Invalid(#[from] InvalidCommand),
    /// The operation's id cannot be one.
    #[error("an operation id has 1 to {OPERATION_ID_MAX_BYTES} bytes, this one has {len}")]
    InvalidId {
        /// Its length in bytes.
        len: usize,
    },
    /// A resource has no name.
    #[error("{lease:?} names no resource; write one such as port:8080 or workspace:write:DIR")]
    InvalidLease {
        /// What was asked for.
        lease: String,
    },
    /// The time limit is longer than any record can say.
    #[error("a time limit of {} s is more than the most that can be recorded, {} s", timeout.as_secs(), TIMEOUT_MAX.as_secs())]
    InvalidTimeout {
        /// What was asked for.
        timeout: Duration,
    },
    /// The limits on what it may use cannot be meant.
    #[error(transparent)]
    InvalidLimits(#[from] InvalidLimits),
    /// The id is taken by an operation with other inputs.
    #[error(
        "operation {operation_id} exists with other inputs (recorded {existing_fingerprint}, \
         requested {requested_fingerprint}); use another id"
    )]
    IdConflict {
        /// The operation.
        operation_id: String,
        /// What it was recorded with.
        existing_fingerprint: String,
        /// What was submitted.
        requested_fingerprint: String,
        /// Its status.
        status: OperationStatus,
        /// Its Run.
        run_id: String,
    },
    /// The operation is unfinished and this process does not run it.
    #[error(
        "operation {operation_id} of run {run_id} is {status} and nobody here runs it; recover the domain first"
    )]
    RecoveryRequired {
        /// The operation.
        operation_id: String,
        /// Its status.
        status: OperationStatus,
        /// Its Run.
        run_id: String,
    },
    /// This submission had joined the operation and was told to stop waiting. The operation
    /// itself is untouched; the same submission again joins it or gets its result.
    #[error("no longer waiting for operation {operation_id}, which goes on")]
    JoinAbandoned {
        /// The operation.
        operation_id: String,
    },
    /// The operation that was attached to was refused: it has no result.
    #[error(
        "operation {operation_id} was refused and nothing of it ran; whoever submitted it was told why"
    )]
    Refused {
        /// The operation.
        operation_id: String,
    },
    /// The domain was closed; nothing ran and nothing was recorded.
    #[error("the domain is closed and takes no operations")]
    DomainClosed,
    /// A resource is held by somebody else.
    #[error("{} (waited {waited_ms} ms)", held_by(resource, holder, scarcity.as_deref()))]
    ResourceConflict {
        /// The resource: that of a lease, or one of the domain's own: `domain:max_concurrent_ops`,
        /// `domain:max_total_memory`, `domain:max_total_output`.
        resource: String,
        /// Who holds it or is ahead in the queue; of an amount, whoever has the most of it.
        holder: String,
        /// Of an amount: how much there is of it, and who else has some.
        scarcity: Option<Box<Scarcity>>,
        /// Who asked.
        requested_by: String,
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },
    /// It may take more than the domain gives all operations together, so no wait could help. Nothing ran, and
    /// the id is still free.
    #[error(
        "an operation may take no more {} than the domain gives all of them together, {}; this one asks for {}",
        shortage.amount, Bytes(shortage.max_bytes), Bytes(shortage.asked_bytes)
    )]
    BudgetExceeded {
        /// Of what, and how much.
        shortage: Shortage,
    },
    /// The domain has a budget of memory, and nobody sees to it that this operation keeps within a part of that.
    /// Nothing ran, and the id is still free.
    #[error(
        "an operation needs a memory limit in a domain that gives all of them {} together, and one that is only observed is none",
        Bytes(*max_bytes)
    )]
    MemoryUnlimited {
        /// What all have together, in bytes.
        max_bytes: u64,
    },
    /// There is no such Run, or it has ended.
    #[error("run {run_id} takes no operations: {problem}")]
    RunClosed {
        /// The Run.
        run_id: String,
        /// Why.
        problem: String,
    },
    /// No helper could be had, or it failed before the command was recorded. Nothing ran.
    #[error("no helper could hold the command; nothing ran and nothing was recorded")]
    Helper(#[from] LinkError),
    /// The host does not allow what the command is to be held in. Nothing ran, and the id is still free.
    /// [`crate::namespace_remedy`] says what can be done.
    #[error(
        "this host refuses the driver {driver}: {}; nothing ran and nothing was recorded",
        refused_call(call)
    )]
    DriverRefused {
        /// The driver that was asked for.
        driver: Driver,
        /// Which call or file it was that the system refused; may be empty.
        call: String,
        /// How.
        source: io::Error,
    },
    /// This host cannot enforce a limit as it was asked for. Nothing ran, and the id is still free.
    #[error("{limit} cannot be enforced here: {why}; nothing ran and nothing was recorded")]
    LimitsRefused {
        /// The limit, with how it was to be enforced.
        limit: String,
        /// What is missing.
        why: String,
        /// What somebody can do about it.
        remedy: String,
    },
    /// There is no control group that the operation could be held in, and it must have one. Nothing ran, and the id
    /// is still free.
    #[error("no control group can be had for it: {0}; nothing ran and nothing was recorded")]
    GroupRefused(GroupRefused),
    /// The system refused something that a launch needs. Nothing ran.
    #[error("failed to {act}; nothing ran and nothing was recorded")]
    System {
        /// What was tried.
        act: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The journal refused a commit. Unless a result says otherwise, nothing ran.
    #[error(transparent)]
    Commit(Box<CommitError>),
    /// The journal could not be read.
    #[error(transparent)]
    Read(Box<ReadError>),
    /// The recorded result cannot be read.
    #[error(transparent)]
    Stored(#[from] StoredError),
    /// The arbiter went away before the result came. Its helpers stop what ran; whoever opens the domain next
    /// settles the operation by what they saw.
    #[error("the domain's arbiter went away before operation {operation_id} had a result")]
    ArbiterLost {
        /// The operation.
        operation_id: String,
    },
    /// The arbiter refused, or could not be spoken to.
    #[error(transparent)]
    Arbiter(Box<ArbiterError>),
    /// The operation is to go on without this process, which would have to execute it itself.
    #[error(
        "operation {operation_id} cannot be detached: this process owns the domain, and executes it; nothing ran"
    )]
    NotDetachable {
        /// The operation.
        operation_id: String,
    },
    /// The command ended, but its result could not be recorded. A later submission records it first, if the
    /// storage had no room; else the domain settles it when it is next opened.
    #[error("operation {} ended ({}) but its result could not be recorded", result.operation_id, result.status)]
    Unrecorded {
        /// The result that is not in the journal.
        result: Box<OperationResult>,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Which call was refused, as a clause.
fn refused_call(call: &str) -> String {
    match call {
        "" => "a call that it needs was refused".to_owned(),
        call => format!("{call} was refused"),
    }
}

impl ExecuteError {
    /// Whether nobody can tell, before the domain is opened again, if what was to be recorded is on record.
    pub(crate) fn may_be_recorded(&self) -> bool {
        let Self::Commit(commit) = self else {
            return false;
        };
        matches!(**commit, CommitError::Broken(_) | CommitError::Abandoned)
    }

    /// Whether this owner can record nothing any more, so that every later submission fails the same way: it
    /// has lost the domain, or its storage has failed. Whoever opens the domain next settles what is open.
    #[must_use]
    pub fn ends_ownership(&self) -> bool {
        let commit = match self {
            Self::Commit(commit) => Some(&**commit),
            Self::Unrecorded { source, .. } => source.downcast_ref::<CommitError>(),
            _ => None,
        };
        matches!(
            commit,
            Some(CommitError::Fenced { .. } | CommitError::Broken(_))
        )
    }
}

impl From<CommitError> for ExecuteError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Rejected(Rejected::RunEnded { run_id, status }) => Self::RunClosed {
                run_id,
                problem: format!("it has ended as {status}"),
            },
            CommitError::Rejected(Rejected::NoSuchRun { run_id }) => Self::RunClosed {
                run_id,
                problem: "there is no such run".to_owned(),
            },
            other => Self::Commit(Box::new(other)),
        }
    }
}

impl From<ReadError> for ExecuteError {
    fn from(error: ReadError) -> Self {
        Self::Read(Box::new(error))
    }
}

/// Why there is nothing to stop.
#[derive(Debug, thiserror::Error)]
pub enum NotActive {
    /// The domain knows no operation with this id.
    #[error("there is no operation {operation_id}")]
    NotFound {
        /// What was asked for.
        operation_id: String,
    },
    /// It has ended, and its result is there, or it was refused.
    #[error("operation {operation_id} has already ended")]
    AlreadyCompleted {
        /// Which.
        operation_id: String,
    },
    /// This submission has joined the operation of another one, which it cannot suspend.
    #[error(
        "operation {operation_id} was started by another submission, and only that can suspend it"
    )]
    Joined {
        /// Which.
        operation_id: String,
    },
    /// The domain was closed. What still runs goes on to its result.
    #[error("the domain is closed")]
    DomainClosed,
    /// The journal could not be read, so nothing can be said of it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The system refused something that is needed to attach to it.
    #[error("failed to {act}")]
    System {
        /// What was tried.
        act: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The domain's arbiter could not be asked, or had another reason.
    #[error(transparent)]
    Arbiter(Box<ArbiterError>),
}

/// Longest time limit of an operation: what the journal can hold in milliseconds.
pub const TIMEOUT_MAX: Duration = Duration::from_millis(i64::MAX as u64);

/// Longest operation id, in bytes.
pub const OPERATION_ID_MAX_BYTES: usize = 4096;

/// Why a Run cannot be ended as asked.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The domain knows no Run with this id.
    #[error("there is no run {run_id}")]
    NotFound {
        /// What was asked for.
        run_id: String,
    },
    /// An operation of it has no result yet.
    #[error("run {run_id} has an unfinished operation, {operation_id} ({status})")]
    Unfinished {
        /// The Run.
        run_id: String,
        /// One of its operations.
        operation_id: String,
        /// That one's status.
        status: OperationStatus,
    },
    /// It has ended already, differently.
    #[error("run {run_id} has ended as {status}")]
    Ended {
        /// The Run.
        run_id: String,
        /// How.
        status: RunStatus,
    },
    /// The journal refused the commit.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The journal could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The domain's arbiter could not be asked, or had another reason.
    #[error(transparent)]
    Arbiter(Box<ArbiterError>),
}

/// Who stands in the way of whom, as a sentence.
fn held_by(resource: &str, holder: &str, scarcity: Option<&Scarcity>) -> String {
    let Some(Scarcity { shortage, others }) = scarcity else {
        return format!("resource {resource} is held by operation {holder}");
    };
    let others: String = others.iter().map(|other| format!(", {other}")).collect();
    format!("resource {resource} is short, {shortage}: operation {holder}{others} have it")
}
