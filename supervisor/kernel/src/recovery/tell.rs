//! Writes a result from what was concluded and what it rests on. Pure; `decide` concludes.

use xioflow_journal::Operation;
use xioflow_protocol::{LastWord, Stage};

use super::decide::{Case, Conclusion, cause_of};
use super::facts::{Fate, Provenance, Recorded};
use super::stop::Stopped;
use super::unfinished::legible;
use crate::delegation::{Delegated, Seen};
use crate::driver::Driver;
use crate::guidance;
use crate::operation::{Cause, apply_spawn_failure, indeterminate, name_survivors, settle_end};
use crate::result::{OperationResult, Scope, SpawnFailure, TreeSettlement};

/// What a conclusion can be told with.
pub(super) struct Sources<'a> {
    pub(super) recorded: &'a Recorded,
    /// The last word, where there is one that can be relied on.
    pub(super) word: Option<&'a LastWord>,
    /// Why the last word cannot be relied on.
    pub(super) unusable: Option<&'a str>,
    /// What recovery itself has ended, and what it could not.
    pub(super) stopped: &'a Stopped,
    /// The machine of the owner that left it.
    pub(super) host: Option<&'a str>,
}

/// The result of an operation that was settled by evidence, still without its output.
pub(super) fn tell(
    operation: &Operation,
    concluded: &Conclusion,
    sources: &Sources<'_>,
) -> OperationResult {
    let mut result = OperationResult::blank(&operation.id, &operation.run_id);
    result.timeout_ms = operation.timeout_ms;
    result.recovery_case = Some(concluded.case.letter());
    result.driver = driver_of(operation);
    match (concluded.case, sources.word) {
        (Case::Told, Some(word)) => {
            let fate = fate_of(word);
            settle_end(&mut result, &word.end, cause_of(sources.recorded, fate));
        }
        (Case::Remains, Some(word)) => settle_end(&mut result, &word.end, Cause::Remains),
        (
            Case::RemainsOfEarlierBoot | Case::RemainsAreGone | Case::RemainsLeftGroup,
            Some(word),
        ) => {
            settle_end(&mut result, &word.end, Cause::HostLost);
            outlived(&mut result, concluded);
        }
        (Case::NotExecuted, Some(word)) => refuse(&mut result, word),
        _ if concluded.frees_leases() => {
            result.status = concluded.status;
            result.termination_reason = concluded.reason;
            result.reason = why_over(concluded.case).map(str::to_owned);
            if let Some(scope) = scope_of(concluded.case) {
                result.scope = scope;
                // Who was left was ended by the kernel, and not seen.
                result.tree_settlement = Some(TreeSettlement::Reaped);
                result.residual_processes_reaped = true;
            }
        }
        _ => isolate(&mut result, operation, concluded.case, sources),
    }
    result.delegated = seen_of(&result);
    result
}

/// By its record: whose tree had neither a namespace nor a group was held by its helper alone.
fn driver_of(operation: &Operation) -> Option<Driver> {
    let root = legible(operation.process_identity.as_ref()).get()?;
    Some(match (root.pid_namespace, root.cgroup_id) {
        (Some(_), _) => Driver::PidNamespace,
        (None, Some(_)) => Driver::ControlGroup,
        (None, None) => Driver::Reaper,
    })
}

/// Of what a proof speaks that is no helper's word.
const fn scope_of(case: Case) -> Option<Scope> {
    match case {
        Case::NamespaceGone | Case::RemainsAreGone => Some(Scope::PidNamespace),
        Case::GroupEmpty | Case::RemainsLeftGroup => Some(Scope::ContainmentCgroup),
        _ => None,
    }
}

/// What the helper could not end has come to its end since, unseen by it.
fn outlived(result: &mut OperationResult, concluded: &Conclusion) {
    result.termination_reason = concluded.reason;
    result.residual_pids.clear();
    let scope = scope_of(concluded.case);
    result.tree_settlement = Some(match scope {
        Some(_) => TreeSettlement::Reaped,
        // Nobody saw them end: the machine did.
        None => TreeSettlement::Unverified,
    });
    if let Some(scope) = scope {
        result.scope = scope;
        result.residual_processes_reaped = true;
    }
    let reason = match concluded.case {
        Case::RemainsAreGone => {
            "what its helper could not end has ended since, with the init of its pid namespace"
        }
        Case::RemainsLeftGroup => {
            "what its helper could not end has ended since, and nobody is left in its control group"
        }
        _ => "the machine went down before what was left of the command could be ended",
    };
    result.reason = Some(reason.to_owned());
}

/// Of what the command was and of its tree while it lived nothing is recorded: only who outlived it can tell.
fn seen_of(result: &OperationResult) -> Option<Vec<Delegated>> {
    let mut seen = Seen::default();
    seen.of_survivors(&result.survivors);
    Some(seen.into_vec()).filter(|all| !all.is_empty())
}

