//! A result does not wait for whoever holds the command's pipes.

use rustix::process::Signal;
use serde_json::json;
use xioflow_kit::{Deadline, Stage, each_user};

use crate::{assert_fields, assert_nobody_lives, run, run_json, shell, survivors, text};

#[test]
fn a_background_job_that_holds_one_stream_or_both() {
    each_user(|stage| {
        for redirections in [
            "",
            "</dev/null >/dev/null",
            "</dev/null 2>/dev/null",
            "</dev/null >/dev/null 2>&1",
        ] {
            let script = format!("sleep 300 {redirections} & echo ok");
            let (finished, document) = run_json(stage, &[], &shell(&script));
            finished.assert_code(0);
            let expected = json!({
                "status": "succeeded", "exitCode": 0, "stdout": "ok\n", "outputComplete": true, "stop": null,
                "treeSettlement": "reaped", "heldOpenBy": [], "residualPids": [],
            });
            assert_fields(&document, &expected);
            assert_eq!(survivors(&document), ["sleep"], "{script}");
            assert_nobody_lives(stage);
        }
    });
}

/// It is ended like every survivor; what was meant to be a server is told how to be kept.
#[test]
fn a_server_in_the_background_returns_with_a_hint() {
    let stage = Stage::new();
    let script = "(trap '' HUP; exec sleep 300) & echo 'server starting'";
    let finished = run(&stage, &[], &shell(script)).finish();
    finished.assert_code(0).assert_stdout("server starting\n");
    finished
        .assert_complains("sleep")
        .assert_complains("--descendants wait");
    let failing = run(&stage, &[], &shell("sleep 300 & exit 3")).finish();
    failing.assert_code(3);
    let complaint = String::from_utf8_lossy(&failing.stderr).into_owned();
    assert!(
        !complaint.contains("hint"),
        "it started no server: {failing}"
    );
    assert_nobody_lives(&stage);
}

/// The first process forks and is gone; a grandchild prints for ever.
#[test]
fn a_cancel_of_what_a_chatty_grandchild_holds() {
    each_user(|stage| {
        let script = "(while :; do echo chatter; sleep 0.1; done) & exit 0";
        let options = [
            "--op",
            "chatty",
            "--descendants",
            "wait",
            "--grace",
            "300ms",
        ];
        let mut started = run(stage, &options, &shell(script)).start();
        started.wait_for_output(b"chatter\nchatter\n");
        started.signal(Signal::INT);
        let finished = started.finish();
        finished.assert_code(130).assert_complains("cancelled");
        let shown = stage
            .xioflow()
            .args(["show", "--json", "chatty"])
            .finish()
            .json();
        let expected = json!({ "status": "cancelled", "exitCode": 0, "residualPids": [] });
        assert_fields(&shown["result"], &expected);
        assert_nobody_lives(stage);
    });
}

/// All at once, each in a domain of its own, so that they take one second together.
#[test]
fn fifty_commands_around_a_named_pipe() {
    let stage = Stage::new();
    let pipe = stage.path("pipe");
    stage.run("mkfifo").arg(&pipe).finish().assert_code(0);
    let script = format!("timeout 1 cat {}; echo rc=$?", text(&pipe));
    let started: Vec<_> = (0..50)
        .map(|turn| {
            let domain = stage.path(format!("domain-{turn}"));
            run(&stage, &["--no-arbiter"], &shell(&script))
                .env("XIOFLOW_DOMAIN", domain)
                .start()
        })
        .collect();
    for one in started {
        one.finish().assert_code(0).assert_stdout("rc=124\n");
    }
    assert!(stage.wait_empty(Deadline::usual()));
}

/// Also what a survivor prints while it is being ended.
#[test]
fn what_is_printed_at_the_very_end_is_read() {
    let stage = Stage::new();
    let up = stage.path("up");
    let script = format!(
        "(trap 'echo last words; exit' TERM; : >{0}; while :; do sleep 0.1; done) &
         until [ -e {0} ]; do :; done; echo first",
        text(&up)
    );
    let finished = run(&stage, &["--quiet"], &shell(&script)).finish();
    finished.assert_code(0).assert_stdout("first\nlast words\n");
}
