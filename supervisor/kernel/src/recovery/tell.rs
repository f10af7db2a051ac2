//! The table of recovery: what is recorded and what is found, to what follows. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};
use xioflow_journal::{Operation, Outcome, TerminationReason};
use xioflow_protocol::{LastWord, Stage};

use super::word::Word;
use crate::observe::Liveness;
use crate::operation::{Cause, apply_spawn_failure, indeterminate, settle_end};
use crate::result::{OperationResult, SpawnFailure};

/// What was decided about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing of it ever ran.
    CleanedUnspawned,
    /// Its end was seen by its helper.
    SettledByLastWord,
    /// It is gone, and nobody saw how it ended.
    MarkedDead,
    /// Its end cannot be proven; it keeps its leases.
    Isolated,
}

impl Verdict {
    /// The verdict that a settled result stands for.
    pub(super) fn of(result: &OperationResult) -> Self {
        match (result.status, result.termination_reason) {
            (Outcome::Indeterminate, _) => Self::Isolated,
            (_, Some(TerminationReason::ExitUnobserved)) => Self::MarkedDead,
            _ if result.exit_code.is_none() && result.signal.is_none() => Self::CleanedUnspawned,
            _ => Self::SettledByLastWord,
        }
    }
}

/// What the decision rests on.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) word: Word,
    pub(super) holder: Liveness,
    pub(super) root: Liveness,
    pub(super) is_process: bool,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |liveness| match liveness {
            Liveness::Alive => "lives",
            Liveness::Gone => "is gone",
            Liveness::OtherBoot => "belongs to an earlier boot",
            Liveness::CannotTell => "cannot be looked at",
        };
        write!(
            f,
            "{}; the helper {}, the command {}",
            self.word,
            state(self.holder),
            state(self.root)
        )
    }
}

/// Decides one operation.
///
/// | case | last word | helper | command | follows |
/// | --- | --- | --- | --- | --- |
/// | A | tree empty | any | any | the result it tells |
/// | B | tree not empty | any | any | isolated, with the residuals it names |
/// | C | unusable | any | any | isolated |
/// | D | none | earlier boot | any | dead: nothing survives a boot |
/// | E | none | lives | any | isolated: it is still at work, or stuck |
/// | F | none | gone | lives | isolated: the tree is without a holder |
/// | G | none | gone | gone or unknown | isolated: others of the tree may live |
/// | H | none | unknown | any | isolated |
/// | I | not a process | | | isolated: this release cannot judge it |
pub(super) fn decide(operation: &Operation, evidence: &Evidence) -> (char, OperationResult) {
    let mut result = OperationResult::blank(&operation.id, &operation.run_id);
    result.timeout_ms = operation.timeout_ms;
    if !evidence.is_process {
        isolate(
            &mut result,
            "this release cannot judge an operation of this kind",
        );
        return ('I', result);
    }
    let case = match (&evidence.word, evidence.holder, evidence.root) {
        (Word::Said(word), _, _) if word.empty => {
            tell(&mut result, word);
            'A'
        }
        (Word::Said(word), _, _) => {
            settle_end(&mut result, &word.end, Cause::Remains);
            'B'
        }
        (Word::Unusable(why), _, _) => {
            isolate(
                &mut result,
                &format!("the helper's last word cannot be used: {why}"),
            );
            'C'
        }
        (Word::None, Liveness::OtherBoot, _) => {
            result.status = Outcome::Failed;
            result.termination_reason = Some(TerminationReason::ExitUnobserved);
            'D'
        }
        (Word::None, Liveness::Alive, _) => {
            isolate(
                &mut result,
                "the helper of the earlier owner still holds its tree",
            );
            'E'
        }
        (Word::None, Liveness::Gone, Liveness::Alive) => {
            isolate(
                &mut result,
                "the helper died without a last word and the command lives",
            );
            'F'
        }
        (Word::None, Liveness::Gone, _) => {
            isolate(
                &mut result,
                "the helper died without a last word; processes of the tree may live",
            );
            'G'
        }
        (Word::None, Liveness::CannotTell, _) => {
            isolate(&mut result, "nothing shows what became of it");
            'H'
        }
    };
    (case, result)
}

/// Takes the result from a last word on a tree that is gone.
fn tell(result: &mut OperationResult, word: &LastWord) {
    // A child that was ended at its gate was not refused by anything: it fell with its supervisor.
    let refused = word
        .launch_failure
        .as_ref()
        .filter(|failure| failure.stage != Stage::Gate);
    if let Some(failure) = refused {
        let subject = String::from_utf8_lossy(&failure.subject).into_owned();
        let subject = (!subject.is_empty()).then_some(subject);
        let failure = SpawnFailure::new(failure.stage.name(), failure.errno, subject);
        return apply_spawn_failure(result, failure);
    }
    if !word.released || word.launch_failure.is_some() {
        result.status = Outcome::Failed;
        result.termination_reason = Some(TerminationReason::CrashDetected);
        return;
    }
    let cause = if word.stopped {
        Cause::HostLost
    } else {
        Cause::ByItself
    };
    settle_end(result, &word.end, cause);
}

