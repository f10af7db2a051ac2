//! The order between the two streams: exact with one pipe, as it was read with two.

use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{assert_fields, run, run_json, shell, text};

const IN_TURN: &str =
    "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done; exit 3";

fn in_turn() -> String {
    (0..300).map(|at| format!("o{at}\ne{at}\n")).collect()
}

#[test]
fn everything_is_standard_output_in_exact_order() {
    each_user(|stage| {
        let passed = run(stage, &["--merge-stderr", "--op", "op"], &shell(IN_TURN)).finish();
        passed
            .assert_code(3)
            .assert_stdout(in_turn())
            .assert_stderr("");
        let logs = stage.xioflow().args(["logs", "op"]).finish();
        logs.assert_code(0).assert_stdout(in_turn());
        let (_, document) = run_json(stage, &["--merge-stderr"], &shell(IN_TURN));
        let expected = json!({
            "exitCode": 3, "stdout": in_turn(), "stderr": "", "stderrBytes": 0,
            "treeSettlement": "empty",
        });
        assert_fields(&document, &expected);
    });
}

#[test]
fn without_it_each_stream_keeps_its_own_order() {
    let stage = Stage::new();
    let (_, document) = run_json(&stage, &[], &shell(IN_TURN));
    let only = |letter: char| {
        let lines = in_turn();
        let lines = lines.lines().filter(|line| line.starts_with(letter));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_fields(
        &document,
        &json!({ "stdout": only('o'), "stderr": only('e') }),
    );
}

#[test]
fn it_is_part_of_what_makes_an_operation_the_same() {
    let stage = Stage::new();
    run(&stage, &["--op", "op"], &["true"])
        .finish()
        .assert_code(0);
    let merged = run(&stage, &["--op", "op", "--merge-stderr"], &["true"]).finish();
    merged.assert_code(76);
}

/// A pipe that is held open by nobody but its readers ends as soon as both descriptors are closed.
#[test]
fn a_command_that_closes_one_of_them_goes_on_with_the_other() {
    let stage = Stage::new();
    let finished = run(
        &stage,
        &["--merge-stderr"],
        &shell("exec 1>&-; echo late >&2"),
    )
    .finish();
    finished.assert_code(0).assert_stdout("late\n");
}

/// Each write waits until the one before it has been read, so the order is that of reading.
const ONE_AFTER_THE_OTHER: &str = "say() { echo $1$2 >&$3; until grep -q \"^$1$2\" \"$4\"; \
     do :; done 2>/dev/null; }; \
     for i in 1 2 3; do say o $i 1 \"$1/op-stdout.log\"; say e $i 2 \"$1/op-stderr.log\"; done";

#[test]
fn both_streams_are_shown_in_the_order_of_reading_with_marks() {
    each_user(|stage| {
        let artifacts = stage.domain().join("artifacts");
        let words = ["sh", "-c", ONE_AFTER_THE_OTHER, "sh", text(&artifacts)];
        run(stage, &["--op", "op"], &words).finish().assert_code(0);
        let both = stage.xioflow().args(["logs", "op", "--both"]).finish();
        both.assert_code(0).assert_stderr("");
        both.assert_stdout("out| o1\nerr| e1\nout| o2\nerr| e2\nout| o3\nerr| e3\n");
    });
}

#[test]
fn each_stream_is_whole_in_what_both_show() {
    let stage = Stage::new();
    run(&stage, &["--op", "op"], &shell(IN_TURN))
        .finish()
        .assert_code(3);
    let both = stage.xioflow().args(["logs", "op", "--both"]).finish();
    both.assert_code(0);
    let shown = String::from_utf8_lossy(&both.stdout).into_owned();
    for (mark, letter) in [("out| ", 'o'), ("err| ", 'e')] {
        let lines: Vec<&str> = shown
            .lines()
            .filter_map(|line| line.strip_prefix(mark))
            .collect();
        let expected: Vec<String> = (0..300).map(|at| format!("{letter}{at}")).collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn a_line_without_an_end_gets_one_and_parts_are_refused() {
    let stage = Stage::new();
    run(&stage, &["--op", "op"], &shell("echo out; printf part >&2"))
        .finish()
        .assert_code(0);
    let both = stage.xioflow().args(["logs", "op", "--both"]).finish();
    let shown = String::from_utf8_lossy(&both.stdout).into_owned();
    assert!(
        shown.contains("out| out\n") && shown.contains("err| part\n"),
        "{both}"
    );
    let refused = stage
        .xioflow()
        .args(["logs", "op", "--both", "--tail", "1"])
        .finish();
    refused.assert_code(64);
}
