//! Makes the result of an unfinished operation, with what of its output had reached the disk.

use xioflow_journal::{Change, Output, Stream};

use super::tell::{Sources, tell};
use super::unfinished::{Origin, Unfinished};
use super::{Decision, First, LeasesAre, stop_action};
use crate::operation::finish_change;
use crate::output::{Artifacts, artifact_stem, spooled};
use crate::result::{OperationResult, StreamPart};

/// An operation with its result, not recorded yet.
pub(super) struct Settled {
    pub(super) change: Change,
    pub(super) decision: Decision,
    /// Whether its end is proven.
    pub(super) is_proven: bool,
}

/// Settles one operation. What its streams had left is hashed and referenced.
pub(super) fn settle(artifacts: &Artifacts, unfinished: &Unfinished, origin: &Origin) -> Settled {
    let (mut result, mut decision) = conclude(unfinished, origin);
    let stem = artifact_stem(&unfinished.operation.id);
    let mut outputs: Vec<Output> = Vec::new();
    for &stream in Stream::ALL {
        let Some((kept, output)) = spooled(artifacts, &stem, stream) else {
            continue;
        };
        match stream {
            Stream::Stdout => decision.stdout_bytes = Some(output.total_bytes),
            Stream::Stderr => decision.stderr_bytes = Some(output.total_bytes),
        }
        outputs.push(output.clone());
        result.set_stream(StreamPart {
            kept: kept.bytes,
            truncated: kept.truncated,
            output,
        });
    }
    Settled {
        change: finish_change(&result, outputs),
        is_proven: decision.leases == LeasesAre::Freed,
        decision,
    }
}

/// What follows from what was found, still without output.
pub(super) fn conclude(unfinished: &Unfinished, origin: &Origin) -> (OperationResult, Decision) {
    let concluded = unfinished.conclusion();
    let sources = Sources {
        recorded: &unfinished.recorded,
        word: unfinished.word.said(),
        unusable: unfinished.word.why_unusable(),
        stopped: &unfinished.stopped,
        host: origin.other_host.as_deref(),
    };
    let mut result = tell(&unfinished.operation, &concluded, &sources);
    let mut decision = Decision {
        operation_id: unfinished.operation.id.clone(),
        case: concluded.case.letter(),
        verdict: concluded.verdict,
        status: concluded.status,
        leases: match concluded.frees_leases() {
            true => LeasesAre::Freed,
            false => LeasesAre::Kept,
        },
        evidence: unfinished.evidence(),
        signalled: unfinished.stopped.signalled.clone(),
        stdout_bytes: None,
        stderr_bytes: None,
        guidance: None,
        first: None::<First>,
    };
    stop_action::tell(unfinished, &mut result, &mut decision);
    (result, decision)
}
