//! The supervisor dies: no process of the tree outlives it, and the next one knows what happened.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use xioflow_kit::{Deadline, Stage, each_user, fixture_pids, wait};
use xioflow_protocol::{Exit, LastWord};

use crate::{fixture, run, run_alone, shell, text};

/// Waits for a last word in the domain's holders folder.
fn last_word(domain: &Path) -> LastWord {
    let holders = domain.join("holders");
    wait::in_folder(&holders, Deadline::usual(), || {
        let entries = fs::read_dir(&holders).expect("the holders folder");
        let words = entries.filter_map(|entry| fs::read(entry.ok()?.path()).ok());
        words
            .filter_map(|bytes| LastWord::from_bytes(&bytes).ok())
            .next()
    })
    .expect("a last word")
}

#[test]
fn a_killed_supervisor_leaves_no_process_and_a_last_word() {
    each_user(|stage| {
        let ready = stage.path("ready");
        let script = format!("setsid sleep 300 & : > {}; sleep 300", ready.display());
        let started = run_alone(stage, &["--op", "lost"], &shell(&script)).start();
        wait::file(&ready, Deadline::usual());
        started.signal(Signal::KILL);
        let word = last_word(&stage.domain());
        assert!(
            stage.wait_empty(Deadline::usual()),
            "living: {:?}",
            stage.living()
        );
        assert_eq!(word.operation_id, "lost");
        assert!(word.released && word.empty && word.stopped, "{word:?}");
        assert!(word.end.exit.is_some(), "{word:?}");
        drop(started.finish());
    });
}

#[test]
fn a_deaf_tree_is_ended_too() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["spawn-tree", "mixed", "20"]);
    let started = run_alone(&stage, &[], &words).start();
    let pids = stage.wait_ready(&ready);
    started.signal(Signal::KILL);
    let word = last_word(&stage.domain());
    assert!(
        pids.iter().all(|pid| !wait::is_alive(*pid)),
        "living: {:?}",
        stage.living()
    );
    assert_eq!(word.root.map(|root| root.pid), Some(pids[0]));
    assert!(matches!(word.end.exit, Some(Exit::Signaled { .. })));
    drop(started.finish());
}

#[test]
fn the_next_run_recovers_first_and_runs_nothing_again() {
    each_user(|stage| {
        let trace = stage.path("trace");
        let ready = stage.path("ready");
        let script = format!(
            "echo ran >> {}; : > {}; sleep 300",
            trace.display(),
            ready.display()
        );
        let started = run_alone(stage, &["--op", "lost"], &shell(&script)).start();
        wait::file(&ready, Deadline::usual());
        started.signal(Signal::KILL);
        drop(started.finish());
        run_alone(stage, &["--op", "next", "--wait", "20s"], &["true"])
            .finish()
            .assert_code(0);
        assert_eq!(fs::read_to_string(&trace).expect("a trace"), "ran\n");
        let shown = stage.xioflow().args(["show", "lost", "--json"]).finish();
        shown.assert_code(0);
        let text = shown.json().to_string();
        assert!(
            text.contains("crash_detected") || text.contains("exit_unobserved"),
            "{text}"
        );
        assert!(
            stage.wait_empty(Deadline::usual()),
            "living: {:?}",
            stage.living()
        );
    });
}

/// How many supervisors are killed, each a little later than the one before.
const KILLS: u32 = 120;
/// The difference between two kills; all of them together span a whole run.
const KILL_STEP: Duration = Duration::from_micros(150);

