//! Control groups: the own group is looked at, and if it can be used a leaf is made and removed.

use serde_json::{Value, json};
use xioflow_cgroup::{
    Controllers, Delegation, Hierarchy, OwnGroup, Proof, ProofError, Reason, Shortfall, Verdict,
    delegation, prove_leaf,
};

use super::report::{Finding, with_causes};

/// Looks, and proves if there is something to prove. No process is moved.
pub(super) fn look() -> Finding {
    let delegation = delegation();
    let proof = match delegation.verdict {
        Verdict::Ready { .. } | Verdict::Partial { .. } => Some(prove_leaf(&delegation)),
        Verdict::Missing { .. } | Verdict::CannotTell { .. } => None,
    };
    judge(&delegation.verdict, proof.as_ref()).with_facts(facts(&delegation, proof.as_ref()))
}

fn judge(verdict: &Verdict, proof: Option<&Result<Proof, ProofError>>) -> Finding {
    if let Some(Err(error)) = proof {
        return Finding::missing(with_causes(error));
    }
    match verdict {
        Verdict::Ready { directory } => Finding::ready(format!(
            "a leaf was made in {} and removed",
            directory.display()
        )),
        Verdict::Partial {
            directory,
            shortfalls,
            remedy,
        } => {
            let reasons: Vec<_> = shortfalls.iter().map(describe).collect();
            let works = format!("a leaf can be made in {}", directory.display());
            Finding::weaker(format!("{works}, but {}", reasons.join("; ")))
                .with_remedy(remedy.clone())
        }
        Verdict::Missing { reason, remedy } => {
            Finding::missing(explain(reason)).with_remedy(remedy.clone())
        }
        Verdict::CannotTell { subject, errno } => Finding::cannot_tell(match errno {
            Some(errno) => format!("read {}: error {errno}", subject.display()),
            None => format!("the content of {} is not understood", subject.display()),
        }),
    }
}

fn describe(shortfall: &Shortfall) -> String {
    match shortfall {
        Shortfall::HeldByV1(controllers) => format!("version 1 holds {controllers}"),
        Shortfall::NotDelegated(controllers) => format!("{controllers} was not delegated"),
        Shortfall::ControllersUnknown => "its controllers cannot be read".to_owned(),
        Shortfall::OtherProcesses(count) => format!(
            "{count} other processes are in it, and a group with processes hands no controllers down"
        ),
        Shortfall::NoKill => "it has no cgroup.kill (it came with 5.14)".to_owned(),
    }
}

fn explain(reason: &Reason) -> String {
    match reason {
        Reason::NoHierarchy => "control groups are not mounted".to_owned(),
        Reason::LegacyOnly => "only version 1 of control groups is mounted".to_owned(),
        Reason::NotVisible { path } => {
            format!(
                "the own group {} cannot be seen from this namespace",
                path.display()
            )
        }
        Reason::ReadOnly { mount } => format!("{} is mounted read-only", mount.display()),
        Reason::NotWritable {
            directory,
            owner_uid,
        } => match owner_uid {
            Some(uid) => format!(
                "{} belongs to user {uid} and is not delegated",
                directory.display()
            ),
            None => format!("{} is not delegated", directory.display()),
        },
        Reason::Threaded(kind) => format!("a group of type \"{}\" takes no leaf", kind.name()),
    }
}

fn facts(delegation: &Delegation, proof: Option<&Result<Proof, ProofError>>) -> Value {
    json!({
        "hierarchy": delegation.hierarchy.as_ref().map(hierarchy_name),
        "heldByV1": delegation.hierarchy.as_ref().map(|hierarchy| names(hierarchy.held_by_v1())),
        "group": delegation.own.as_ref().map(group),
        "leafMade": proof.map(Result::is_ok),
        "leafControllers": proof.and_then(|proof| proof.as_ref().ok()).map(|proof| names(proof.controllers)),
        "leafKill": proof.and_then(|proof| proof.as_ref().ok()).and_then(|proof| proof.kill_file.known()),
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
        "nsdelegate": own.nsdelegate,
    })
}

fn names(controllers: Controllers) -> Vec<&'static str> {
    controllers
        .iter()
        .map(|controller| controller.name())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{self, Check};

    fn check(verdict: &Verdict, proof: Option<&Result<Proof, ProofError>>) -> Check {
        Check::new("cgroup", "control groups", false, judge(verdict, proof))
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
                Shortfall::OtherProcesses(2),
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
            check.detail.contains("2 other processes"),
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
        let check = Check::new("cgroup", "control groups", false, look());
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
