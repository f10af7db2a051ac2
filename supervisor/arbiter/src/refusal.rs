//! What goes wrong in the kernel and here, as the faults that clients can act on. The kinds and their
//! subjects are those of [`xioflow_rpc::refusal::kind`].

use std::error::Error;
use std::io;

use serde::Serialize;
use serde_json::Value;
use xioflow_journal::{CommitError, ReadError};
use xioflow_kernel::{
    AdjudicateError, ArbiterError, ExecuteError, GroupRefused, NotActive, OutputError, PauseError,
    PruneError, RunError, Scarcity, Shortage, StoredError, namespace_remedy,
};
use xioflow_rpc::codec::EncodeError;
use xioflow_rpc::refusal::{Fault, code, kind};

use crate::events::NotSubscribed;
use crate::session::NoSession;

/// A refusal with the sentence of an error, and its causes.
fn refused(kind: &str, error: &(dyn Error + 'static)) -> Fault {
    Fault::refused(kind, error.to_string()).causes(causes(error))
}

/// What led to an error, the nearest first. Some errors repeat their source in their own sentence.
fn causes(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut said = error.to_string();
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !said.contains(&text) {
            said.push_str(&text);
            causes.push(text);
        }
        next = cause.source();
    }
    causes
}

/// The number of the system's error somewhere below.
fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(errno) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(errno);
        }
        next = error.source();
    }
    None
}

