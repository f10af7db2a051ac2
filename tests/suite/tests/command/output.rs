//! Output of any size passes through, is kept within its limit, and is stored whole.

use std::fs;

use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{assert_fields, fixture, run, run_json, sha256, sha256_of, shell, text};

/// More than any limit and any pipe.
const FLOOD_LEN: usize = 12_000_000;

/// What the fixture prints, by its own description: numbered lines of 16 bytes.
fn flood(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.div_ceil(16))
        .flat_map(|line| format!("{line:015}\n").into_bytes())
        .collect();
    bytes.truncate(len);
    bytes
}

#[test]
fn a_flood_passes_through_byte_for_byte() {
    each_user(|stage| {
        let program = stage.fixture();
        let words = [
            text(&program),
            "flood-output",
            "both",
            &FLOOD_LEN.to_string(),
        ];
        let finished = run(stage, &[], &words).finish();
        finished.assert_code(0);
        let expected = sha256(&flood(FLOOD_LEN));
        assert_eq!(finished.stdout.len(), FLOOD_LEN);
        assert_eq!(sha256(&finished.stdout), expected);
        assert!(finished.stderr.starts_with(&flood(4096)));
    });
}

#[test]
fn all_of_a_flood_is_on_disk_and_hashed() {
    each_user(|stage| {
        let program = stage.fixture();
        let words = [
            text(&program),
            "flood-output",
            "stdout",
            &FLOOD_LEN.to_string(),
        ];
        let (finished, document) = run_json(stage, &["--max-output", "1MiB"], &words);
        finished.assert_code(0);
        let expected = json!({
            "status": "succeeded",
            "isTruncated": true,
            "stdoutTruncated": true,
            "stderrTruncated": false,
            "stdoutBytes": FLOOD_LEN,
            "stdoutHash": sha256(&flood(FLOOD_LEN)),
            "spillError": null,
        });
        assert_fields(&document, &expected);
        let name = document["stdoutRef"]
            .as_str()
            .expect("a file of the output");
        let file = stage.domain().join("artifacts").join(name);
        assert_eq!(
            fs::metadata(&file).expect("the file").len(),
            FLOOD_LEN as u64
        );
        assert_eq!(sha256_of(&file), document["stdoutHash"]);
        let kept = document["stdout"].as_str().expect("what is kept");
        assert!(kept.len() <= 1024 * 1024, "{} bytes", kept.len());
        assert!(kept.starts_with("000000000000000\n") && kept.contains("truncated"));
        let end = String::from_utf8(flood(FLOOD_LEN))
            .expect("digits")
            .split_off(FLOOD_LEN - 100);
        assert!(kept.ends_with(&end), "the tail is kept");
    });
}

#[test]
fn what_fits_is_kept_whole() {
    let stage = Stage::new();
    let program = stage.fixture();
    for len in [1, 1023, 1024] {
        let words = [text(&program), "flood-output", "stdout", &len.to_string()];
        let (_, document) = run_json(&stage, &["--max-output", "1KiB"], &words);
        let whole = String::from_utf8(flood(len)).expect("digits");
        let expected = json!({ "isTruncated": false, "stdout": whole, "stdoutBytes": len });
        assert_fields(&document, &expected);
    }
    let words = [text(&program), "flood-output", "stdout", "1025"];
    let (_, document) = run_json(&stage, &["--max-output", "1KiB"], &words);
    assert_fields(
        &document,
        &json!({ "isTruncated": true, "stdoutBytes": 1025 }),
    );
}

#[test]
fn output_is_seen_while_the_command_runs() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["print-then-sleep", "early"]);
    let mut started = run(&stage, &[], &words).start();
    stage.wait_ready(&ready);
    started.wait_for_output(b"early\n");
    started.signal(rustix::process::Signal::INT);
    started.finish().assert_code(130).assert_stdout("early\n");
}

#[test]
fn a_reader_that_leaves_early_does_not_hold_the_run() {
    let stage = Stage::new();
    let script = "\"$1\" run -- \"$2\" flood-output stdout 20000000 | head -c 16";
    let (xioflow, program) = (stage.program("xioflow"), stage.fixture());
    let words = ["-c", script, "sh", text(&xioflow), text(&program)];
    let finished = stage.run("/bin/sh").args(words).finish();
    finished.assert_code(0).assert_stdout("000000000000000\n");
}

/// With less address space than the command prints, whatever is kept in memory is bounded.
#[test]
fn memory_does_not_grow_with_the_output() {
    let stage = Stage::new();
    let line = "ulimit -v 200000; exec \"$0\" run --json -- \"$1\" flood-output stdout 300000000";
    let (xioflow, program) = (stage.program("xioflow"), stage.fixture());
    let finished = stage
        .run("/bin/sh")
        .args(["-c", line, text(&xioflow), text(&program)])
        .finish();
    finished.assert_code(0);
    let expected = json!({ "stdoutBytes": 300_000_000, "isTruncated": true, "spillError": null });
    assert_fields(&finished.json(), &expected);
}

#[test]
fn logs_give_the_output_back() {
    each_user(|stage| {
        let words = shell("printf 'out\\377'; printf 'err' >&2");
        run(stage, &["--op", "small"], &words)
            .finish()
            .assert_code(0);
        stage
            .xioflow()
            .args(["logs", "small"])
            .finish()
            .assert_code(0)
            .assert_stdout(b"out\xff");
        let errors = stage.xioflow().args(["logs", "small", "--stderr"]).finish();
        errors.assert_code(0).assert_stdout("err");
        let program = stage.fixture();
        let words = [text(&program), "flood-output", "stdout", "3000000"];
        run(stage, &["--op", "large", "--max-output", "1KiB"], &words)
            .finish()
            .assert_code(0);
        let whole = stage.xioflow().args(["logs", "large"]).finish();
        whole.assert_code(0);
        assert_eq!(sha256(&whole.stdout), sha256(&flood(3_000_000)));
    });
}

#[test]
fn a_document_that_cannot_be_printed_is_no_success() {
    let stage = Stage::new();
    let finished = stage
        .run("sh")
        .args(["-c", "exec \"$0\" run --json -- true > /dev/full"])
        .arg(stage.program("xioflow"))
        .finish();
    finished.assert_code(70);
    finished.assert_complains("No space left");
}

/// What stands in the file looks like the whole, so each verb that prints says that it is not.
#[test]
fn what_cannot_be_printed_whole_is_no_success() {
    let stage = Stage::new();
    run(&stage, &["--op", "op"], &["seq", "1", "20000"])
        .finish()
        .assert_code(0);
    for words in [
        &["logs", "op"][..],
        &["logs", "op", "--tail", "1"],
        &["logs", "op", "--both"],
        &["logs", "op", "--text"],
        &["show", "op"],
        &["list"],
        &["status"],
        &["events"],
        &["events", "--json"],
        &["run", "--op", "op", "--", "seq", "1", "20000"],
    ] {
        let finished = stage
            .run("sh")
            .args(["-c", "exec \"$0\" \"$@\" > /dev/full"])
            .arg(stage.program("xioflow"))
            .args(words)
            .finish();
        finished.assert_code(70);
        finished.assert_complains("No space left");
    }
}
