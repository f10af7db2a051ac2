//! Numbers of processes are given out again, here as fast as can be: in a pid namespace whose counter is set back all
//! the time, while strangers take over every number that becomes free. None of them gets a signal.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use xioflow_kit::{Deadline, Stage, each_user, running_as_root, wait};
use xioflow_protocol::{Rung, StopPlan};

use crate::held::Held;
use crate::{alone, number};

/// How many strangers come by for each user, without [`STRANGERS_VARIABLE`].
const STRANGERS: u64 = 4000;
/// Has more of them, or fewer.
const STRANGERS_VARIABLE: &str = "XIOFLOW_TEST_STRANGERS";
/// How many of them are there at once.
const AT_ONCE: &str = "24";
/// The counter is set back to this each [`PACE`], so the lowest free numbers are given out over and over.
const LAST_PID: &str = "300";
const PACE: Duration = Duration::from_millis(1);
const COUNTER: &str = "/proc/sys/kernel/ns_last_pid";
/// A tree that makes and frees numbers, also below parents that are not its helper.
const PARTS: [&str; 11] = [
    "shapes",
    "nurseries",
    "3",
    "comets",
    "2",
    "wanderers",
    "2",
    "subreapers",
    "3",
    "mixed",
    "10",
];

#[test]
fn no_signal_reaches_a_number_that_was_given_away() {
    let _one = alone();
    if !running_as_root() || !can_set_back() {
        println!("skipped: no pid namespace of one's own (root and CLONE_NEWPID)");
        return;
    }
    let program = std::env::current_exe().expect("this program");
    // The first process of a namespace waits for orphans and has no other part in it.
    let first = "\"$@\"; status=$?; exit $status";
    let inside = in_namespace()
        .args([first, "sh"])
        .arg(program)
        .args([
            "reuse::inside",
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ])
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&inside.stdout);
    let errors = String::from_utf8_lossy(&inside.stderr);
    assert!(inside.status.success(), "{said}\n{errors}");
    assert!(said.contains("2 passed"), "{said}");
    eprintln!("{errors}");
}

fn in_namespace() -> Command {
    let mut command = Command::new("/usr/bin/unshare");
    command.args(["--pid", "--fork", "--mount-proc", "/bin/sh", "-c"]);
    command.stdin(Stdio::null());
    command
}

fn can_set_back() -> bool {
    let mut command = in_namespace();
    command.arg(format!("echo {LAST_PID} >{COUNTER}"));
    let tried = command.stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

#[test]
#[ignore = "the half that runs in a pid namespace of its own"]
fn inside_under_a_helper() {
    each_user(|stage| {
        let figures = among_strangers(stage, |_| {
            let held = Held::launch(stage, &PARTS);
            let pids = held.stand();
            held.stop(StopPlan {
                rungs: vec![Rung {
                    signal: 15,
                    wait_ms: 20,
                }],
                kill_ms: 60_000,
            });
            pids
        });
        eprintln!("{figures}");
    });
}

#[test]
#[ignore = "the half that runs in a pid namespace of its own"]
fn inside_under_a_supervisor() {
    each_user(|stage| {
        let figures = among_strangers(stage, |turn| {
            let ready = stage.path(format!("ready-{turn}"));
            let run = stage
                .xioflow()
                .args(["run", "--no-arbiter", "--grace", "20ms"]);
            let run = run
                .arg("--")
                .arg(stage.fixture())
                .arg("--ready")
                .arg(&ready);
            let started = run.args(PARTS).start();
            wait::file(&ready, Deadline::usual());
            started.signal(Signal::TERM);
            started.finish().assert_code(143);
            xioflow_kit::fixture_pids(&ready)
        });
        eprintln!("{figures}");
    });
}

/// Plays one tree after the other until all strangers have come by; the pids of a tree are those that it reported.
fn among_strangers(stage: &Stage, mut play: impl FnMut(u32) -> Vec<u32>) -> String {
    let over = AtomicBool::new(false);
    let (mut pids, mut turns) = (BTreeSet::new(), 0);
    let strangers = Stage::new();
    let file = strangers.path("passed");
    let mut passing = pass_by(&strangers, stage, &file);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                fs::write(COUNTER, LAST_PID).expect("a namespace of our own");
                // The pace is no wait for anything: it is what this test is about.
                let _over = wait::pid_gone(std::process::id(), Deadline::after(PACE));
            }
        });
        while passing.try_wait().expect("a child").is_none() {
            pids.extend(play(turns));
            turns += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
    judge(&file, &pids, turns)
}

/// Strangers of the user who has the tree.
fn pass_by(strangers: &Stage, of: &Stage, file: &Path) -> Child {
    let mut command = Command::new("/usr/bin/setsid");
    command.arg(strangers.fixture());
    let count = number(STRANGERS_VARIABLE, STRANGERS).to_string();
    command.args(["--ttl", "600", "passers-by", &count, AT_ONCE]);
    command.arg(file).stdin(Stdio::null());
    command.env_clear().envs(strangers.environment());
    if let Some(id) = of.user_id() {
        fs::write(file, "").expect("a file of the stage");
        std::os::unix::fs::chown(file, Some(id), Some(id)).expect("a file of the stage");
        // The folder is root's; the file is theirs.
        command.uid(id).gid(id);
    }
    command.spawn().expect("the fixture starts")
}

fn judge(file: &Path, pids: &BTreeSet<u32>, turns: u32) -> String {
    let told = fs::read_to_string(file).expect("their file");
    let (harmed, rest): (Vec<&str>, Vec<&str>) =
        told.lines().partition(|line| line.starts_with("harmed"));
    assert!(harmed.is_empty(), "strangers were signalled: {harmed:?}");
    let numbers = rest.first().expect("all have passed").split(' ').skip(2);
    let numbers: BTreeSet<u32> = numbers.map(|it| it.parse().expect("a number")).collect();
    let both = numbers.intersection(pids).count();
    let (theirs, trees) = (numbers.len(), pids.len());
    assert!(
        both * 2 > trees.min(theirs),
        "too few numbers were used by both: {both} of {trees} and {theirs}"
    );
    format!("{turns} trees, {both} of {trees} numbers also had by strangers, who had {theirs}")
}
