//! One `Change` at a time: its rules, checked inside the transaction, then its rows and events.
//! `writer` gives each request a savepoint, so a change that is refused may leave things half
//! done here.

mod operation;
mod pause;
mod run;
mod settled;

use rusqlite::{Connection, Result as SqlResult};

use crate::error::DataError;
use crate::events::{self, Fact, OF_DOMAIN, Subject};
use crate::model::{Adjudication, Change, OperationStatus, Outcome, RunStatus, Stream};
use crate::rows::RowError;

/// Why a change was refused. The whole commit that it was part of has not happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// There is no such task; save it first.
    #[error("there is no task {task_id:?}; save it first")]
    NoSuchTask {
        /// The task.
        task_id: String,
    },
    /// There is no such Run; add it first.
    #[error("there is no Run {run_id:?}; add it first")]
    NoSuchRun {
        /// The Run.
        run_id: String,
    },
    /// A Run of this id is recorded already.
    #[error("the Run {run_id:?} exists already; choose another id")]
    RunExists {
        /// The Run.
        run_id: String,
    },
    /// The Run has ended, and that cannot change.
    #[error("the Run {run_id:?} has ended as {status}; begin a new one")]
    RunEnded {
        /// The Run.
        run_id: String,
        /// How it ended.
        status: RunStatus,
    },
    /// A Run can only end in a terminal status, and only begin in another.
    #[error("{status} is not a status in which the Run {run_id:?} can {verb}")]
    WrongRunStatus {
        /// The Run.
        run_id: String,
        /// The status asked for.
        status: RunStatus,
        /// `begin` or `end`.
        verb: &'static str,
    },
    /// A Run cannot succeed before all of its operations are done.
    #[error("the Run {run_id:?} cannot succeed while its operation {operation_id:?} is {status}")]
    RunUnfinished {
        /// The Run.
        run_id: String,
        /// Its oldest unfinished operation.
        operation_id: String,
        /// Where that is.
        status: OperationStatus,
    },
    /// A Run cannot succeed while nobody has decided about an end that could not be proven.
    #[error(
        "the Run {run_id:?} cannot succeed while the end of its operation {operation_id:?} is unknown; adjudicate that first"
    )]
    RunIndeterminate {
        /// The Run.
        run_id: String,
        /// Its oldest operation of that kind.
        operation_id: String,
    },
    /// There is no such operation.
    #[error("there is no operation {operation_id:?}")]
    NoSuchOperation {
        /// The operation.
        operation_id: String,
    },
    /// An operation of this id is recorded already, in this Run or another.
    #[error("the operation {operation_id:?} exists already in the Run {run_id:?} ({status})")]
    OperationExists {
        /// The operation.
        operation_id: String,
        /// The Run it belongs to.
        run_id: String,
        /// Where it is.
        status: OperationStatus,
        /// Its fingerprint, to compare.
        input_fingerprint: String,
    },
    /// The record has events of this operation and has lost the operation itself, so it may have run.
    #[error(
        "the record has events of the operation {operation_id:?} and has lost what became of it; see `xioflow doctor --domain`, \
         and use another id to run it again"
    )]
    OperationLost {
        /// The operation.
        operation_id: String,
    },
    /// Another operation holds a resource.
    #[error("the resource {resource:?} is held by the operation {holder:?}")]
    ResourceHeld {
        /// The resource.
        resource: String,
        /// Its holder.
        holder: String,
    },
    /// Only a registered operation can become active.
    #[error("the operation {operation_id:?} is {status}, so it cannot become active")]
    NotRegistered {
        /// The operation.
        operation_id: String,
        /// Where it is.
        status: OperationStatus,
    },
    /// Only an active operation can be stopped.
    #[error("the operation {operation_id:?} is {status}, so there is nothing to stop")]
    NotActive {
        /// The operation.
        operation_id: String,
        /// Where it is.
        status: OperationStatus,
    },
    /// Only an active operation can be paused, once, and only a paused one goes on.
    #[error("the operation {operation_id:?} is {}, so it cannot {verb}", if *paused { "paused" } else { status.as_str() })]
    PauseRule {
        /// The operation.
        operation_id: String,
        /// Where it is.
        status: OperationStatus,
        /// Whether it stands still.
        paused: bool,
        /// `be paused` or `go on`.
        verb: &'static str,
    },
    /// A stop action begins once, while its operation is under way.
    #[error(
        "the stop action of the operation {operation_id:?}, which is {status}, cannot begin, or has begun already"
    )]
    NoStopActionNow {
        /// The operation.
        operation_id: String,
        /// Where it is.
        status: OperationStatus,
    },
    /// The operation has its result; there is only ever one.
    #[error("the operation {operation_id:?} has its result already ({outcome})")]
    AlreadyDone {
        /// The operation.
        operation_id: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// Leases are kept when, and only when, the operation's end cannot be proven.
    #[error("the operation {operation_id:?} ended as {outcome}, so its leases must {}", if *outcome == Outcome::Indeterminate { "be kept" } else { "be freed" })]
    LeaseRule {
        /// The operation.
        operation_id: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// Only an operation whose end could not be proven can be adjudicated.
    #[error("the operation {operation_id:?} is recorded as {}, so there is nothing to adjudicate", outcome.map_or_else(|| status.as_str(), Outcome::as_str))]
    NotIndeterminate {
        /// The operation.
        operation_id: String,
        /// Where it is.
        status: OperationStatus,
        /// How it ended; null while it has not.
        outcome: Option<Outcome>,
    },
    /// The operation has been adjudicated; that happens once.
    #[error("the operation {operation_id:?} was adjudicated already: {} by {:?}", adjudication.verdict, adjudication.actor)]
    AlreadyAdjudicated {
        /// The operation.
        operation_id: String,
        /// What was decided then.
        adjudication: Box<Adjudication>,
    },
    /// The output of an operation that is not done is being written.
    #[error("the operation {operation_id:?} is {status}, so its output is kept")]
    OutputInUse {
        /// The operation.
        operation_id: String,
        /// Where it is.
        status: OperationStatus,
    },
    /// The output of an operation whose end is unknown may be what tells it.
    #[error(
        "the end of the operation {operation_id:?} is unknown, so its output is kept; adjudicate it first"
    )]
    OutputIsEvidence {
        /// The operation.
        operation_id: String,
    },
    /// The output of an operation whose Run is open may still be asked for.
    #[error(
        "the Run {run_id:?} is {status}, so the output of its operation {operation_id:?} is kept"
    )]
    OutputOfOpenRun {
        /// The operation.
        operation_id: String,
        /// Its Run.
        run_id: String,
        /// Where that is.
        status: RunStatus,
    },
    /// There is no file of that output, or no longer.
    #[error("the operation {operation_id:?} has no file of its {stream}")]
    NoStoredOutput {
        /// The operation.
        operation_id: String,
        /// The stream.
        stream: Stream,
    },
    /// A number that the database cannot hold.
    #[error("{what} of the operation {operation_id:?} is too large: {value}")]
    TooLarge {
        /// The operation.
        operation_id: String,
        /// Which number.
        what: &'static str,
        /// The number.
        value: u64,
    },
}

