//! Gives an operation whose end could not be proven its outcome: once, by somebody with a name, after
//! a fresh look (`look`). The decision and the freed leases are one commit.

mod look;

use serde::{Deserialize, Serialize};
use xioflow_journal::{
    Adjudication, AdjudicationVerdict, Change, CommitError, Operation, OperationStatus, Outcome,
    Query, ReadError, Rejected,
};
use xioflow_killpoint as killpoint;

use crate::clock;
use crate::domain::Inner;
use crate::error::ArbiterError;
use crate::recovery::{legible, remove_group};

use look::Look;

/// Longest name of whoever decides, in bytes.
pub const ACTOR_MAX_BYTES: usize = 256;

/// Longest note with a decision, in bytes.
pub const NOTE_MAX_BYTES: usize = 4096;

/// Residual processes that a decision records.
const RESIDUALS_MAX: usize = 256;

/// Why an operation was not adjudicated. Nothing has changed then, unless the commit says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum AdjudicateError {
    /// Whoever decides has no name, or one that cannot be shown.
    #[error(
        "who decides is named in 1 to {ACTOR_MAX_BYTES} bytes without control characters, not in {len} bytes"
    )]
    InvalidActor {
        /// Its length in bytes.
        len: usize,
    },
    /// The note is too long.
    #[error("a note has at most {NOTE_MAX_BYTES} bytes, this one has {len}")]
    InvalidNote {
        /// Its length in bytes.
        len: usize,
    },
    /// There is no such operation.
    #[error("there is no operation {operation_id:?} in this domain")]
    NotFound {
        /// The operation.
        operation_id: String,
    },
    /// The operation's end is known, or is still to come.
    #[error("the operation {operation_id:?} is recorded as {}, so there is nothing to adjudicate", outcome.map_or_else(|| status.as_str(), Outcome::as_str))]
    NotIndeterminate {
        /// The operation.
        operation_id: String,
        /// Where it is.
        status: OperationStatus,
        /// How it ended; `None` while it has not.
        outcome: Option<Outcome>,
    },
    /// Somebody has decided already; that is done once.
    #[error("the operation {operation_id:?} was adjudicated already: {} by {:?}", adjudication.verdict, adjudication.actor)]
    AlreadyAdjudicated {
        /// The operation.
        operation_id: String,
        /// What was decided.
        adjudication: Box<Adjudication>,
    },
    /// It is not stopped.
    #[error(
        "the operation {operation_id:?} is not stopped: {} still there; end what is left, or abandon it",
        named(processes)
    )]
    StillAlive {
        /// The operation.
        operation_id: String,
        /// Who lives of it, or may.
        processes: Vec<Residual>,
    },
    /// Whether it is stopped cannot be seen.
    #[error(
        "whether the operation {operation_id:?} is stopped cannot be seen: {why}; what is left of it can be abandoned"
    )]
    CannotTell {
        /// The operation.
        operation_id: String,
        /// Why.
        why: String,
    },
    /// The decision cannot be recorded.
    #[error(transparent)]
    Commit(CommitError),
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The domain was closed.
    #[error("the domain was closed")]
    DomainClosed,
    /// The domain's arbiter did not do it.
    #[error(transparent)]
    Arbiter(Box<ArbiterError>),
}

/// A process that is left of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Residual {
    /// Its process id.
    pub pid: u32,
    /// Its program's name as the kernel has it; `None` where it may not be looked at.
    pub command: Option<String>,
}

fn named(processes: &[Residual]) -> String {
    let names: Vec<String> = processes
        .iter()
        .map(|it| match &it.command {
            Some(command) => format!("{command} (pid {})", it.pid),
            None => format!("pid {}", it.pid),
        })
        .collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    format!("{} {are}", names.join(", "))
}