/// Before the gate, between the record and the release, while it runs, before its result: at
/// whatever moment a supervisor dies, the next one decides, and nothing runs twice.
#[test]
fn a_supervisor_killed_at_any_moment_leaves_nothing_undecided() {
    let stage = Stage::new();
    let trace = stage.path("trace");
    let program = stage.fixture();
    for turn in 0..KILLS {
        let id = format!("op-{turn}");
        let words = [text(&program), "append-line", text(&trace), &id];
        let started = run_alone(&stage, &["--op", &id, "--wait", "20s"], &words).start();
        // The time is not waited for anything: it is what this test varies.
        let ended = wait::pid_gone(started.pid(), Deadline::after(KILL_STEP * turn));
        if !ended {
            started.signal(Signal::KILL);
        }
        drop(started.finish());
        assert!(
            stage.wait_empty(Deadline::usual()),
            "turn {turn} leaves {:?}",
            stage.living()
        );
    }
    run_alone(&stage, &["--op", "last"], &["true"])
        .finish()
        .assert_code(0);
    assert_ran_as_recorded(&stage, &trace);
    let status = stage.xioflow().args(["status", "--json"]).finish().json();
    let settled = serde_json::json!({ "unfinished": [], "leases": [], "indeterminateTotal": 0 });
    crate::assert_fields(&status, &settled);
}

/// Each operation has run at most once, exactly once if it is recorded as a success, and if it is
/// not, then because its supervisor was killed.
fn assert_ran_as_recorded(stage: &Stage, trace: &Path) {
    let trace = fs::read_to_string(trace).unwrap_or_default();
    for turn in 0..KILLS {
        let id = format!("op-{turn}");
        let times = trace.lines().filter(|line| *line == id).count();
        let shown = stage.xioflow().args(["show", &id, "--json"]).finish();
        if !shown.status.success() {
            assert_eq!(times, 0, "{id} ran without a record");
            continue;
        }
        let record = shown.json();
        match record["outcome"].as_str() {
            Some("succeeded") => assert_eq!(times, 1, "{record:#}"),
            Some("failed") => {
                assert!(times <= 1, "ran {times} times: {record:#}");
                assert_eq!(record["terminationReason"], "crash_detected", "{record:#}");
            }
            _ => panic!("undecided: {record:#}"),
        }
    }
}

#[test]
fn a_killed_helper_is_noticed_and_its_tree_is_ended() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["escape-setsid", "2"]);
    let started = run(&stage, &["--json"], &words).start();
    let pids = stage.wait_ready(&ready);
    let helper = helper_of(pids[0]);
    rustix::process::kill_process(helper, Signal::KILL).expect("a helper of ours");
    let finished = started.finish();
    assert!(
        pids.iter().all(|pid| !wait::is_alive(*pid)),
        "living: {:?}\n{finished}",
        stage.living()
    );
    assert!(!finished.status.success(), "{finished}");
    let document = finished.json();
    assert_ne!(document["status"], "succeeded");
}

/// The parent of a command is its helper.
fn helper_of(root: u32) -> rustix::process::Pid {
    let status = fs::read_to_string(format!("/proc/{root}/status")).expect("it lives");
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .expect("a parent");
    let pid = parent
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.expect("a parent that lives")
}

#[test]
fn a_command_that_kills_its_helper_does_not_get_away() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let fixture = stage.fixture();
    let script = format!(
        "{} --exit 0 --ready {} daemonise 2; kill -9 $PPID; sleep 300",
        fixture.display(),
        ready.display()
    );
    let finished = run(&stage, &[], &shell(&script)).finish();
    assert!(!finished.status.success(), "{finished}");
    let alive: Vec<_> = fixture_pids(&ready)
        .into_iter()
        .filter(|pid| wait::is_alive(*pid))
        .collect();
    assert!(alive.is_empty(), "{alive:?} live\n{finished}");
}

#[test]
fn a_command_that_stops_its_helper_ends_all_the_same() {
    let stage = Stage::new();
    let finished = run(&stage, &["--json"], &shell("kill -STOP $PPID; exit 5")).finish();
    finished.assert_code(5);
    let expected = serde_json::json!({ "exitCode": 5, "treeSettlement": "empty" });
    crate::assert_fields(&finished.json(), &expected);
}
