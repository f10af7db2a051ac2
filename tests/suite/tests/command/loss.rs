//! The supervisor dies: no process of the tree outlives it, and the next one knows what happened.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use xioflow_kit::{Deadline, Stage, each_user, fixture_pids, wait};
use xioflow_protocol::{Exit, LastWord};

use crate::{fixture, run, shell};

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
        let started = run(stage, &["--op", "lost"], &shell(&script)).start();
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
    let started = run(&stage, &[], &words).start();
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
        let started = run(stage, &["--op", "lost"], &shell(&script)).start();
        wait::file(&ready, Deadline::usual());
        started.signal(Signal::KILL);
        drop(started.finish());
        run(stage, &["--op", "next", "--wait", "20s"], &["true"])
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
