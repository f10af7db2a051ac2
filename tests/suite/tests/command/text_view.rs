//! Output as text to read: last frames, no control, valid; the raw bytes stay exact beside it.

use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{assert_fields, run, run_json, shell, text};

const PROGRESS: &str =
    "i=0; while [ $i -lt 5000 ]; do printf '\\r%d' $i; i=$((i+1)); done; printf '\\rdone\\nOK\\n'";

/// What that prints, byte for byte.
fn progress() -> Vec<u8> {
    let mut printed: Vec<u8> = (0..5000)
        .flat_map(|step| format!("\r{step}").into_bytes())
        .collect();
    printed.extend_from_slice(b"\rdone\nOK\n");
    printed
}

#[test]
fn progress_is_its_last_frame_and_raw_bytes_stay() {
    each_user(|stage| {
        let options = ["--op", "op", "--text-view"];
        let (finished, document) = run_json(stage, &options, &shell(PROGRESS));
        finished.assert_code(0);
        let raw = progress();
        let view = json!({
            "text": "done\nOK\n",
            "collapsedBytes": raw.len() - 8,
            "replacedBytes": 0,
        });
        let nothing = json!({ "text": "", "collapsedBytes": 0, "replacedBytes": 0 });
        assert_fields(
            &document,
            &json!({ "stdoutView": view, "stderrView": nothing, "stdoutBytes": raw.len() }),
        );
        assert_eq!(document["stdout"].as_str().expect("text").as_bytes(), raw);
        let exact = stage.xioflow().args(["logs", "op"]).finish();
        exact.assert_code(0).assert_stdout(raw);
        let read = stage.xioflow().args(["logs", "op", "--text"]).finish();
        read.assert_code(0).assert_stdout("done\nOK\n");
        read.assert_complains("redrawn");
    });
}

#[test]
fn control_bytes_break_no_document() {
    let stage = Stage::new();
    let words = ["printf", "a\\0b\\001\\377\\033[31mred\\n"];
    let (finished, document) = run_json(&stage, &["--text-view"], &words);
    finished.assert_code(0);
    let view = json!({
        "text": "a␀b␁\u{fffd}red\n",
        "collapsedBytes": 0,
        "replacedBytes": 8,
    });
    // The lossless form, with its encoding in its name.
    let expected = json!({
        "stdoutView": view,
        "stdoutBase64": "YQBiAf8bWzMxbXJlZAo=",
        "stdoutBytes": 14,
    });
    assert_fields(&document, &expected);
}

#[test]
fn views_come_when_they_are_asked_for() {
    let stage = Stage::new();
    let (_, document) = run_json(&stage, &[], &["echo", "out"]);
    assert!(document.get("stdoutView").is_none(), "{document:#}");
    run(&stage, &["--text-view"], &["true"])
        .finish()
        .assert_code(64);
}

/// With less address space than the line is long, whatever is held back of it is bounded.
#[test]
fn one_line_of_100_mb_is_printed_as_text() {
    let stage = Stage::new();
    let long = "head -c 100000000 /dev/zero | tr '\\0' x; printf '\\r\\033[1mend\\033[m'";
    run(&stage, &["--op", "op", "--json"], &shell(long))
        .finish()
        .assert_code(0);
    let script = "ulimit -v 90000; \"$0\" logs op --text | tail -c 10";
    let xioflow = stage.program("xioflow");
    let finished = stage
        .run("/bin/sh")
        .args(["-c", script, text(&xioflow)])
        .finish();
    finished.assert_code(0).assert_stdout("xxxxxx\nend");
}
