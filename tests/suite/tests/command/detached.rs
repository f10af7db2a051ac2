//! `run --detach` and `attach`: an operation that goes on without whoever started it, and is seen whole
//! by whoever comes, once or often, while it runs and after its end.

use std::fs;

use rustix::process::Signal;
use serde_json::json;
use xioflow_kit::{Deadline, Stage, Started, each_user, wait};

use crate::{assert_fields, run, run_json, shell, text};

/// Starts a detached operation that prints a line, and more when the file `go` is there.
fn detach(stage: &Stage, id: &str) {
    let script = "echo early; echo err >&2; : > runs; until test -e go; do sleep 0.01; done; \
                  echo late; exit 3";
    run(stage, &["--detach", "--op", id], &shell(script))
        .finish()
        .assert_code(0)
        .assert_stdout(format!("{id}\n"))
        .assert_stderr("");
    wait::file(&stage.path("runs"), Deadline::usual());
}

fn attach<'a>(stage: &'a Stage, id: &str) -> Started<'a> {
    stage.xioflow().args(["attach", id]).start()
}

fn cancel(stage: &Stage, id: &str) {
    let words = ["cancel", id, "--wait"];
    stage.xioflow().args(words).finish().assert_code(0);
}

#[test]
fn it_goes_on_and_is_seen_whole() {
    each_user(|stage| {
        detach(stage, "job");
        let mut follower = attach(stage, "job");
        follower.wait_for_output(b"early\n");
        stage.write("go", "", 0o644);
        let live = follower.finish();
        live.assert_code(3).assert_stdout("early\nlate\n");
        live.assert_stderr("err\n");
        for _ in 0..2 {
            let recorded = attach(stage, "job").finish();
            recorded.assert_code(3).assert_stdout("early\nlate\n");
            recorded.assert_stderr("err\n");
        }
        for name in ["runs", "go"] {
            fs::remove_file(stage.path(name)).expect("a file of the stage");
        }
        stage.end_arbiters();
    });
}

#[test]
fn its_id_is_printed_when_it_is_on_record() {
    let stage = Stage::new();
    let (finished, document) = run_json(&stage, &["--detach"], &["sleep", "300"]);
    finished.assert_code(0);
    let id = document["operationId"].as_str().expect("an id").to_owned();
    let shown = stage.xioflow().args(["show", &id, "--json"]).finish();
    shown.assert_code(0);
    assert_eq!(shown.json()["status"], "active");
    cancel(&stage, &id);
}

#[test]
fn a_result_that_is_there_runs_nothing_again() {
    let stage = Stage::new();
    let words = shell("echo ran >> trace; exit 4");
    run(&stage, &["--op", "once"], &words)
        .finish()
        .assert_code(4);
    let again = run(&stage, &["--op", "once", "--detach"], &words).finish();
    again.assert_code(0).assert_stdout("once\n");
    again.assert_complains("not executed again");
    let trace = fs::read_to_string(stage.path("trace")).expect("a trace");
    assert_eq!(trace, "ran\n");
}

#[test]
fn what_cannot_be_started_is_told_at_once() {
    let stage = Stage::new();
    let finished = run(&stage, &["--detach"], &["/nowhere/program"]).finish();
    finished.assert_code(127).assert_stdout("");
    finished.assert_complains("/nowhere/program");
}

#[test]
fn its_terminal_may_go_away() {
    let stage = Stage::new();
    let line = "exec \"$0\" run --detach --op job -- sleep 300";
    let xioflow = stage.program("xioflow");
    let terminal = stage
        .run("/bin/sh")
        .args(["-c", line, text(&xioflow)])
        .start_on_terminal();
    // The end of the first process of its session is the end of the terminal.
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    let shown = stage.xioflow().args(["show", "job", "--json"]).finish();
    assert_eq!(shown.json()["status"], "active", "{shown}");
    cancel(&stage, "job");
}

#[test]
fn ctrl_c_leaves_it_running() {
    let stage = Stage::new();
    detach(&stage, "job");
    let mut follower = attach(&stage, "job");
    follower.wait_for_output(b"early\n");
    follower.signal(Signal::INT);
    let left = follower.finish();
    left.assert_code(130).assert_complains("left operation job");
    stage.write("go", "", 0o600);
    attach(&stage, "job").finish().assert_code(3);
}

#[test]
fn a_reader_that_goes_away_leaves_it_running() {
    let stage = Stage::new();
    let script = "until test -e go; do echo line; sleep 0.01; done; exit 3";
    run(&stage, &["--detach", "--op", "job"], &shell(script))
        .finish()
        .assert_code(0);
    let xioflow = stage.program("xioflow");
    let line = "{ \"$0\" attach job; echo $? >&2; } | head -n 1";
    let piped = stage
        .run("/bin/sh")
        .args(["-c", line, text(&xioflow)])
        .finish();
    piped
        .assert_code(0)
        .assert_stdout("line\n")
        .assert_stderr("0\n");
    stage.write("go", "", 0o600);
    attach(&stage, "job").finish().assert_code(3);
}

#[test]
fn a_document_has_the_result() {
    let stage = Stage::new();
    detach(&stage, "job");
    let words = ["attach", "job", "--json"];
    let live = stage.xioflow().args(words).start();
    stage.write("go", "", 0o600);
    let expected = json!({
        "operationId": "job", "exitCode": 3, "stdout": "early\nlate\n", "stderr": "err\n",
    });
    let live = live.finish();
    live.assert_code(3);
    assert_fields(&live.json(), &expected);
    let recorded = stage.xioflow().args(words).finish();
    recorded.assert_code(3);
    assert_fields(&recorded.json(), &expected);
}

#[test]
fn one_that_is_not_there_is_named_and_starts_nothing() {
    let stage = Stage::new();
    let absent = attach(&stage, "nowhere").finish();
    absent.assert_code(73);
    run(&stage, &["--no-arbiter"], &["true"])
        .finish()
        .assert_code(0);
    let unknown = attach(&stage, "nowhere").finish();
    unknown.assert_code(1).assert_complains("nowhere");
    assert_eq!(stage.arbiters(), Vec::<u32>::new());
}