/// Why a change could not be applied.
#[derive(Debug)]
pub(crate) enum ApplyError {
    Rejected(Rejected),
    Data(DataError),
    Sqlite(rusqlite::Error),
}

impl From<Rejected> for ApplyError {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

impl From<rusqlite::Error> for ApplyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<RowError> for ApplyError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Sqlite(e) => Self::Sqlite(e),
            RowError::Data(e) => Self::Data(e),
        }
    }
}

/// The positions that one request's events got.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) first: Option<i64>,
    pub(crate) last: Option<i64>,
}

/// Where the changes of one request go.
pub(crate) struct Applier<'c> {
    connection: &'c Connection,
    now_ms: i64,
    span: Span,
}

/// Applies all changes of one request, in order.
pub(crate) fn apply(
    connection: &Connection,
    changes: &[Change],
    now_ms: i64,
) -> Result<Span, ApplyError> {
    let mut applier = Applier {
        connection,
        now_ms,
        span: Span::default(),
    };
    for change in changes {
        applier.apply(change)?;
    }
    Ok(applier.span)
}

impl Applier<'_> {
    fn apply(&mut self, change: &Change) -> Result<(), ApplyError> {
        match change {
            Change::SaveTask(task) => self.save_task(task),
            Change::AddRun(run) => self.add_run(run),
            Change::EndRun {
                run_id,
                status,
                reason,
            } => self.end_run(run_id, *status, *reason),
            Change::RegisterOperation(new) => self.register(new),
            Change::AddOperation(new) => self.add(new),
            Change::ActivateOperation {
                operation_id,
                process_identity,
                holder,
            } => self.activate(operation_id, process_identity, holder),
            Change::StopOperation {
                operation_id,
                reason,
            } => self.stop(operation_id, *reason),
            Change::PauseOperation {
                operation_id,
                means,
            } => self.pause(operation_id, *means),
            Change::ResumeOperation { operation_id } => self.resume(operation_id),
            Change::BeginStopAction {
                operation_id,
                process_identity,
                holder,
            } => self.begin_stop_action(operation_id, process_identity, holder),
            Change::KeepOutputOrder {
                operation_id,
                order,
            } => self.keep_output_order(operation_id, order),
            Change::FinishOperation(finish) => self.finish(finish),
            Change::Adjudicate {
                operation_id,
                adjudication,
            } => self.adjudicate(operation_id, adjudication),
            Change::PruneOutput {
                operation_id,
                stream,
                reason,
            } => self.prune_output(operation_id, *stream, *reason),
            Change::NoteReplay {
                operation_id,
                mode,
                calling_run_id,
                original_run_id,
                original_status,
            } => {
                // A submission of its own makes no Run for a replay and asks in the name of the
                // operation's.
                if calling_run_id != original_run_id {
                    self.check_run_open(calling_run_id)?;
                }
                let subject = Subject {
                    run_id: Some(calling_run_id),
                    operation_id: Some(operation_id),
                };
                let fact = Fact::Replayed {
                    mode: *mode,
                    op_id: operation_id,
                    calling_run_id,
                    original_run_id,
                    original_status: *original_status,
                };
                Ok(self.journal(&subject, &fact)?)
            }
            Change::NoteHostMoving { group, controllers } => {
                Ok(self.journal(&OF_DOMAIN, &Fact::HostMoving { group, controllers })?)
            }
            Change::NoteHostMoved { group, processes } => {
                let processes = *processes;
                Ok(self.journal(&OF_DOMAIN, &Fact::HostMoved { group, processes })?)
            }
        }
    }

    fn journal(&mut self, subject: &Subject<'_>, fact: &Fact<'_>) -> SqlResult<()> {
        let seq = events::append(self.connection, subject, fact, self.now_ms)?;
        self.span.first.get_or_insert(seq);
        self.span.last = Some(seq);
        Ok(())
    }
}