fn isolate(result: &mut OperationResult, reason: &str) {
    indeterminate(
        result,
        reason.to_owned(),
        "look for processes of the command and end them; the operation keeps its leases, and this release cannot free them yet",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use xioflow_journal::{OperationKind, OperationStatus};
    use xioflow_protocol::{Exit, Identity, LAST_WORD_FORMAT, LaunchFailure, TreeEnd, Usage};

    fn operation() -> Operation {
        Operation {
            id: "op".into(),
            run_id: "run".into(),
            kind: OperationKind::Process,
            name: "x".into(),
            input_fingerprint: String::new(),
            status: OperationStatus::Active,
            required_resources: Vec::new(),
            mutation_roots: Vec::new(),
            capability_id: None,
            timeout_ms: None,
            resource_budget: None,
            output_ref: None,
            process_identity: Some(Value::Null),
            holder: None,
            spawn_gated: Some(true),
            created_at_ms: 0,
            finished_at_ms: None,
            outcome: None,
            result: None,
            adjudication: None,
        }
    }

    fn word(empty: bool, released: bool, stopped: bool, exit: Option<Exit>) -> Word {
        let holder = Identity {
            pid: 1,
            start_ticks: 1,
            boot_id: [0; 16],
            pidfd_inode: None,
        };
        Word::Said(Box::new(LastWord {
            format: LAST_WORD_FORMAT,
            operation_id: "op".into(),
            holder,
            root: None,
            released,
            launch_failure: None,
            end: TreeEnd {
                exit,
                survivors: Vec::new(),
                survivors_total: 0,
                usage: Usage::default(),
                last_signal: stopped.then_some(15),
            },
            empty,
            written_at_ms: 0,
            stopped,
        }))
    }

    const ALL: [Liveness; 4] = [
        Liveness::Alive,
        Liveness::Gone,
        Liveness::OtherBoot,
        Liveness::CannotTell,
    ];

    /// Every combination has its case, and only the cases with proof free anything.
    #[test]
    fn every_combination_is_decided() {
        let words = || {
            [
                word(true, true, true, Some(Exit::Exited { code: 0 })),
                word(false, true, true, None),
                Word::Unusable("x".into()),
                Word::None,
            ]
        };
        for holder in ALL {
            for root in ALL {
                for (at, word) in words().into_iter().enumerate() {
                    let evidence = Evidence {
                        word,
                        holder,
                        root,
                        is_process: true,
                    };
                    let (case, result) = decide(&operation(), &evidence);
                    let expected = match (at, holder, root) {
                        (0, _, _) => 'A',
                        (1, _, _) => 'B',
                        (2, _, _) => 'C',
                        (_, Liveness::OtherBoot, _) => 'D',
                        (_, Liveness::Alive, _) => 'E',
                        (_, Liveness::Gone, Liveness::Alive) => 'F',
                        (_, Liveness::Gone, _) => 'G',
                        (_, Liveness::CannotTell, _) => 'H',
                    };
                    assert_eq!(case, expected, "{evidence}");
                    let proven = matches!(case, 'A' | 'D');
                    assert_eq!(
                        result.status != Outcome::Indeterminate,
                        proven,
                        "{evidence}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_last_word_is_told_exactly() {
        let ok = Some(Exit::Exited { code: 0 });
        let tell = |word| {
            let evidence = Evidence {
                word,
                holder: Liveness::Gone,
                root: Liveness::Gone,
                is_process: true,
            };
            decide(&operation(), &evidence).1
        };
        let by_itself = tell(word(true, true, false, ok));
        assert_eq!(by_itself.status, Outcome::Succeeded);
        assert_eq!(by_itself.exit_code, Some(0));

        let stopped = tell(word(true, true, true, ok));
        assert_eq!(stopped.status, Outcome::Failed);
        assert_eq!(stopped.exit_code, Some(0));
        assert_eq!(
            stopped.termination_reason,
            Some(TerminationReason::CrashDetected)
        );

        let mut ended_at_its_gate = word(true, true, true, None);
        if let Word::Said(word) = &mut ended_at_its_gate {
            word.launch_failure = Some(LaunchFailure {
                stage: Stage::Gate,
                errno: 3,
                subject: Vec::new().into(),
            });
        }
        let ended_at_its_gate = tell(ended_at_its_gate);
        assert_eq!(ended_at_its_gate.exit_code, None);
        assert_eq!(
            ended_at_its_gate.termination_reason,
            Some(TerminationReason::CrashDetected)
        );

        let never_ran = tell(word(true, false, false, None));
        assert_eq!(never_ran.status, Outcome::Failed);
        assert_eq!(
            (never_ran.exit_code, never_ran.signal.clone()),
            (None, None)
        );
        assert_eq!(Verdict::of(&never_ran), Verdict::CleanedUnspawned);
    }
}
