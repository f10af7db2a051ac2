//! Control groups: the own group is looked at, and if it can be used a leaf is made and removed, and a command is ended
//! in another one (`group_trial`).

use std::path::Path;

use serde_json::{Value, json};
use xioflow_cgroup::{
    Controllers, Delegated, Delegation, Hierarchy, OwnGroup, Proof, ProofError, Verdict,
    delegation, prove_leaf,
};
use xioflow_protocol::GroupEntry;

use super::group_trial::{self, Outcome, TrialError};
use super::report::{Finding, with_causes};

/// Looks, and proves if there is something to prove: by a leaf that is made, and by a command that is ended in one. No process
/// of others is moved.
pub(super) fn look(helper: Result<&Path, &String>) -> Finding {
    let delegation = delegation();
    let proof = match delegation.verdict {
        Verdict::Ready { .. } | Verdict::Partial { .. } => Some(prove_leaf(&delegation)),
        Verdict::Missing { .. } | Verdict::CannotTell { .. } => None,
    };
    let trial = match (&proof, helper) {
        (Some(Ok(_)), Ok(helper)) => Some(group_trial::run(helper)),
        _ => None,
    };
    let facts = facts(&delegation, proof.as_ref(), trial.as_ref());
    judge(&delegation.verdict, proof.as_ref(), trial.as_ref()).with_facts(facts)
}

type Trial = Result<Outcome, TrialError>;

fn judge(
    verdict: &Verdict,
    proof: Option<&Result<Proof, ProofError>>,
    trial: Option<&Trial>,
) -> Finding {
    if let Some(Err(error)) = proof {
        return Finding::missing(with_causes(error));
    }
    if let Some(Err(error)) = trial {
        return Finding::missing(with_causes(error));
    }
    let did = match trial {
        Some(Ok(Outcome { emptied: false, .. })) => {
            return Finding::missing("a command was not ended by the order to end its group");
        }
        Some(Ok(_)) => "a command was made in a leaf and ended by one write",
        _ => "a leaf was made and removed",
    };
    match verdict {
        Verdict::Ready { directory } => {
            Finding::ready(format!("{did}, in {}", directory.display()))
        }
        Verdict::Partial {
            directory,
            shortfalls,
            remedy,
        } => {
            let reasons: Vec<_> = shortfalls.iter().map(ToString::to_string).collect();
            let works = format!("{did}, in {}", directory.display());
            Finding::weaker(format!("{works}, but {}", reasons.join("; ")))
                .with_remedy(remedy.clone())
        }
        Verdict::Missing { reason, remedy } => {
            Finding::missing(reason.to_string()).with_remedy(remedy.clone())
        }
        Verdict::CannotTell { .. } => Finding::cannot_tell(verdict.to_string()),
    }
}

fn facts(
    delegation: &Delegation,
    proof: Option<&Result<Proof, ProofError>>,
    trial: Option<&Trial>,
) -> Value {
    let tried = trial.and_then(|trial| trial.as_ref().ok());
    json!({
        "hierarchy": delegation.hierarchy.as_ref().map(hierarchy_name),
        "heldByV1": delegation.hierarchy.as_ref().map(|hierarchy| names(hierarchy.held_by_v1())),
        "group": delegation.own.as_ref().map(group),
        "leafMade": proof.map(Result::is_ok),
        "leafControllers": proof.and_then(|proof| proof.as_ref().ok()).map(|proof| names(proof.controllers)),
        "leafKill": proof.and_then(|proof| proof.as_ref().ok()).and_then(|proof| proof.kill_file.known()),
        // Whether the kernel makes a command there, or it has to be moved.
        "clonedInto": tried.map(|it| it.entry == GroupEntry::Cloned),
        "emptiedByKill": tried.map(|it| it.emptied),
        "systemd": delegation.host.systemd,
        "userManager": delegation.host.user_manager,
    })
}

const fn hierarchy_name(hierarchy: &Hierarchy) -> &'static str {
    match hierarchy {
        Hierarchy::Unified { .. } => "unified",
        Hierarchy::Hybrid { .. } => "hybrid",
        Hierarchy::LegacyOnly => "legacy_only",
        Hierarchy::None => "none",
    }
}

