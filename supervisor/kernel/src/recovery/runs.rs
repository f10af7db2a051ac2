//! What becomes of Runs whose owner died. Pure.
//!
//! A Run is its host's: only its host says that it succeeded. Where the owner died, its hosts are
//! taken to be gone with it, and what they had begun ends here. Where the owner gave the domain
//! back, Runs stay as they are, and a host can go on with its own.

use xioflow_journal::{RunStatus, TerminationReason};

/// What is recorded of a Run and its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunFacts {
    /// Where the Run is.
    pub status: RunStatus,
    /// How many operations it has.
    pub operations: u64,
    /// How many of them have no result.
    pub unfinished: u64,
    /// How many of them are indeterminate, and nobody has adjudicated them.
    pub unclear: u64,
    /// Whether the owner died under which this is: it has not given the domain back, or an operation of
    /// the Run was unfinished when the domain was taken over.
    pub owner_died: bool,
}

/// How a Run ends that nobody can end any more; `None` if it stays as it is.
///
/// | Run | its operations | follows |
/// | --- | --- | --- |
/// | has ended | any | nothing: that never changes |
/// | open | one has no result | nothing yet |
/// | open | one is indeterminate and not adjudicated | indeterminate |
/// | open, its owner gave the domain back | all have known ends | nothing: its host can go on |
/// | queued, its owner died | there are none | nothing: it was never begun, and can be |
/// | open otherwise, its owner died | all have known ends, or there are none | failed, `crash_detected` |
#[must_use]
pub fn converge(run: &RunFacts) -> Option<(RunStatus, TerminationReason)> {
    if run.status.is_terminal() || run.unfinished > 0 {
        return None;
    }
    if run.unclear > 0 {
        return Some((RunStatus::Indeterminate, TerminationReason::ExitUnobserved));
    }
    let was_begun = run.status != RunStatus::Queued || run.operations > 0;
    (run.owner_died && was_begun).then_some((RunStatus::Failed, TerminationReason::CrashDetected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_run() -> Vec<RunFacts> {
        let mut all = Vec::new();
        for &status in RunStatus::ALL {
            for operations in 0..3 {
                for unfinished in 0..=operations {
                    for unclear in 0..=operations - unfinished {
                        for owner_died in [false, true] {
                            all.push(RunFacts {
                                status,
                                operations,
                                unfinished,
                                unclear,
                                owner_died,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn every_run_converges_by_what_is_recorded() {
        for run in every_run() {
            let end = converge(&run);
            if run.status.is_terminal() || run.unfinished > 0 {
                assert_eq!(end, None, "{run:?}");
            } else if run.unclear > 0 {
                assert_eq!(
                    end.map(|end| end.0),
                    Some(RunStatus::Indeterminate),
                    "{run:?}"
                );
            } else if run.owner_died && (run.operations > 0 || run.status != RunStatus::Queued) {
                assert_eq!(end.map(|end| end.0), Some(RunStatus::Failed), "{run:?}");
            } else {
                assert_eq!(end, None, "{run:?}");
            }
        }
    }

    #[test]
    fn no_run_succeeds_by_recovery_and_done_again_nothing_changes() {
        for run in every_run() {
            if let Some((status, _)) = converge(&run) {
                assert!(
                    status.is_terminal() && status != RunStatus::Succeeded,
                    "{run:?}"
                );
                assert_eq!(converge(&RunFacts { status, ..run }), None, "{run:?}");
            }
        }
    }
}
