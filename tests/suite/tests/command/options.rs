//! What the options of `run` change, seen from inside the command and in the record.

use std::fs;

use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{assert_fields, run, run_json, shell, text};

#[test]
fn a_folder_may_be_named() {
    each_user(|stage| {
        let folder = stage.folder("elsewhere");
        for name in [text(&folder), "elsewhere"] {
            let finished = run(stage, &["--cwd", name], &["pwd"]).finish();
            finished
                .assert_code(0)
                .assert_stdout(format!("{}\n", folder.display()));
        }
        let here = run(stage, &[], &["pwd"]).finish();
        here.assert_stdout(format!("{}\n", text(&stage.path("")).trim_end_matches('/')));
    });
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let stage = Stage::new();
    let (finished, document) = run_json(&stage, &["--cwd", "missing"], &["true"]);
    finished.assert_code(126);
    assert_fields(
        &document["spawnFailure"],
        &json!({ "stage": "cwd", "code": "ENOENT" }),
    );
}

#[test]
fn an_operation_runs_once() {
    each_user(|stage| {
        let trace = stage.path("trace");
        let program = stage.fixture();
        let words = [text(&program), "--exit", "7", "append-line", text(&trace)];
        let (finished, first) = run_json(stage, &["--op", "once"], &words);
        finished.assert_code(7);
        assert_fields(&first, &json!({ "replayed": false, "exitCode": 7 }));
        let (finished, second) = run_json(stage, &["--op", "once"], &words);
        finished.assert_code(7);
        let expected = json!({ "replayed": true, "exitCode": 7, "operationId": "once" });
        assert_fields(&second, &expected);
        assert_eq!(
            second["completedAt"], first["completedAt"],
            "it is the same result"
        );
        assert_eq!(fs::read_to_string(&trace).expect("a trace"), "ran\n");
    });
}

#[test]
fn a_replay_prints_the_same_output() {
    let stage = Stage::new();
    let words = shell("printf 'out\\377\\n'; echo err >&2");
    run(&stage, &["--op", "once"], &words)
        .finish()
        .assert_code(0);
    let again = run(&stage, &["--op", "once", "--quiet"], &words).finish();
    again
        .assert_code(0)
        .assert_stdout(b"out\xff\n")
        .assert_stderr("err\n");
}

#[test]
fn leases_are_recorded_and_freed() {
    let stage = Stage::new();
    let options = ["--op", "leased", "--lease", "db", "--lease", "port:80"];
    run(&stage, &options, &["true"]).finish().assert_code(0);
    let shown = stage.xioflow().args(["show", "leased", "--json"]).finish();
    shown.assert_code(0);
    let text = shown.json().to_string();
    assert!(
        text.contains("\"db\"") && text.contains("\"port:80\""),
        "{text}"
    );
    run(&stage, &["--lease", "db"], &["true"])
        .finish()
        .assert_code(0);
}

#[test]
fn options_end_where_the_command_begins() {
    let stage = Stage::new();
    let finished = run(&stage, &[], &["echo", "--json", "--", "-n"]).finish();
    finished.assert_code(0).assert_stdout("--json -- -n\n");
}

#[test]
fn help_and_version_go_to_stdout() {
    let stage = Stage::new();
    for words in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let finished = stage.xioflow().args(words).finish();
        finished.assert_code(0).assert_stderr("");
        assert!(!finished.stdout.is_empty(), "{finished}");
    }
    assert!(!stage.domain().exists(), "help opens no domain");
}
