//! A tree whose control group is recorded with it: who is in it is ended, and nobody in it is proof.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use xioflow_kernel::journal::{AdjudicationVerdict, Outcome, Reader, TerminationReason};
use xioflow_kernel::{
    AdjudicateError, Decision, Driver, First, ProcessIdentity, Scope, TreeNamespace, Verdict,
    preview_recovery,
};
use xioflow_kit::{Deadline, Delegated, Stage, delegated, wait};

use crate::left::{ID, Left, Legacy, gone, identity_of};
use crate::stop::end;
use crate::{assert_free, assert_isolated, command, decision, is_over, open, result};

/// A leaf as xioflow makes one.
struct Leaf {
    directory: PathBuf,
}

impl Leaf {
    fn new(place: &Delegated<'_>) -> Self {
        let domain = place.directory().join("xioflow-0123456789abcdef");
        let directory = domain.join("0123456789abcdef0123456789abcdef");
        fs::create_dir_all(&directory).expect("a group may be made");
        Self { directory }
    }

    /// Somebody in it, or in a group below it, who has left session, streams and parent.
    fn escapee(&self, place: &Delegated<'_>, below: &str) -> u32 {
        let group = self.directory.join(below);
        fs::create_dir_all(&group).expect("a group may be made");
        let enter = "echo 0 >\"$0/cgroup.procs\"; exec setsid -f sleep 120 >&- 2>&-";
        let entering = place.run("/bin/sh").args(["-c", enter]).arg(&group);
        entering.finish().assert_code(0);
        let members = delegated::processes(&group);
        let [pid] = members[..] else {
            panic!("one in {}: {members:?}", group.display());
        };
        pid
    }

    /// A command that is gone, and whose tree is in this group.
    fn root(&self) -> ProcessIdentity {
        self.with(gone())
    }

    fn with(&self, root: ProcessIdentity) -> ProcessIdentity {
        ProcessIdentity {
            cgroup_path: Some(self.directory.to_str().expect("text").to_owned()),
            cgroup_id: Some(inode(&self.directory)),
            cgroup_namespace: Some(inode(Path::new("/proc/self/ns/cgroup"))),
            ..root
        }
    }

    /// Removes it, as its owner would have.
    fn remove(&self) {
        fs::remove_dir(&self.directory).expect("nobody is in it");
    }

    fn freeze(&self) {
        fs::write(self.directory.join("cgroup.freeze"), "1").expect("a freezer");
        wait::until("the frozen group", Deadline::usual(), || {
            let events = fs::read_to_string(self.directory.join("cgroup.events"));
            events.expect("a group").contains("frozen 1")
        });
    }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").ino()
}

fn leave(stage: &Stage, root: &ProcessIdentity) {
    Legacy::of(Left::with_root(root)).leave(stage);
}

fn preview(stage: &Stage) -> Decision {
    let reader = Reader::open(stage.domain()).expect("a domain");
    let mut all = preview_recovery(&reader, &stage.domain()).expect("readable");
    all.remove(0)
}

#[test]
fn who_is_left_in_a_group_is_ended_before_its_leases_are_freed() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let leaf = Leaf::new(&place);
    let escaped = [
        leaf.escapee(&place, ""),
        leaf.escapee(&place, "nested/deep"),
    ];
    leave(&stage, &leaf.root());
    let foreseen = preview(&stage);
    assert_eq!(
        (foreseen.case, foreseen.first),
        ('U', Some(First::StopProcesses))
    );
    let seen = "somebody is in its control group";
    assert!(foreseen.evidence.contains(seen), "{}", foreseen.evidence);
    assert!(
        escaped.iter().all(|pid| wait::is_alive(*pid)),
        "it only looks"
    );
    let domain = open(&stage);
    let decided = decision(&domain);
    assert_eq!((decided.case, decided.verdict), ('U', Verdict::MarkedDead));
    assert!(escaped.iter().all(|pid| decided.signalled.contains(pid)));
    let ended = "recovery has ended all that was in its control group";
    assert!(decided.evidence.contains(ended), "{}", decided.evidence);
    assert!(escaped.iter().all(|pid| is_over(*pid)));
    assert!(!leaf.directory.exists(), "with all below it");
    let result = result(&domain, ID);
    assert_eq!(result.status, Outcome::Failed);
    let unseen = Some(TerminationReason::ExitUnobserved);
    assert_eq!(result.termination_reason, unseen);
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
    assert_eq!(
        (result.scope, result.driver),
        (Scope::ContainmentCgroup, Some(Driver::ControlGroup))
    );
    assert_free(&stage, &domain);
}

#[test]
fn a_frozen_group_is_ended_too() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let leaf = Leaf::new(&place);
    let escaped = leaf.escapee(&place, "");
    leaf.freeze();
    leave(&stage, &leaf.root());
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'U');
    assert!(is_over(escaped));
    assert_free(&stage, &domain);
}

