//! Standard input is what was asked for, and nothing by default.

use xioflow_kit::{Stage, each_user};

use crate::{run, text};

#[test]
fn it_is_empty_by_default() {
    each_user(|stage| {
        run(stage, &[], &["cat"])
            .stdin("given")
            .finish()
            .assert_code(0)
            .assert_stdout("");
        let explicit = run(stage, &["--stdin", "null"], &["cat"])
            .stdin("given")
            .finish();
        explicit.assert_code(0).assert_stdout("");
    });
}

#[test]
fn it_can_be_inherited() {
    each_user(|stage| {
        let run = run(stage, &["--stdin", "inherit"], &["cat"])
            .stdin(b"given\xff\n")
            .finish();
        run.assert_code(0).assert_stdout(b"given\xff\n");
    });
}

#[test]
fn it_can_be_a_file() {
    each_user(|stage| {
        let file = stage.write("input", b"from a file\xff", 0o600);
        let named = run(stage, &["--stdin", text(&file)], &["cat"]).finish();
        named.assert_code(0).assert_stdout(b"from a file\xff");
        let relative = run(stage, &["--stdin", "input"], &["cat"]).finish();
        relative.assert_code(0).assert_stdout(b"from a file\xff");
    });
}

#[test]
fn a_missing_file_is_named_and_nothing_runs() {
    let stage = Stage::new();
    let trace = stage.path("trace");
    let finished = run(&stage, &["--stdin", "missing"], &["touch", text(&trace)]).finish();
    finished.assert_complains("missing");
    assert!(!finished.status.success(), "{finished}");
    assert!(!trace.exists());
}

#[test]
fn input_that_is_not_read_is_no_error() {
    let stage = Stage::new();
    let run = run(&stage, &["--stdin", "inherit"], &["true"])
        .stdin(vec![b'x'; 60_000])
        .finish();
    run.assert_code(0);
}
