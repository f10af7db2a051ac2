//! What an arbiter refuses, as the errors that the same request gives without one. Pure.

use std::error::Error;
use std::io;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use xioflow_journal::{OperationStatus, Outcome, RunStatus};
use xioflow_rpc::refusal::{Fault, code, kind};

use crate::adjudication::AdjudicateError;
use crate::error::{ArbiterError, ExecuteError, NotActive, RunError};
use crate::groups::GroupRefused;
use crate::leases::{Amount, Scarcity, Shortage};
use crate::pause::PauseError;
use crate::prune::PruneError;
use crate::result::OperationResult;

/// The kind of [`ArbiterError::Refused`] where the arbiter is of a build that does not know what it was asked for: no
/// arbiter says that of itself.
pub const NOT_UNDERSTOOD: &str = "not_understood";

/// What a refusal is about.
struct Subject(Map<String, Value>);

impl Subject {
    fn text(&self, key: &str) -> Option<String> {
        self.0.get(key)?.as_str().map(str::to_owned)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    fn read<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_value(self.0.get(key)?.clone()).ok()
    }

    fn parsed<T: FromStr>(&self, key: &str) -> Option<T> {
        self.0.get(key)?.as_str()?.parse().ok()
    }
}

fn subject(fault: &Fault) -> (&str, Subject) {
    match &fault.data {
        Some(data) => (&data.kind, Subject(data.subject.clone())),
        None => (kind::INTERNAL, Subject(Map::new())),
    }
}

impl From<Fault> for ArbiterError {
    fn from(fault: Fault) -> Self {
        let message = fault.message;
        match fault.data {
            // This build makes no parameters that its own arbiter would not understand.
            None if fault.code == code::INVALID_PARAMS => Self::Refused {
                kind: NOT_UNDERSTOOD.to_owned(),
                message: "the arbiter of this domain is of another build, and does not know what it was asked for; nothing ran"
                    .to_owned(),
                causes: vec![message],
                hint: Some(
                    "`xioflow shutdown` ends it when nothing runs in it; the next command starts one of this build"
                        .to_owned(),
                ),
            },
            Some(data) => Self::Refused {
                kind: data.kind,
                message,
                causes: data.causes,
                hint: data.hint,
            },
            None => Self::Refused {
                kind: kind::INTERNAL.to_owned(),
                message,
                causes: Vec::new(),
                hint: None,
            },
        }
    }
}

impl From<Fault> for ExecuteError {
    /// A refusal that lacks what its kind promises stays what it is, with its own sentence.
    fn from(fault: Fault) -> Self {
        execute_error(&fault).unwrap_or_else(|| Self::Arbiter(Box::new(fault.into())))
    }
}

fn execute_error(fault: &Fault) -> Option<ExecuteError> {
    let (kind, subject) = subject(fault);
    Some(match kind {
        kind::OPERATION_ID_CONFLICT => ExecuteError::IdConflict {
            operation_id: subject.text("operationId")?,
            existing_fingerprint: subject.text("existingFingerprint")?,
            requested_fingerprint: subject.text("requestedFingerprint")?,
            status: subject.parsed::<OperationStatus>("status")?,
            run_id: subject.text("runId")?,
        },
        kind::RESOURCE_CONFLICT => ExecuteError::ResourceConflict {
            resource: subject.text("resource")?,
            holder: subject.text("holder")?,
            scarcity: shortage(&subject).map(|shortage| {
                let others = subject.read("others").unwrap_or_default();
                Box::new(Scarcity { shortage, others })
            }),
            requested_by: subject.text("requestedBy")?,
            waited_ms: subject.number("waitedMs")?,
        },
        kind::BUDGET_EXCEEDED => ExecuteError::BudgetExceeded {
            shortage: shortage(&subject)?,
        },
        kind::MEMORY_UNLIMITED => ExecuteError::MemoryUnlimited {
            max_bytes: subject.number("maxBytes")?,
        },
        kind::RECOVERY_REQUIRED => ExecuteError::RecoveryRequired {
            operation_id: subject.text("operationId")?,
            status: subject.parsed::<OperationStatus>("status")?,
            run_id: subject.text("runId")?,
        },
        kind::JOIN_ABANDONED => ExecuteError::JoinAbandoned {
            operation_id: subject.text("operationId")?,
        },
        kind::DOMAIN_CLOSED | kind::SHUTTING_DOWN => ExecuteError::DomainClosed,
        kind::RUN_CLOSED => ExecuteError::RunClosed {
            run_id: subject.text("runId")?,
            problem: subject.text("problem")?,
        },
        kind::DRIVER_REFUSED => ExecuteError::DriverRefused {
            driver: subject.read("driver")?,
            call: subject.text("call")?,
            source: io::Error::from_raw_os_error(subject.read("errno")?),
        },
        kind::LIMITS_REFUSED => ExecuteError::LimitsRefused {
            limit: subject.text("limit")?,
            why: subject.text("why")?,
            remedy: subject.text("remedy")?,
        },
        kind::GROUP_REFUSED => ExecuteError::GroupRefused(GroupRefused {
            problem: subject.text("problem")?,
            remedy: subject.text("remedy"),
            of_arbiter: true,
        }),
        kind::INVALID => ExecuteError::InvalidLease {
            lease: subject.text("lease")?,
        },
        kind::NOT_RECORDED => ExecuteError::Unrecorded {
            result: Box::new(result(&subject)?),
            source: cause(fault),
        },
        _ => return None,
    })
}

