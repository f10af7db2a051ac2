//! What a command leaves behind is found, named and ended, by the way it wants to be ended.

use std::fs;

use rustix::process::Signal;
use serde_json::json;
use xioflow_kit::{Deadline, Stage, each_user, wait};

use crate::{assert_fields, assert_nobody_lives, run, run_json, shell, survivors, text};

#[test]
fn background_jobs_of_a_command_that_succeeded() {
    each_user(|stage| {
        let script = "for i in 1 2 3; do yes >/dev/null & done; echo started";
        let (finished, document) = run_json(stage, &[], &shell(script));
        finished.assert_code(0);
        let expected = json!({
            "status": "succeeded", "exitCode": 0, "stdout": "started\n", "survivorsTotal": 3,
            "residualProcessesReaped": true, "residualPids": [],
        });
        assert_fields(&document, &expected);
        assert_eq!(survivors(&document), ["yes", "yes", "yes"]);
        assert_nobody_lives(stage);
    });
}

#[test]
fn a_grandchild_whose_parent_is_gone() {
    each_user(|stage| {
        let (finished, document) = run_json(stage, &[], &shell("(sleep 300 &); exit 0"));
        finished.assert_code(0);
        assert_eq!(survivors(&document), ["sleep"], "{document:#}");
        assert_nobody_lives(stage);
    });
}

/// Its trap waits for a second of its own, within the grace.
#[test]
fn a_survivor_may_clean_up() {
    let stage = Stage::new();
    let (up, late) = (stage.path("up"), stage.path("late"));
    let script = format!(
        "(trap 'sleep 0.5; echo bye >{late}; exit' TERM; : >{up}; while :; do sleep 0.1; done) &
         until [ -e {up} ]; do :; done; exit 0",
        up = text(&up),
        late = text(&late),
    );
    let (finished, document) = run_json(&stage, &["--grace", "20s"], &shell(&script));
    finished.assert_code(0);
    assert_eq!(fs::read_to_string(&late).expect("it had its time"), "bye\n");
    let signals: Vec<_> = document["survivors"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["signal"].clone())
        .collect();
    assert!(!signals.contains(&json!("SIGKILL")), "{document:#}");
}

/// A launcher between us and the program: what counts is that the program is gone before we are.
#[test]
fn a_launcher_in_between() {
    each_user(|stage| {
        let pid_file = stage.path("pid");
        let inner = format!("echo $$ >{}; exec sleep 300", text(&pid_file));
        for launcher in [
            "\"$@\"; :",
            "sh -c '\"$@\"; :' sh \"$@\"; :",
            "setsid \"$@\" & wait",
        ] {
            let words = ["sh", "-c", launcher, "sh", "sh", "-c", &inner];
            let started = run(stage, &[], &words).start();
            let pid = wait::in_folder(&stage.path(""), Deadline::usual(), || {
                fs::read_to_string(&pid_file).ok()?.trim().parse().ok()
            });
            let pid: u32 = pid.expect("the program's pid");
            started.signal(Signal::TERM);
            started.finish().assert_code(143);
            assert!(!wait::is_alive(pid), "{launcher}");
            fs::remove_file(&pid_file).expect("a file of the stage");
        }
    });
}

/// The inner one has a domain and a tree of its own; the outer one is not touched by its timeout.
#[test]
fn one_inside_another() {
    each_user(|stage| {
        let script =
            "XIOFLOW_DOMAIN=inner \"$0\" run --timeout 1s -- sleep 60; echo outer-alive $?";
        let xioflow = stage.program("xioflow");
        let finished = run(stage, &[], &["sh", "-c", script, text(&xioflow)]).finish();
        finished.assert_code(0).assert_stdout("outer-alive 124\n");
        assert_nobody_lives(stage);
    });
}

/// The outer one's end reaches through the inner one, however deep.
#[test]
fn one_inside_another_that_is_ended_from_outside() {
    let stage = Stage::new();
    let script = "XIOFLOW_DOMAIN=inner exec \"$0\" run -- sh -c 'echo up; setsid sleep 300 & wait'";
    let xioflow = stage.program("xioflow");
    let mut started = run(&stage, &[], &["sh", "-c", script, text(&xioflow)]).start();
    started.wait_for_output(b"up\n");
    started.signal(Signal::TERM);
    started.finish().assert_code(143);
    assert_nobody_lives(&stage);
}
