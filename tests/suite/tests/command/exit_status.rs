//! The command's own status passes through; a status of ours comes with a line that explains it.

use rustix::process::Signal;
use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{assert_fields, run, run_json, shell, text};

#[test]
fn both_streams_and_the_status_are_the_commands_own() {
    each_user(|stage| {
        let words = shell("echo out; echo err >&2; exit 3");
        let finished = run(stage, &[], &words).finish();
        finished
            .assert_code(3)
            .assert_stdout("out\n")
            .assert_stderr("err\n");
    });
}

#[test]
fn the_document_says_the_same() {
    each_user(|stage| {
        let words = shell("echo out; echo err >&2; exit 3");
        let (finished, document) = run_json(stage, &["--op", "first"], &words);
        finished.assert_code(3);
        let expected = json!({
            "operationId": "first",
            "status": "failed",
            "exitCode": 3,
            "signal": null,
            "terminationReason": "completed",
            "spawnFailure": null,
            "evidence": "observed",
            "treeSettlement": "empty",
            "residualProcessesReaped": false,
            "survivors": [],
            "survivorsTotal": 0,
            "stdout": "out\n",
            "stderr": "err\n",
            "stdoutBytes": 4,
            "stderrBytes": 4,
            "isTruncated": false,
            "replayed": false,
        });
        assert_fields(&document, &expected);
    });
}

#[test]
fn success_is_silent() {
    each_user(|stage| {
        let finished = run(stage, &[], &["true"]).finish();
        finished.assert_code(0).assert_stdout("").assert_stderr("");
        let (finished, document) = run_json(stage, &[], &["true"]);
        finished.assert_code(0).assert_stderr("");
        assert_fields(&document, &json!({ "status": "succeeded", "exitCode": 0 }));
    });
}

#[test]
fn every_status_of_a_command_is_kept() {
    let stage = Stage::new();
    for code in [1, 2, 64, 69, 76, 79, 124, 125, 126, 127, 128, 130, 255] {
        let words = shell("exit $0").map(str::to_owned);
        let words = [&words[..], &[code.to_string()]].concat();
        let (finished, document) = run_json(&stage, &[], &words);
        finished.assert_code(code);
        assert_fields(
            &document,
            &json!({ "exitCode": code, "spawnFailure": null }),
        );
    }
}

#[test]
fn a_signal_adds_128() {
    let stage = Stage::new();
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::KILL, "SIGKILL")] {
        let script = format!("kill -{} $$", signal.as_raw());
        let (finished, document) = run_json(&stage, &[], &shell(&script));
        finished.assert_code(128 + signal.as_raw());
        let expected = json!({ "status": "failed", "exitCode": null, "signal": name });
        assert_fields(&document, &expected);
    }
}

#[test]
fn a_missing_program_is_127_and_nothing_ran() {
    each_user(|stage| {
        for program in ["no-such-program", "./missing", "/nonexistent/program"] {
            let finished = run(stage, &[], &[program]).finish();
            finished
                .assert_code(127)
                .assert_stdout("")
                .assert_complains(program);
            let (finished, document) = run_json(stage, &[], &[program]);
            finished.assert_code(127);
            let expected = json!({ "status": "failed", "exitCode": 127, "signal": null });
            assert_fields(&document, &expected);
            let failure = json!({ "stage": "exec", "errno": 2, "code": "ENOENT" });
            assert_fields(&document["spawnFailure"], &failure);
        }
    });
}

#[test]
fn what_cannot_be_executed_is_126() {
    each_user(|stage| {
        let cases = [
            (stage.folder("folder"), "EACCES"),
            (stage.write("data", "#!/bin/sh\n", 0o644), "EACCES"),
            (stage.write("plain", "echo ran\n", 0o755), "ENOEXEC"),
        ];
        for (program, code) in cases {
            let name = text(&program);
            run(stage, &[], &[name])
                .finish()
                .assert_code(126)
                .assert_complains(name);
            let (finished, document) = run_json(stage, &[], &[name]);
            finished.assert_code(126);
            assert_fields(
                &document["spawnFailure"],
                &json!({ "stage": "exec", "code": code }),
            );
            assert_fields(&document, &json!({ "stdout": "", "exitCode": 126 }));
        }
    });
}

/// One byte more and the kernel would not start `xioflow` itself.
#[test]
fn the_longest_argument_arrives() {
    let stage = Stage::new();
    let longest = "x".repeat(131_071);
    let program = stage.fixture();
    let finished = run(&stage, &[], &[text(&program), "args", &longest]).finish();
    finished.assert_code(0);
    assert_eq!(finished.stdout.len(), longest.len() + 1);
}