/// Why it was not recorded, as the chain of errors that it was at the arbiter.
fn cause(fault: &Fault) -> Box<dyn Error + Send + Sync> {
    let causes = fault.data.iter().flat_map(|data| data.causes.iter().rev());
    let chain = causes.fold(None, |next, text| {
        let text = text.clone();
        Some(Box::new(Cause { text, next }))
    });
    match chain {
        Some(cause) => cause,
        None => Box::new(ArbiterError::from(fault.clone())),
    }
}

/// One of them, with what led to it.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Cause {
    text: String,
    #[source]
    next: Option<Box<Cause>>,
}

fn result(subject: &Subject) -> Option<OperationResult> {
    serde_json::from_value(subject.0.get("result")?.clone()).ok()
}

/// How much of an amount there is, and how much was asked for.
fn shortage(subject: &Subject) -> Option<Shortage> {
    Some(Shortage {
        amount: Amount::of_resource(&subject.text("resource")?)?,
        asked_bytes: subject.number("askedBytes")?,
        free_bytes: subject.number("freeBytes")?,
        max_bytes: subject.number("maxBytes")?,
    })
}

/// Why there is nothing to stop, suspend or attach to.
pub(crate) fn not_active(fault: Fault, operation_id: &str) -> NotActive {
    let operation_id = operation_id.to_owned();
    match subject(&fault).0 {
        kind::NOT_FOUND => NotActive::NotFound { operation_id },
        kind::ALREADY_COMPLETED => NotActive::AlreadyCompleted { operation_id },
        kind::JOINED => NotActive::Joined { operation_id },
        kind::DOMAIN_CLOSED | kind::SHUTTING_DOWN => NotActive::DomainClosed,
        _ => NotActive::Arbiter(Box::new(fault.into())),
    }
}

/// Why an operation was not paused, or does not go on. What the arbiter says of its own failures stays its words.
pub(crate) fn pause_error(fault: Fault, operation_id: &str) -> PauseError {
    let id = operation_id.to_owned();
    match subject(&fault).0 {
        kind::NOT_BEGUN => PauseError::NotBegun { operation_id: id },
        kind::ENDING => PauseError::Ending { operation_id: id },
        _ => not_active(fault, operation_id).into(),
    }
}

/// Why nothing was decided about an operation.
pub(crate) fn adjudicate_error(fault: Fault, operation_id: &str) -> AdjudicateError {
    undecided(&fault, operation_id)
        .unwrap_or_else(|| AdjudicateError::Arbiter(Box::new(fault.into())))
}

fn undecided(fault: &Fault, operation_id: &str) -> Option<AdjudicateError> {
    let (kind, subject) = subject(fault);
    let operation_id = operation_id.to_owned();
    let len = |key| {
        subject
            .number(key)
            .and_then(|len| usize::try_from(len).ok())
    };
    Some(match kind {
        kind::INVALID => match (len("actorBytes"), len("noteBytes")) {
            (Some(len), _) => AdjudicateError::InvalidActor { len },
            (None, Some(len)) => AdjudicateError::InvalidNote { len },
            (None, None) => return None,
        },
        kind::NOT_FOUND => AdjudicateError::NotFound { operation_id },
        kind::NOT_INDETERMINATE => AdjudicateError::NotIndeterminate {
            operation_id,
            status: subject.parsed::<OperationStatus>("status")?,
            outcome: subject.parsed::<Outcome>("outcome"),
        },
        kind::ALREADY_ADJUDICATED => AdjudicateError::AlreadyAdjudicated {
            operation_id,
            adjudication: Box::new(subject.read("adjudication")?),
        },
        kind::STILL_ALIVE => AdjudicateError::StillAlive {
            operation_id,
            processes: subject.read("processes")?,
        },
        kind::CANNOT_TELL => AdjudicateError::CannotTell {
            operation_id,
            why: subject.text("why")?,
        },
        kind::DOMAIN_CLOSED | kind::SHUTTING_DOWN => AdjudicateError::DomainClosed,
        _ => return None,
    })
}

