//! Output by the mass: long lines, both streams, many short runs, and what memory that takes.

use std::fs;

use serde_json::json;
use xioflow_kit::Stage;

use crate::{assert_fields, run, run_json, shell, text};

/// The most that a supervisor may take beyond what it takes when nothing is printed.
const MEMORY_MAX_KIB: u64 = 64 * 1024;

#[test]
fn one_line_of_100_mb_comes_whole() {
    let stage = Stage::new();
    let long = "head -c 100000000 /dev/zero | tr '\\0' x";
    let (finished, document) = run_json(&stage, &["--op", "op"], &shell(long));
    finished.assert_code(0);
    let expected = json!({
        "stdoutBytes": 100_000_000, "stdoutLines": 1, "isTruncated": true, "stdoutGap": null,
        "spillError": null,
    });
    assert_fields(&document, &expected);
    let kept = document["stdout"].as_str().expect("text");
    assert!(kept.len() <= 10 * 1024 * 1024);
    assert!(kept.starts_with("xxx") && kept.ends_with("xxx"));
    let end = stage
        .xioflow()
        .args(["logs", "op", "--bytes", "99999990-"])
        .finish();
    end.assert_code(0).assert_stdout("xxxxxxxxxx");
}

/// Prints, and then notes the most memory that its supervisor, its helper's parent, had so far.
const THEN_NOTE: &str = "eval \"$1\"; \
     supervisor=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status); \
     grep VmHWM \"/proc/$supervisor/status\" > \"$2\"";

/// The most memory that a supervisor had up to the end of a script, in KiB.
fn peak_kib(stage: &Stage, script: &str) -> u64 {
    let note = stage.path("peak");
    let words = ["sh", "-c", THEN_NOTE, "sh", script, text(&note)];
    run(stage, &["--json"], &words).finish().assert_code(0);
    let noted = fs::read_to_string(&note).expect("a note");
    let number = noted
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok());
    number.unwrap_or_else(|| panic!("{noted:?} has no number"))
}

#[test]
fn a_line_of_300_mb_takes_little_memory() {
    let stage = Stage::new();
    let idle = peak_kib(&stage, ":");
    let busy = peak_kib(&stage, "head -c 300000000 /dev/zero | tr '\\0' x");
    assert!(
        idle > 0 && busy < idle + MEMORY_MAX_KIB,
        "{busy} KiB, {idle} KiB idle"
    );
}

#[test]
fn both_streams_at_once_come_whole() {
    let stage = Stage::new();
    let program = stage.fixture();
    let words = [text(&program), "flood-output", "both", "5000000"];
    let (finished, document) = run_json(&stage, &["--op", "op"], &words);
    finished.assert_code(0);
    let expected = json!({
        "stdoutBytes": 5_000_000, "stderrBytes": 5_000_000, "isTruncated": false,
        "stdoutLines": 312_500, "stderrLines": 312_500,
    });
    assert_fields(&document, &expected);
    assert_eq!(document["stdout"], document["stderr"]);
    assert_eq!(document["stdoutHash"], document["stderrHash"]);
}

/// Output that is missed is missed at random, so it is looked for often: 200 times here, since each
/// one is a whole `xioflow run`; the library is asked a thousand times.
#[test]
fn both_lines_every_time() {
    let stage = Stage::new();
    for _ in 0..200 {
        let finished = run(&stage, &[], &shell("echo first; echo second")).finish();
        finished.assert_code(0).assert_stdout("first\nsecond\n");
    }
}

/// The exit is a field of its own, whatever becomes of the text.
#[test]
fn an_exit_status_is_the_same_behind_any_length() {
    let stage = Stage::new();
    for len in [27_000, 29_000, 31_000] {
        let script = format!("head -c {len} /dev/zero | tr '\\0' x; exit 3");
        let (finished, document) = run_json(&stage, &["--max-output", "30000"], &shell(&script));
        finished.assert_code(3);
        let expected = json!({
            "status": "failed", "exitCode": 3, "signal": null, "terminationReason": "completed",
            "evidence": "observed", "stdoutBytes": len, "isTruncated": len > 30_000,
        });
        assert_fields(&document, &expected);
    }
}

#[test]
fn bytes_of_any_kind_stay_what_they_are() {
    let stage = Stage::new();
    let script = "printf 'a\\0b\\001\\177\\377\\303'; printf '\\r\\033[31m\\342\\202' >&2";
    run(&stage, &["--op", "op"], &shell(script))
        .finish()
        .assert_stdout(b"a\0b\x01\x7f\xff\xc3");
    let logs = |words: &[&str]| stage.xioflow().args(["logs", "op"]).args(words).finish();
    logs(&[]).assert_stdout(b"a\0b\x01\x7f\xff\xc3");
    logs(&["--stderr"]).assert_stdout(b"\r\x1b[31m\xe2\x82");
    logs(&["--bytes", "1-2"]).assert_stdout(b"\0");
}