/// Decides about an operation of a domain that this process owns.
pub(crate) fn adjudicate(
    inner: &Inner,
    operation_id: &str,
    verdict: AdjudicationVerdict,
    actor: &str,
    note: Option<&str>,
) -> Result<Adjudication, AdjudicateError> {
    check_words(actor, note)?;
    if inner.flights.is_closed() {
        return Err(AdjudicateError::DomainClosed);
    }
    // An end that was seen and could not be recorded yet may be the one that this is about.
    inner.record_unrecorded().map_err(AdjudicateError::Commit)?;
    let operation = undecided(inner.journal.operation(operation_id)?, operation_id)?;
    let look = Look::at(&operation, inner.folder());
    if verdict == AdjudicationVerdict::ConfirmedStopped {
        check_stopped(&look, operation_id)?;
    }
    killpoint::pass(|| "adjudicate:looked");
    let adjudication = Adjudication {
        verdict,
        actor: actor.to_owned(),
        note: note.map(str::to_owned),
        residual_pids: look.pids(RESIDUALS_MAX),
        decided_at_ms: clock::now_ms(),
    };
    let change = Change::Adjudicate {
        operation_id: operation_id.to_owned(),
        adjudication: adjudication.clone(),
    };
    // The journal looks again: of several at the same time, one gets here.
    inner.journal.commit(vec![change]).map_err(refused)?;
    killpoint::pass(|| "adjudicate:recorded");
    inner.leases.release(operation_id);
    look::remove_word(operation_id, inner.folder());
    remove_group(legible(operation.process_identity.as_ref()).get().as_ref());
    Ok(adjudication)
}

fn check_words(actor: &str, note: Option<&str>) -> Result<(), AdjudicateError> {
    let len = actor.len();
    if len == 0 || len > ACTOR_MAX_BYTES || actor.chars().any(char::is_control) {
        return Err(AdjudicateError::InvalidActor { len });
    }
    match note.map(str::len) {
        Some(len) if len > NOTE_MAX_BYTES => Err(AdjudicateError::InvalidNote { len }),
        _ => Ok(()),
    }
}

/// The operation, if there is something to decide.
fn undecided(
    operation: Option<Operation>,
    operation_id: &str,
) -> Result<Operation, AdjudicateError> {
    let operation_id = operation_id.to_owned();
    match operation {
        None => Err(AdjudicateError::NotFound { operation_id }),
        Some(operation) if operation.outcome != Some(Outcome::Indeterminate) => {
            Err(AdjudicateError::NotIndeterminate {
                operation_id,
                status: operation.status,
                outcome: operation.outcome,
            })
        }
        Some(Operation {
            adjudication: Some(adjudication),
            ..
        }) => Err(AdjudicateError::AlreadyAdjudicated {
            operation_id,
            adjudication: Box::new(adjudication),
        }),
        Some(operation) => Ok(operation),
    }
}

fn check_stopped(look: &Look, operation_id: &str) -> Result<(), AdjudicateError> {
    let operation_id = operation_id.to_owned();
    if !look.alive.is_empty() {
        let processes = look.alive.clone();
        return Err(AdjudicateError::StillAlive {
            operation_id,
            processes,
        });
    }
    match look.unclear.first() {
        Some(why) => Err(AdjudicateError::CannotTell {
            operation_id,
            why: why.clone(),
        }),
        None => Ok(()),
    }
}

/// What the journal found when it looked again, inside the commit.
fn refused(error: CommitError) -> AdjudicateError {
    match error {
        CommitError::Rejected(Rejected::NoSuchOperation { operation_id }) => {
            AdjudicateError::NotFound { operation_id }
        }
        CommitError::Rejected(Rejected::NotIndeterminate {
            operation_id,
            status,
            outcome,
        }) => AdjudicateError::NotIndeterminate {
            operation_id,
            status,
            outcome,
        },
        CommitError::Rejected(Rejected::AlreadyAdjudicated {
            operation_id,
            adjudication,
        }) => AdjudicateError::AlreadyAdjudicated {
            operation_id,
            adjudication,
        },
        other => AdjudicateError::Commit(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_decides_has_a_name_that_can_be_shown() {
        let long = "x".repeat(ACTOR_MAX_BYTES);
        for actor in ["ada", "Ada L. <ada@example.org>", long.as_str()] {
            assert!(check_words(actor, None).is_ok(), "{actor}");
        }
        for actor in ["", "a\nb", "a\u{1b}[31m", format!("{long}x").as_str()] {
            let refused = check_words(actor, None);
            let Err(AdjudicateError::InvalidActor { len }) = refused else {
                panic!("{actor:?}");
            };
            assert_eq!(len, actor.len());
        }
        let note = "n".repeat(NOTE_MAX_BYTES);
        assert!(check_words("ada", Some(&note)).is_ok());
        let refused = check_words("ada", Some(&format!("{note}n")));
        assert!(matches!(refused, Err(AdjudicateError::InvalidNote { .. })));
    }
}