/// Why output is not pruned.
pub(crate) fn prune_error(fault: Fault) -> PruneError {
    let (kind, subject) = subject(&fault);
    match (kind, subject.text("path")) {
        (kind::NOT_REMOVED, Some(path)) => PruneError::Remove {
            path: path.into(),
            source: io::Error::other(cause(&fault)),
        },
        (kind::DOMAIN_CLOSED | kind::SHUTTING_DOWN, _) => PruneError::DomainClosed,
        _ => PruneError::Arbiter(Box::new(fault.into())),
    }
}

/// Why a Run cannot be found or ended.
pub(crate) fn run_error(fault: Fault, run_id: &str) -> RunError {
    let (kind, subject) = subject(&fault);
    let known = match kind {
        kind::RUN_NOT_FOUND => Some(RunError::NotFound {
            run_id: run_id.to_owned(),
        }),
        kind::RUN_ENDED => subject
            .parsed::<RunStatus>("status")
            .map(|status| RunError::Ended {
                run_id: run_id.to_owned(),
                status,
            }),
        kind::RUN_UNFINISHED => unfinished(&subject, run_id),
        _ => None,
    };
    known.unwrap_or_else(|| RunError::Arbiter(Box::new(fault.into())))
}

fn unfinished(subject: &Subject, run_id: &str) -> Option<RunError> {
    Some(RunError::Unfinished {
        run_id: run_id.to_owned(),
        operation_id: subject.text("operationId")?,
        status: subject.parsed::<OperationStatus>("status")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_arbiter_that_does_not_know_a_parameter_is_of_another_build() {
        let said = "the parameters of op.execProcess: unknown variant `cgroup`";
        let fault = Fault::new(code::INVALID_PARAMS, said);
        let ExecuteError::Arbiter(error) = ExecuteError::from(fault) else {
            panic!("not from the arbiter");
        };
        let ArbiterError::Refused {
            kind, causes, hint, ..
        } = *error
        else {
            panic!("{error:?}");
        };
        assert_eq!(
            (kind.as_str(), causes),
            (NOT_UNDERSTOOD, vec![said.to_owned()])
        );
        assert!(hint.is_some_and(|hint| hint.contains("xioflow shutdown")));
    }

    fn fault(kind: &str, subject: Value) -> Fault {
        let members = subject.as_object().unwrap().clone();
        let fault = Fault::refused(kind, "the arbiter's sentence");
        members
            .into_iter()
            .fold(fault, |fault, (key, value)| fault.about(&key, value))
    }

    /// The same errors as without an arbiter; what lacks its subject stays a refusal with its own sentence.
    #[test]
    fn a_refused_decision_is_the_error_that_it_was_over_there() {
        let decided = json!({ "verdict": "confirmed_stopped", "actor": "jo", "note": null,
                              "residualPids": [], "decidedAtMs": 1 });
        for (kind, subject, said) in [
            (kind::NOT_FOUND, json!({}), "there is no operation"),
            (
                kind::NOT_INDETERMINATE,
                json!({ "status": "done", "outcome": "failed" }),
                "recorded as failed, so",
            ),
            (
                kind::NOT_INDETERMINATE,
                json!({ "status": "active", "outcome": null }),
                "recorded as active, so",
            ),
            (
                kind::ALREADY_ADJUDICATED,
                json!({ "adjudication": decided }),
                "by \"jo\"",
            ),
            (
                kind::STILL_ALIVE,
                json!({ "processes": [{ "pid": 7, "command": "sleep" }] }),
                "sleep (pid 7) is",
            ),
            (
                kind::CANNOT_TELL,
                json!({ "why": "nobody looks" }),
                "nobody looks",
            ),
            (kind::INVALID, json!({ "actorBytes": 300 }), "300 bytes"),
            (kind::DOMAIN_CLOSED, json!({}), "closed"),
            (kind::STILL_ALIVE, json!({}), "the arbiter's sentence"),
            (kind::JOURNAL_BUSY, json!({}), "the arbiter's sentence"),
        ] {
            let error = adjudicate_error(fault(kind, subject), "op");
            assert!(error.to_string().contains(said), "{kind}: {error}");
        }
    }
}