#[test]
fn a_group_that_was_removed_frees_what_its_tree_held() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let leaf = Leaf::new(&place);
    let root = leaf.root();
    leaf.remove();
    leave(&stage, &root);
    let domain = open(&stage);
    let decided = decision(&domain);
    assert_eq!((decided.case, decided.signalled.len()), ('U', 0));
    let removed = "its control group was removed";
    assert!(decided.evidence.contains(removed), "{}", decided.evidence);
    assert_free(&stage, &domain);
}

/// The same path means another group in another namespace, and an id is given once.
#[test]
fn what_is_not_the_recorded_group_proves_nothing_and_is_left_alone() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let leaf = Leaf::new(&place);
    let stranger = leaf.escapee(&place, "");
    let recorded = leaf.root();
    let records = [
        ProcessIdentity {
            cgroup_id: recorded.cgroup_id.map(|id| id + 1),
            ..recorded.clone()
        },
        ProcessIdentity {
            cgroup_namespace: recorded.cgroup_namespace.map(|inode| inode + 1),
            cgroup_path: Some(beside(&leaf)),
            ..recorded.clone()
        },
        ProcessIdentity {
            cgroup_namespace: None,
            cgroup_path: Some(beside(&leaf)),
            ..recorded
        },
    ];
    for root in records {
        let stage = Stage::new();
        leave(&stage, &root);
        let domain = open(&stage);
        let decided = decision(&domain);
        assert_eq!(
            (decided.case, decided.signalled.len()),
            ('G', 0),
            "{root:?}"
        );
        let nothing = "its control group tells nothing";
        assert!(decided.evidence.contains(nothing), "{}", decided.evidence);
        assert_isolated(&stage, &domain);
        assert!(wait::is_alive(stranger));
    }
    end(stranger);
    assert!(delegated::is_empty(&leaf.directory, Deadline::usual()));
    leaf.remove();
}

/// The path of a leaf that is not there.
fn beside(leaf: &Leaf) -> String {
    let name = "0".repeat(32);
    let path = leaf.directory.with_file_name(name);
    path.to_str().expect("text").to_owned()
}

/// It has left its group, and others may have done so: nothing is proven by an empty one then.
#[test]
fn a_command_that_lives_outside_of_its_group_is_ended_and_keeps_its_leases() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let leaf = Leaf::new(&place);
    let inside = leaf.escapee(&place, "");
    let (mut moved, pids) = command(&stage, "ready", &["sleep", "120"]);
    leave(&stage, &leaf.with(identity_of(pids[0])));
    assert_eq!(preview(&stage).case, 'N');
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'N');
    let signalled = &decision(&domain).signalled;
    assert!(signalled.contains(&pids[0]) && signalled.contains(&inside));
    assert!(is_over(pids[0]) && is_over(inside));
    assert_isolated(&stage, &domain);
    moved.wait().expect("a child");
    let stopped = AdjudicationVerdict::ConfirmedStopped;
    domain
        .adjudicate(ID, stopped, "ada", None)
        .expect("nobody is left");
    assert!(!leaf.directory.exists(), "it goes with the decision");
}

#[test]
fn the_end_of_a_namespace_decides_and_who_sits_in_the_group_is_ended_first() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let leaf = Leaf::new(&place);
    let inside = leaf.escapee(&place, "");
    let root = ProcessIdentity {
        pid_namespace: Some(TreeNamespace {
            init: Box::new(gone()),
            inode: 1,
            user_namespace: false,
        }),
        ..leaf.root()
    };
    leave(&stage, &root);
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'S');
    assert!(is_over(inside));
    assert_eq!(result(&domain, ID).driver, Some(Driver::PidNamespace));
    assert_free(&stage, &domain);
}

#[test]
fn no_end_is_confirmed_while_somebody_is_in_the_group() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let leaf = Leaf::new(&place);
    let inside = leaf.escapee(&place, "");
    let left = Left {
        outcome: Some(Outcome::Indeterminate),
        ..Left::with_root(&leaf.root())
    };
    Legacy::of(left).leave(&stage);
    let domain = open(&stage);
    assert!(wait::is_alive(inside), "it waits for a decision");
    let stopped = AdjudicationVerdict::ConfirmedStopped;
    let refused = domain.adjudicate(ID, stopped, "ada", None);
    let Err(AdjudicateError::StillAlive { processes, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(processes.iter().any(|it| it.pid == inside), "{processes:?}");
    end(inside);
    assert!(delegated::is_empty(&leaf.directory, Deadline::usual()));
    let refused = domain.adjudicate(ID, stopped, "ada", None);
    // The record of this test has no result to look into.
    let unclear = matches!(refused, Err(AdjudicateError::CannotTell { .. }));
    assert!(unclear, "{refused:?}");
    let abandoned = AdjudicationVerdict::AbandonWithResiduals;
    domain
        .adjudicate(ID, abandoned, "ada", None)
        .expect("decided");
    assert!(!leaf.directory.exists(), "nobody is in it");
    assert_free(&stage, &domain);
}