/// What became of the command of a last word.
pub(super) fn fate_of(word: &LastWord) -> Fate {
    match &word.launch_failure {
        // A child that was ended at its gate was not refused by anything: it fell with its supervisor.
        Some(failure) if failure.stage != Stage::Gate => Fate::NotExecuted,
        Some(_) => Fate::NeverRan,
        None if !word.released => Fate::NeverRan,
        None => Fate::Ran {
            exit: word.end.exit,
            stopped: word.stopped,
            signalled: word.end.last_signal.is_some(),
        },
    }
}

fn refuse(result: &mut OperationResult, word: &LastWord) {
    let Some(failure) = &word.launch_failure else {
        return;
    };
    let subject = String::from_utf8_lossy(&failure.subject).into_owned();
    let subject = (!subject.is_empty()).then_some(subject);
    let failure = SpawnFailure::new(failure.stage.name(), failure.errno, subject);
    apply_spawn_failure(result, failure);
}

/// What a person may want to know of an end that is proven.
fn why_over(case: Case) -> Option<&'static str> {
    Some(match case {
        Case::GateNeverOpened => {
            "its supervisor died before the gate of the command was opened; nothing of it ran"
        }
        Case::NeverRan => "its supervisor died before the command was let run; nothing of it ran",
        Case::EarlierBoot => "the machine went down while it ran, and its end was not seen",
        Case::NamespaceGone => {
            "its supervisor and its helper died while it ran, and its end was not seen; the kernel has ended \
             everything in its pid namespace, whose init is gone"
        }
        Case::GroupEmpty => {
            "its supervisor and its helper died while it ran, and its end was not seen; nobody is left in its \
             control group"
        }
        Case::Snapshot => "its owner died before the snapshot was taken; nothing was changed",
        _ => return None,
    })
}

fn isolate(result: &mut OperationResult, operation: &Operation, case: Case, sources: &Sources<'_>) {
    let reason = match case {
        Case::UnusableWord => {
            let why = sources.unusable.unwrap_or("it says nothing");
            format!("the helper's last word cannot be used: {why}")
        }
        Case::Foreign => why_foreign(sources),
        other => why_unclear(other).to_owned(),
    };
    let advice = advice(case, sources.stopped);
    indeterminate(
        result,
        reason,
        &guidance::adjudicate(&operation.id, &advice),
    );
    name_survivors(result, &sources.stopped.left);
}

fn why_foreign(sources: &Sources<'_>) -> String {
    match sources.recorded.provenance {
        Provenance::Copied => {
            "it was recorded in the domain that this one is a copy of, whose owner may still watch over it"
                .to_owned()
        }
        Provenance::Renumbered => {
            "it was recorded under another device number, and it lives: this may be a snapshot of a domain whose owner is at work"
                .to_owned()
        }
        Provenance::Here | Provenance::OtherMachine => {
            let host = sources.host.unwrap_or("another machine");
            format!("its owner ran on {host}, and what became of it there cannot be seen from here")
        }
    }
}

/// Why an end is not proven.
fn why_unclear(case: Case) -> &'static str {
    match case {
        Case::HolderLives => "the helper of the earlier owner still holds its tree",
        Case::NotEnded => {
            "the helper died without a last word, and what was left of the command could not be ended"
        }
        Case::Ended => {
            "the helper died without a last word; what could be identified of the command was ended, and others of the tree may live"
        }
        Case::HolderGone => "the helper died without a last word; processes of the tree may live",
        Case::ForeignKind => "this release cannot judge an operation of this kind",
        Case::NoIdentity => {
            "its owner died, and nothing recorded tells its process or that it was held back"
        }
        Case::Contradiction => {
            "the helper's last word says that nothing of the tree is left, and the command lives"
        }
        _ => "nothing shows what became of it",
    }
}

/// What a person should look at first.
fn advice(case: Case, stopped: &Stopped) -> String {
    match case {
        Case::NotEnded if stopped.is_of_init => {
            "see what keeps the processes of its pid namespace from ending: one in uninterruptible sleep, \
             or a zombie that nobody waits for"
                .into()
        }
        Case::NotEnded if stopped.is_of_group => {
            "see what keeps the processes of its control group from ending: one in uninterruptible sleep, or a \
             group that this user may not write to"
                .into()
        }
        Case::HolderLives => "see what keeps the helper from ending its tree, and end both".into(),
        Case::Ended => {
            let count = stopped.signalled.len();
            let them = if count == 1 {
                "process was"
            } else {
                "processes were"
            };
            format!("{count} {them} ended; look for others that had left the command's session")
        }
        Case::Foreign => "see what became of it there".into(),
        Case::ForeignKind => "see how far it came".into(),
        _ => "look for processes of the command and end them".into(),
    }
}

#[cfg(test)]
#[path = "tell_tests.rs"]
mod tests;
