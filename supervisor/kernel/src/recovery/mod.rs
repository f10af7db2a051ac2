//! Settles what an earlier owner left unfinished, before anything is admitted.
//!
//! It decides by evidence: the helper's last word, and whether the recorded processes live. It
//! sends no signal and runs nothing. Doing it again on a settled domain changes nothing.

mod decide;
mod word;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xioflow_journal::{
    Change, Journal, Operation, OperationKind, Outcome, Query, RunStatus, TerminationReason,
};

use crate::error::ExecuteError;
use crate::observe::{self, Liveness};
use crate::operation::{finish_change, last_word_name};
use crate::output::{Artifacts, artifact_stem, spooled};
use crate::result::{OperationResult, ProcessIdentity, StreamPart};

pub use decide::Verdict;

use decide::{Evidence, decide};

/// How long a helper may still take to end its tree. Its own ladder is shorter.
const HOLDER_PATIENCE: Duration = Duration::from_secs(15);

/// What was decided about one operation, and on what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The operation.
    pub operation_id: String,
    /// The case, a letter of the table in the documentation of recovery.
    pub case: char,
    /// What follows.
    pub verdict: Verdict,
    /// What it rests on, as a sentence.
    pub evidence: String,
}

/// Settles every unfinished operation.
pub(crate) fn recover(
    journal: &Journal,
    artifacts: &Artifacts,
    holders: &Path,
) -> Result<Vec<Decision>, ExecuteError> {
    let mut decisions = Vec::new();
    for operation in journal.unsettled()?.operations {
        decisions.push(settle(journal, artifacts, holders, &operation)?);
    }
    word::remove_settled(holders, |operation_id| {
        let known = journal.operation(operation_id)?;
        Ok::<_, ExecuteError>(known.map(|operation| operation.status))
    })?;
    Ok(decisions)
}

fn settle(
    journal: &Journal,
    artifacts: &Artifacts,
    holders: &Path,
    operation: &Operation,
) -> Result<Decision, ExecuteError> {
    let stem = artifact_stem(&operation.id);
    let holder = identity(operation.holder.as_ref());
    let root = identity(operation.process_identity.as_ref());
    // The word is written before its writer goes, so it is read after that.
    let holder_now = holder.as_ref().map_or(Liveness::CannotTell, |holder| {
        observe::wait_gone(holder, HOLDER_PATIENCE)
    });
    let evidence = Evidence {
        word: word::read(&holders.join(last_word_name(&stem)), &operation.id),
        holder: holder_now,
        root: root
            .as_ref()
            .map_or(Liveness::CannotTell, observe::liveness),
        is_process: operation.kind == OperationKind::Process,
    };
    let (case, mut result) = decide(operation, &evidence);
    let mut outputs = Vec::new();
    for stream in xioflow_journal::Stream::ALL {
        if let Some((kept, output)) = spooled(artifacts, &stem, *stream) {
            outputs.push(output.clone());
            result.set_stream(StreamPart {
                kept: kept.bytes,
                truncated: kept.truncated,
                output,
            });
        }
    }
    journal.commit(vec![finish_change(&result, outputs), end_run(&result)])?;
    Ok(Decision {
        operation_id: operation.id.clone(),
        case,
        verdict: Verdict::of(&result),
        evidence: evidence.to_string(),
    })
}

fn identity(recorded: Option<&serde_json::Value>) -> Option<ProcessIdentity> {
    // One that cannot be read is as good as none: nothing is decided by it.
    recorded.and_then(|recorded| serde_json::from_value(recorded.clone()).ok())
}

/// A Run whose owner died has ended, whatever else it might have done.
fn end_run(result: &OperationResult) -> Change {
    let (status, reason) = match result.status {
        Outcome::Indeterminate => (RunStatus::Indeterminate, TerminationReason::ExitUnobserved),
        Outcome::Succeeded | Outcome::Failed | Outcome::Cancelled => {
            (RunStatus::Failed, TerminationReason::CrashDetected)
        }
    };
    Change::EndRun {
        run_id: result.run_id.clone(),
        status,
        reason,
    }
}
