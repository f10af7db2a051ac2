//! Arguments, variables, paths and output are bytes, and stay as they are.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{assert_fields, run, run_json, text};

const BYTES: &[u8] = b"\xff\xfe\x80 \n\xc3(";

#[test]
fn arguments_are_untouched() {
    each_user(|stage| {
        let words = [
            stage.fixture().into_os_string(),
            OsString::from("args"),
            OsString::from_vec(BYTES.to_vec()),
            OsString::new(),
            OsString::from("--json"),
        ];
        let expected = [BYTES, b"\0\0--json\0"].concat();
        run(stage, &[], &words)
            .finish()
            .assert_code(0)
            .assert_stdout(expected);
    });
}

#[test]
fn variables_are_untouched() {
    let stage = Stage::new();
    let assignment = OsString::from_vec([b"BYTES=", BYTES].concat());
    let finished = stage
        .xioflow()
        .args(["run", "--clear-env", "--env"])
        .arg(&assignment)
        .arg("--")
        .arg(stage.fixture())
        .arg("env")
        .finish();
    let expected = [assignment.as_bytes(), b"\0"].concat();
    finished.assert_code(0).assert_stdout(expected);
    let inherited = run(&stage, &[], &[text(&stage.fixture()), "env"])
        .env("BYTES", OsStr::from_bytes(BYTES))
        .finish();
    inherited.assert_code(0);
    let found = inherited
        .stdout
        .split(|byte| *byte == 0)
        .any(|one| one == assignment.as_bytes());
    assert!(found, "{inherited}");
}

#[test]
fn paths_are_untouched() {
    let stage = Stage::new();
    let folder = stage.folder(OsStr::from_bytes(b"\xff folder"));
    let finished = stage
        .xioflow()
        .args(["run", "--cwd"])
        .arg(&folder)
        .arg("--")
        .arg(stage.fixture())
        .arg("cwd")
        .finish();
    finished
        .assert_code(0)
        .assert_stdout(folder.as_os_str().as_bytes());
    let program = folder.join(OsStr::from_bytes(b"tool\xfe"));
    std::os::unix::fs::symlink("/bin/true", &program).expect("a link in the stage");
    run(&stage, &[], &[program.as_os_str()])
        .finish()
        .assert_code(0);
}

#[test]
fn a_domain_may_be_anywhere() {
    let stage = Stage::new();
    let domain = stage.folder(OsStr::from_bytes(b"\xff domain"));
    let finished = run(&stage, &[], &["echo", "out"])
        .env("XIOFLOW_DOMAIN", &domain)
        .finish();
    finished.assert_code(0).assert_stdout("out\n");
    assert!(domain.join("domain.db").exists());
}

#[test]
fn output_is_untouched() {
    each_user(|stage| {
        let bytes = b"\xff\xfe\x00\x80plain\xc3\x28\n";
        let program = stage.fixture();
        let words = [text(&program), "not-utf8"];
        run(stage, &[], &words)
            .finish()
            .assert_code(0)
            .assert_stdout(bytes);
        let (_, document) = run_json(stage, &[], &words);
        let expected = json!({ "stdoutBytes": bytes.len(), "stdoutBase64": "//4AgHBsYWluwygK" });
        assert_fields(&document, &expected);
        let words = [text(&program), "partial-utf8"];
        let finished = run(stage, &[], &words).finish();
        finished
            .assert_code(0)
            .assert_stdout(b"\xe2\x82\xac\xe2\x82");
    });
}