fn of_system(error: &(dyn Error + 'static)) -> Fault {
    let fault = refused(kind::SYSTEM, error);
    match errno(error) {
        Some(errno) => fault.about("errno", errno),
        None => fault,
    }
}

/// A refusal because the system refused something here.
pub(crate) fn of_act(act: &str, error: &io::Error) -> Fault {
    let fault = Fault::refused(kind::SYSTEM, format!("failed to {act}; nothing ran"));
    let fault = fault.causes([error.to_string()]);
    match error.raw_os_error() {
        Some(errno) => fault.about("errno", errno),
        None => fault,
    }
}

/// A value that cannot be what it says it is.
pub(crate) fn invalid(message: impl Into<String>) -> Fault {
    Fault::refused(kind::INVALID, message)
}

/// Parameters that contradict each other.
pub(crate) fn contradictory(message: impl Into<String>) -> Fault {
    Fault::new(code::INVALID_PARAMS, message)
}

/// A bound of the arbiter that was hit.
pub(crate) fn limit(message: impl Into<String>, limit: &str, max: u64) -> Fault {
    Fault::refused(kind::LIMIT, message)
        .about("limit", limit)
        .about("max", max)
}

/// The arbiter was started with less than the client has, and cannot give him what is his.
pub(crate) fn withheld(what: &str) -> Fault {
    let message = format!(
        "the arbiter of this domain was started with a lower {what} than this client has, and cannot lift it; nothing ran"
    );
    Fault::refused(kind::STANDING, message)
        .about("differs", [what])
        .hint("end it with `xioflow shutdown`, and have it started from where there is no such limit; or use --no-arbiter")
}

/// The arbiter ends.
pub(crate) fn shutting_down() -> Fault {
    let message = "the arbiter of this domain is ending and takes nothing new";
    Fault::refused(kind::SHUTTING_DOWN, message).hint("try again when it is gone")
}

/// An answer that cannot be written.
pub(crate) fn of_reply(error: &EncodeError) -> Fault {
    match error {
        EncodeError::TooLong { max_bytes } => limit(
            "the answer is longer than a message can be; ask for less at once",
            "replyBytes",
            *max_bytes as u64,
        ),
        EncodeError::Json(_) => Fault::new(code::INTERNAL, error.to_string()),
    }
}

/// Why there is no session.
pub(crate) fn of_no_session(why: NoSession) -> Fault {
    match why {
        NoSession::NameTaken => {
            let message = "a request of this connection with that id is not over";
            Fault::new(code::INVALID_REQUEST, message)
        }
        NoSession::Full => limit(
            "the arbiter has as many operations as it can have",
            "operations",
            crate::limits::OPERATIONS_MAX as u64,
        ),
        NoSession::Closed => shutting_down(),
    }
}

/// Why there is no subscription.
pub(crate) fn of_not_subscribed(why: &NotSubscribed) -> Fault {
    match why {
        NotSubscribed::Twice => invalid("this connection has subscribed to the journal before"),
        NotSubscribed::Closed => shutting_down(),
        NotSubscribed::System(error) => of_act("watch the journal", error),
    }
}

/// Why an operation has no result.
fn of_groups(refusal: &GroupRefused, error: &ExecuteError) -> Fault {
    let fault = refused(kind::GROUP_REFUSED, error).about("problem", refusal.problem.as_str());
    match &refusal.remedy {
        Some(remedy) => fault.about("remedy", remedy.as_str()).hint(remedy),
        None => fault,
    }
}

pub(crate) fn of_execute(error: &ExecuteError) -> Fault {
    match error {
        ExecuteError::Invalid(_)
        | ExecuteError::InvalidId { .. }
        | ExecuteError::InvalidTimeout { .. }
        | ExecuteError::InvalidLimits(_) => refused(kind::INVALID, error),
        ExecuteError::InvalidLease { lease } => {
            refused(kind::INVALID, error).about("lease", lease.as_str())
        }
        ExecuteError::IdConflict {
            operation_id,
            existing_fingerprint,
            requested_fingerprint,
            status,
            run_id,
        } => refused(kind::OPERATION_ID_CONFLICT, error)
            .about("operationId", operation_id.as_str())
            .about("existingFingerprint", existing_fingerprint.as_str())
            .about("requestedFingerprint", requested_fingerprint.as_str())
            .about("status", status.as_str())
            .about("runId", run_id.as_str()),
        ExecuteError::RecoveryRequired {
            operation_id,
            status,
            run_id,
        } => refused(kind::RECOVERY_REQUIRED, error)
            .about("operationId", operation_id.as_str())
            .about("status", status.as_str())
            .about("runId", run_id.as_str()),
        ExecuteError::JoinAbandoned { operation_id } => {
            refused(kind::JOIN_ABANDONED, error).about("operationId", operation_id.as_str())
        }
        // Of an operation that was refused nothing is recorded.
        ExecuteError::Refused { operation_id } => {
            refused(kind::NOT_FOUND, error).about("operationId", operation_id.as_str())
        }
        ExecuteError::DomainClosed => refused(kind::DOMAIN_CLOSED, error),
        ExecuteError::ResourceConflict {
            resource,
            holder,
            scarcity,
            requested_by,
            waited_ms,
        } => {
            let fault = refused(kind::RESOURCE_CONFLICT, error)
                .about("resource", resource.as_str())
                .about("holder", holder.as_str())
                .about("requestedBy", requested_by.as_str())
                .about("waitedMs", *waited_ms);
            match scarcity.as_deref() {
                Some(Scarcity { shortage, others }) => {
                    about_shortage(fault, shortage).about("others", others.clone())
                }
                None => fault,
            }
        }
        ExecuteError::BudgetExceeded { shortage } => {
            let fault =
                refused(kind::BUDGET_EXCEEDED, error).about("resource", shortage.amount.resource());
            about_shortage(fault, shortage)
        }
        ExecuteError::MemoryUnlimited { max_bytes } => {
            refused(kind::MEMORY_UNLIMITED, error).about("maxBytes", *max_bytes)
        }
        ExecuteError::RunClosed { run_id, problem } => refused(kind::RUN_CLOSED, error)
            .about("runId", run_id.as_str())
            .about("problem", problem.as_str()),
        ExecuteError::Helper(_) => refused(kind::HELPER_FAILED, error),
        ExecuteError::DriverRefused {
            driver,
            call,
            source,
        } => {
            let errno = source.raw_os_error().unwrap_or_default();
            refused(kind::DRIVER_REFUSED, error)
                .about("driver", driver.as_str())
                .about("call", call.as_str())
                .about("errno", errno)
                .hint(namespace_remedy(call, errno))
        }
        ExecuteError::LimitsRefused { limit, why, remedy } => refused(kind::LIMITS_REFUSED, error)
            .about("limit", limit.as_str())
            .about("why", why.as_str())
            .about("remedy", remedy.as_str())
            .hint(remedy.as_str()),
        ExecuteError::GroupRefused(refusal) => of_groups(refusal, error),
        ExecuteError::System { .. } => of_system(error),
        ExecuteError::Commit(commit) => of_commit(commit, error),
        ExecuteError::Read(_) | ExecuteError::Stored(_) => refused(kind::JOURNAL_UNREADABLE, error),
        // An arbiter owns its domain, and detaches by itself.
        ExecuteError::ArbiterLost { .. }
        | ExecuteError::Arbiter(_)
        | ExecuteError::NotDetachable { .. } => refused(kind::INTERNAL, error),
        ExecuteError::Unrecorded { result, .. } => {
            let result = serde_json::to_value(result).unwrap_or(Value::Null);
            refused(kind::NOT_RECORDED, error).about("result", result)
        }
    }
}

/// Why the journal took nothing.
fn of_commit(commit: &CommitError, error: &(dyn Error + 'static)) -> Fault {
    match commit {
        CommitError::Fenced { .. } => refused(kind::FENCED, error),
        CommitError::Storage(storage) if storage.fault == xioflow_journal::Fault::Busy => {
            refused(kind::JOURNAL_BUSY, error)
        }
        _ => refused(kind::JOURNAL_FAILED, error),
    }
}

/// How much of an amount there is, and how much was asked for.
fn about_shortage(fault: Fault, shortage: &Shortage) -> Fault {
    fault
        .about("askedBytes", shortage.asked_bytes)
        .about("freeBytes", shortage.free_bytes)
        .about("maxBytes", shortage.max_bytes)
}

/// Why there is nothing to stop, to suspend or to attach to.
pub(crate) fn of_not_active(error: &NotActive) -> Fault {
    match error {
        NotActive::NotFound { operation_id } => {
            refused(kind::NOT_FOUND, error).about("operationId", operation_id.as_str())
        }
        NotActive::AlreadyCompleted { operation_id } => {
            refused(kind::ALREADY_COMPLETED, error).about("operationId", operation_id.as_str())
        }
        NotActive::Joined { operation_id } => {
            refused(kind::JOINED, error).about("operationId", operation_id.as_str())
        }
        NotActive::DomainClosed => refused(kind::DOMAIN_CLOSED, error),
        NotActive::System { .. } => of_system(error),
        NotActive::Read(_) => refused(kind::JOURNAL_UNREADABLE, error),
        NotActive::Arbiter(_) => refused(kind::INTERNAL, error),
    }
}

/// Why an operation was not paused, or does not go on.
pub(crate) fn of_pause(error: &PauseError) -> Fault {
    match error {
        PauseError::NotActive(error) => of_not_active(error),
        PauseError::NotBegun { operation_id } => {
            refused(kind::NOT_BEGUN, error).about("operationId", operation_id.as_str())
        }
        PauseError::Ending { operation_id } => {
            refused(kind::ENDING, error).about("operationId", operation_id.as_str())
        }
        PauseError::Unconfirmed { operation_id, .. }
        | PauseError::Group { operation_id, .. }
        | PauseError::Unsupported { operation_id }
        | PauseError::NoAnswer { operation_id }
        | PauseError::Record { operation_id, .. } => {
            refused(kind::NOT_PAUSED, error).about("operationId", operation_id.as_str())
        }
    }
}

/// Why a Run is not opened, found or ended.
pub(crate) fn of_run(error: &RunError) -> Fault {
    match error {
        RunError::NotFound { run_id } => {
            refused(kind::RUN_NOT_FOUND, error).about("runId", run_id.as_str())
        }
        RunError::Unfinished {
            run_id,
            operation_id,
            status,
        } => refused(kind::RUN_UNFINISHED, error)
            .about("runId", run_id.as_str())
            .about("operationId", operation_id.as_str())
            .about("status", status.as_str()),
        RunError::Ended { run_id, status } => refused(kind::RUN_ENDED, error)
            .about("runId", run_id.as_str())
            .about("status", status.as_str()),
        RunError::Commit(commit) => of_commit(commit, error),
        RunError::Read(_) => refused(kind::JOURNAL_UNREADABLE, error),
        RunError::Arbiter(_) => refused(kind::INTERNAL, error),
    }
}

/// Why another arbiter has no answer.
pub(crate) fn of_arbiter(error: &ArbiterError) -> Fault {
    refused(kind::INTERNAL, error)
}

/// Why the journal has no answer.
pub(crate) fn of_read(error: &ReadError) -> Fault {
    refused(kind::JOURNAL_UNREADABLE, error)
}

/// Why a recorded result has no answer.
pub(crate) fn of_stored(error: &StoredError) -> Fault {
    refused(kind::JOURNAL_UNREADABLE, error)
}

/// Why nothing was decided about an operation.
pub(crate) fn of_adjudicate(error: &AdjudicateError) -> Fault {
    let of = |kind, id: &str| refused(kind, error).about("operationId", id);
    match error {
        AdjudicateError::InvalidActor { len } => {
            refused(kind::INVALID, error).about("actorBytes", *len as u64)
        }
        AdjudicateError::InvalidNote { len } => {
            refused(kind::INVALID, error).about("noteBytes", *len as u64)
        }
        AdjudicateError::NotFound { operation_id } => of(kind::NOT_FOUND, operation_id),
        AdjudicateError::NotIndeterminate {
            operation_id,
            status,
            outcome,
        } => of(kind::NOT_INDETERMINATE, operation_id)
            .about("status", status.as_str())
            .about("outcome", outcome.map(|outcome| outcome.as_str())),
        AdjudicateError::AlreadyAdjudicated {
            operation_id,
            adjudication,
        } => of(kind::ALREADY_ADJUDICATED, operation_id).about("adjudication", value(adjudication)),
        AdjudicateError::StillAlive {
            operation_id,
            processes,
        } => of(kind::STILL_ALIVE, operation_id).about("processes", value(processes)),
        AdjudicateError::CannotTell { operation_id, why } => {
            of(kind::CANNOT_TELL, operation_id).about("why", why.as_str())
        }
        AdjudicateError::Commit(commit) => of_commit(commit, error),
        AdjudicateError::Read(_) => refused(kind::JOURNAL_UNREADABLE, error),
        AdjudicateError::DomainClosed => refused(kind::DOMAIN_CLOSED, error),
        AdjudicateError::Arbiter(_) => refused(kind::INTERNAL, error),
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// Why stored output is not removed.
pub(crate) fn of_prune(error: &PruneError) -> Fault {
    match error {
        PruneError::DomainClosed => refused(kind::DOMAIN_CLOSED, error),
        PruneError::Remove { path, .. } => {
            refused(kind::NOT_REMOVED, error).about("path", path.to_string_lossy())
        }
        PruneError::Folder { .. } => of_system(error),
        PruneError::Commit(commit) => of_commit(commit, error),
        PruneError::Read(_) => refused(kind::JOURNAL_UNREADABLE, error),
        PruneError::Arbiter(_) => refused(kind::INTERNAL, error),
    }
}

/// Why stored output has no answer.
pub(crate) fn of_output(operation_id: &str, error: &OutputError) -> Fault {
    let of_kind = |kind| refused(kind, error).about("operationId", operation_id);
    match error {
        OutputError::UnknownOperation { .. } => of_kind(kind::NOT_FOUND),
        OutputError::Journal(_) => of_kind(kind::JOURNAL_UNREADABLE),
        OutputError::File { .. } | OutputError::Changed { .. } | OutputError::Record { .. } => {
            of_kind(kind::OUTPUT_UNREADABLE)
        }
        OutputError::Pruned {
            stream,
            pruned_at,
            reason,
            ..
        } => of_kind(kind::OUTPUT_PRUNED)
            .about("stream", stream.as_str())
            .about("prunedAt", pruned_at.as_str())
            .about("reason", reason.map(|reason| reason.as_str())),
    }
}

/// There is no such operation.
pub(crate) fn no_operation(operation_id: &str) -> Fault {
    let message = format!("there is no operation {operation_id} in this domain");
    Fault::refused(kind::NOT_FOUND, message).about("operationId", operation_id)
}

/// There is no such Task.
pub(crate) fn no_task(task_id: &str) -> Fault {
    let message = format!("there is no task {task_id} in this domain");
    Fault::refused(kind::NOT_FOUND, message).about("taskId", task_id)
}