fn group(own: &OwnGroup) -> Value {
    json!({
        "path": own.path.to_string_lossy(),
        "directory": own.directory.to_string_lossy(),
        "isRoot": own.is_root.known(),
        "type": own.group_type.map(|kind| kind.name()),
        "ownerUid": own.owner_uid,
        "canMakeChildren": own.can_make_children.known(),
        "canMoveProcesses": own.can_move_processes.known(),
        "canEnableControllers": own.can_enable_controllers.known(),
        "controllers": own.available.map(names),
        "subtreeControl": own.enabled.map(names),
        "kill": own.kill_file.known(),
        "otherProcesses": own.other_processes,
        "readOnlyMount": own.read_only_mount,
        "hiddenProcesses": own.hidden_processes,
        "delegatedBySystemd": delegated(own.delegated),
        "nsdelegate": own.options.nsdelegate,
        "memoryRecursiveprot": own.options.memory_recursiveprot,
        "memoryLocalevents": own.options.memory_localevents,
        "pidsLocalevents": own.options.pids_localevents,
    })
}

/// Null where systemd has no say, and where its mark cannot be read.
const fn delegated(delegated: Delegated) -> Option<bool> {
    match delegated {
        Delegated::Yes => Some(true),
        Delegated::No => Some(false),
        Delegated::NoUnit | Delegated::CannotTell => None,
    }
}

fn names(controllers: Controllers) -> Vec<&'static str> {
    controllers
        .iter()
        .map(|controller| controller.name())
        .collect()
}

#[cfg(test)]
mod tests {
    use xioflow_cgroup::Shortfall;

    use super::*;
    use crate::doctor::report::{self, Check};

    fn check(verdict: &Verdict, proof: Option<&Result<Proof, ProofError>>) -> Check {
        Check::new(
            "cgroup",
            "control groups",
            false,
            judge(verdict, proof, None),
        )
    }

    #[test]
    fn a_delegation_that_takes_no_leaf_is_missing() {
        let ready = Verdict::Ready {
            directory: "/sys/fs/cgroup/a".into(),
        };
        let failed = Err(ProofError::NotEmpty {
            path: "/sys/fs/cgroup/a/leaf".into(),
        });
        assert_eq!(
            check(&ready, Some(&failed)).verdict,
            report::Verdict::Missing
        );
    }

    #[test]
    fn what_is_partial_names_everything_and_the_first_remedy() {
        let verdict = Verdict::Partial {
            directory: "/sys/fs/cgroup/a".into(),
            shortfalls: vec![
                Shortfall::HeldByV1(Controllers::all()),
                Shortfall::HiddenProcesses(2),
            ],
            remedy: Some("mend it".to_owned()),
        };
        let check = check(&verdict, None);
        assert_eq!(check.verdict, report::Verdict::Weaker);
        assert!(
            check.detail.contains("version 1 holds cpu memory pids io"),
            "{}",
            check.detail
        );
        assert!(
            check
                .detail
                .contains("2 processes of another pid namespace"),
            "{}",
            check.detail
        );
        assert_eq!(check.remedy.as_deref(), Some("mend it"));
    }

    #[test]
    fn ignorance_is_not_absence() {
        let verdict = Verdict::CannotTell {
            subject: "/proc/self/cgroup".into(),
            errno: Some(13),
        };
        assert_eq!(check(&verdict, None).verdict, report::Verdict::CannotTell);
    }

    #[test]
    fn this_host_leaves_no_leaf_behind() {
        let check = Check::new("cgroup", "control groups", false, look(Err(&String::new())));
        let Some(directory) = check.facts["group"]["directory"].as_str() else {
            println!("skipped: no visible control group ({})", check.detail);
            return;
        };
        let own = format!("xioflow-probe-{}-", std::process::id());
        let entries = std::fs::read_dir(directory).expect("the group is a folder");
        let left = entries
            .flatten()
            .any(|e| e.file_name().to_string_lossy().starts_with(&own));
        assert!(!left, "a leaf is left in {directory}");
    }
}
