//! Whom the helper signals, as the kernel was asked for it: each was a member of the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use xioflow_kit::{Deadline, Holder, each_user, strace, wait};
use xioflow_protocol::{Rung, StopPlan};

use crate::alone;
use crate::held::Held;
use crate::strangers::Strangers;

/// The calls that send a signal, and the one that their pidfds come from.
const CALLS: &str = "trace=kill,tkill,tgkill,pidfd_open,pidfd_send_signal";
/// A tree in which every way to a process is taken, and whose numbers do not change.
const PARTS: [&str; 16] = [
    "mixed",
    "20",
    "deaf",
    "4",
    "stopped",
    "4",
    "subreapers",
    "2",
    "siblings",
    "3",
    "groups",
    "2",
    "zombies",
    "2",
    "suspended",
    "2",
];
/// The variable by which a tree is told whose group it may try to join.
const OUTSIDER_VARIABLE: &str = "XIOFLOW_FIXTURE_OUTSIDER";

#[test]
fn every_signal_of_a_helper_goes_to_its_own_tree() {
    let _one = alone();
    if !strace::is_there() {
        println!("{}", strace::MISSING);
        return;
    }
    each_user(|stage| {
        let strangers = Strangers::of(stage);
        let trace = stage.path("trace");
        let path = trace.to_str().expect("an ASCII path");
        let holder = Holder::start_through(stage, &["strace", "-D", "-o", path, "-e", CALLS]);
        let outsider = format!("{OUTSIDER_VARIABLE}={}", strangers.group());
        let words = [&["shapes"][..], &PARTS].concat();
        let held = Held::launch_by(holder, stage, &words, |launch| {
            launch.env.push(outsider.into_bytes().into());
        });
        let helper = held.holder.pid();
        let members = members(&held.stand());
        held.stop(StopPlan {
            rungs: vec![Rung {
                signal: 15,
                wait_ms: 100,
            }],
            kill_ms: 60_000,
        });
        let signalled = signalled(&trace, helper);
        assert!(signalled.len() > 10, "a tree of many groups: {signalled:?}");
        let strange: Vec<_> = signalled.difference(&members).collect();
        assert!(strange.is_empty(), "{strange:?} are not of {members:?}");
        strangers.assert_left_alone();
    });
}

/// The numbers of these processes, of their groups and of their sessions.
fn members(pids: &[u32]) -> BTreeSet<u32> {
    let mut members: BTreeSet<u32> = pids.iter().copied().collect();
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it stands");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
        let numbers = fields.split(' ').skip(2).take(2);
        members.extend(numbers.map(|number| number.parse::<u32>().expect("a number")));
    }
    members
}

/// The numbers of the processes and groups that were signalled, but for those that a pidfd stands for: these are
/// the ones that it was opened for. The helper opens one for itself, to know its own identity.
fn signalled(trace: &Path, helper: u32) -> BTreeSet<u32> {
    let whole = wait::in_folder(trace.parent().expect("a folder"), Deadline::usual(), || {
        let text = fs::read_to_string(trace).ok()?;
        text.contains("+++ exited").then_some(text)
    });
    let whole = whole.expect("strace ends with its helper");
    let calls = whole
        .lines()
        .filter_map(|line| line.split_once('('))
        .filter(|(call, _)| *call != "pidfd_send_signal");
    let targets = calls.filter_map(|(call, rest)| match call {
        "kill" | "tkill" | "pidfd_open" | "tgkill" => rest.split([',', ')']).next(),
        _ => None,
    });
    let numbers = targets.map(|number| number.trim_start_matches('-').parse().expect("a number"));
    numbers.filter(|number| *number != helper).collect()
}
