//! What the kernel holds still: it is ended where the kernel lets it end, and named where it does not.

use std::fs;
use std::path::PathBuf;

use xioflow_kit::{Deadline, Stage, each_user, wait};
use xioflow_protocol::{Reply, Request, StopPlan, SurvivorEnd, WhyAlive};

use crate::alone;
use crate::held::{Held, KILLED, kill};
use crate::leaf::Leaf;

/// Each in the state that its shape is named for, or the tests about it say nothing.
#[test]
fn the_shapes_are_in_the_states_that_they_promise() {
    let _one = alone();
    let stage = Stage::new();
    for (name, state, count) in [
        ("stopped", 'T', 4),
        ("traced", 't', 4),
        ("suspended", 'D', 4),
    ] {
        let held = Held::launch(&stage, &["shapes", name, "4"]);
        let pids = held.stand();
        let in_state = || {
            let states = pids.iter().filter_map(|pid| wait::state(*pid));
            states.filter(|one| *one == state).count()
        };
        wait::until(name, Deadline::usual(), || in_state() == count);
        held.stop(kill());
    }
}

/// The version 2 hierarchy lets a frozen process be killed.
#[test]
fn a_frozen_control_group_does_not_keep_its_processes() {
    let _one = alone();
    let Some(frozen) = Leaf::new() else {
        println!("skipped: no control group of one's own (root and a writable cgroup2 hierarchy)");
        return;
    };
    each_user(|stage| {
        let held = Held::launch(stage, &["shapes", "mixed", "20"]);
        let pids = held.stand();
        pids.iter().for_each(|pid| frozen.take(*pid));
        frozen.freeze();
        let ended = held.stop(kill());
        assert_eq!(frozen.living(), [] as [u32; 0]);
        assert_eq!(ended.exit, KILLED);
    });
}

/// A group of the freezer of version 1: whoever is in it sleeps, and no signal reaches it before it is thawed.
struct Freezer {
    path: PathBuf,
}

impl Freezer {
    fn new() -> Option<Self> {
        let name = format!("xioflow-trees-{}", std::process::id());
        let path = PathBuf::from("/sys/fs/cgroup/freezer").join(name);
        fs::create_dir(&path).ok()?;
        Some(Self { path })
    }

    fn take(&self, pid: u32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("a group of ours");
    }

    fn turn(&self, state: &str) {
        let file = self.path.join("freezer.state");
        fs::write(&file, state).expect("a group of ours");
        let is_so = || fs::read_to_string(&file).expect("a group of ours").trim() == state;
        wait::until(state, Deadline::usual(), is_so);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.turn("THAWED");
        let procs = self.path.join("cgroup.procs");
        wait::until("an empty group", Deadline::usual(), || {
            fs::read_to_string(&procs)
                .expect("a group of ours")
                .is_empty()
        });
        fs::remove_dir(&self.path).expect("an empty group");
    }
}

#[test]
fn what_sleeps_uninterruptibly_is_named_with_that_reason() {
    let _one = alone();
    let Some(freezer) = Freezer::new() else {
        println!("skipped: no freezer of the control groups of version 1 (root)");
        return;
    };
    each_user(|stage| {
        let mut held = Held::launch(stage, &["shapes", "sessions", "3", "flat", "3"]);
        let pids = held.stand();
        // Half of the tree, and not its root.
        pids[1..4].iter().for_each(|pid| freezer.take(*pid));
        freezer.turn("FROZEN");
        held.holder.send(&Request::Stop(StopPlan::kill(1500)));
        let end = loop {
            match held.reply() {
                Reply::TreeRemains(end) => break end,
                Reply::TreeEmpty(end) => panic!("called empty: {end:?}"),
                _ => {}
            }
        };
        assert_eq!(end.exit, Some(KILLED), "what became of the root is seen");
        let mut left: Vec<u32> = end.survivors.iter().map(|one| one.process.pid).collect();
        left.sort_unstable();
        let mut stuck = pids[1..4].to_vec();
        stuck.sort_unstable();
        assert_eq!(left, stuck, "those and no others: {end:?}");
        let reason = SurvivorEnd::Alive(WhyAlive::Uninterruptible);
        assert!(end.survivors.iter().all(|one| one.end == reason), "{end:?}");
        freezer.turn("THAWED");
        // SIGKILL has waited for them.
        for pid in stuck {
            assert!(wait::pid_gone(pid, Deadline::usual()), "{pid}");
        }
    });
}
