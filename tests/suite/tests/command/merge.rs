//! One pipe for both streams keeps the order of everything that is printed.

use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{assert_fields, run, run_json, shell};

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
