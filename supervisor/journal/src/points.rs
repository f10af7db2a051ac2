//! Names for the moments around a commit, at which tests kill a process: `journal:<changes>:before-commit`
//! and `after-commit`. `writer` passes them.

use xioflow_killpoint as killpoint;

use crate::model::Change;

/// Passes a moment of each request of a batch.
pub(crate) fn each(batch: &[Vec<Change>], moment: &'static str) {
    for changes in batch {
        killpoint::pass(|| format!("journal:{}:{moment}", name(changes)));
    }
}

/// The kinds of the changes in their order, each once: `result+end-run`.
fn name(changes: &[Change]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for kind in changes.iter().map(kind) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join("+")
}

const fn kind(change: &Change) -> &'static str {
    match change {
        Change::SaveTask(_) => "task",
        Change::AddRun(_) => "run",
        Change::RegisterOperation(_) => "intent",
        Change::AddOperation(_) => "unrun",
        Change::ActivateOperation { .. } => "activate",
        Change::StopOperation { .. } => "stop",
        Change::PauseOperation { .. } => "pause",
        Change::ResumeOperation { .. } => "resume",
        Change::BeginStopAction { .. } => "stop-action",
        Change::KeepOutputOrder { .. } => "order",
        Change::FinishOperation(_) => "result",
        Change::Adjudicate { .. } => "adjudicate",
        Change::PruneOutput { .. } => "prune",
        Change::NoteReplay { .. } => "replay",
        Change::NoteHostMoving { .. } => "host-moving",
        Change::NoteHostMoved { .. } => "host-moved",
        Change::EndRun { .. } => "end-run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RunStatus, TerminationReason};

    #[test]
    fn a_batch_of_the_same_changes_is_named_like_one() {
        let stop = |id: &str| Change::StopOperation {
            operation_id: id.into(),
            reason: TerminationReason::TimedOut,
        };
        let end = |id: &str| Change::EndRun {
            run_id: id.into(),
            status: RunStatus::Failed,
            reason: TerminationReason::CrashDetected,
        };
        let changes = [stop("a"), end("a"), stop("b"), end("b")];
        assert_eq!(name(&changes), "stop+end-run");
    }
}
