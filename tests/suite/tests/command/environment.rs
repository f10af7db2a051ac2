//! The command's environment is exactly what was asked for, and results know its names only.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};
use xioflow_kit::{Finished, Stage, each_user};

use crate::{assert_fields, run, shell, text};

#[test]
fn variables_are_added_to_those_inherited() {
    let stage = Stage::new();
    let words = shell("echo $GIVEN:$INHERITED:$HOME");
    let finished = run(&stage, &["--env", "GIVEN=a=b"], &words)
        .env("INHERITED", "i")
        .env("HOME", "h")
        .finish();
    finished.assert_code(0).assert_stdout("a=b:i:h\n");
}

#[test]
fn a_cleared_environment_has_only_what_is_named() {
    each_user(|stage| {
        let program = stage.fixture();
        let words = [text(&program), "env"];
        run(stage, &["--clear-env"], &words)
            .finish()
            .assert_code(0)
            .assert_stdout("");
        let options = ["--clear-env", "--env", "A=1", "--env", "KEPT"];
        let finished = run(stage, &options, &words)
            .env("KEPT", "k")
            .env("OTHER", "o")
            .finish();
        finished.assert_code(0);
        let mut entries: Vec<_> = finished
            .stdout
            .split(|byte| *byte == 0)
            .filter(|one| !one.is_empty())
            .collect();
        entries.sort_unstable();
        assert_eq!(entries, [&b"A=1"[..], b"KEPT=k"], "{finished}");
    });
}

#[test]
fn a_variable_that_is_not_there_cannot_be_passed_through() {
    let stage = Stage::new();
    let finished = run(&stage, &["--env", "ABSENT"], &["echo", "ran"]).finish();
    finished
        .assert_code(64)
        .assert_stdout("")
        .assert_complains("ABSENT");
}

/// The entries that `env -0` printed, sorted.
fn entries(finished: &Finished) -> Vec<&[u8]> {
    let all = finished.stdout.split(|byte| *byte == 0);
    let mut entries: Vec<_> = all.filter(|entry| !entry.is_empty()).collect();
    entries.sort_unstable();
    entries
}

#[test]
fn an_inherited_environment_is_the_callers_and_nothing_more() {
    each_user(|stage| {
        let ours = stage.run("env").arg("-0").finish();
        let theirs = run(stage, &[], &["env", "-0"]).finish();
        theirs.assert_code(0);
        assert_eq!(entries(&theirs), entries(&ours), "{theirs}");
    });
}

#[test]
fn the_last_of_a_name_counts() {
    let stage = Stage::new();
    let printed = |options: &[&str]| {
        let options = [&["--clear-env"], options].concat();
        let words = ["/usr/bin/env", "-0"];
        let finished = run(&stage, &options, &words).env("A", "ours").finish();
        finished.assert_code(0);
        finished.stdout
    };
    assert_eq!(printed(&["--env", "A=1", "--env", "A=2"]), b"A=2\0");
    assert_eq!(printed(&["--env", "A=1", "--env", "A"]), b"A=ours\0");
    assert_eq!(printed(&["--env", "A", "--env", "A="]), b"A=\0");
}

#[test]
fn values_are_bytes() {
    let stage = Stage::new();
    let given = OsStr::from_bytes(b"GIVEN=\xff\xfe=\n");
    let passed = OsStr::from_bytes(b"\x80 'quoted'");
    let command = stage
        .xioflow()
        .args(["run", "--clear-env", "--env", "PASSED", "--env"]);
    let command = command.arg(given).env("PASSED", passed);
    let finished = command.args(["--", "/usr/bin/env", "-0"]).finish();
    finished.assert_code(0);
    let expected = [&b"GIVEN=\xff\xfe=\n"[..], b"PASSED=\x80 'quoted'"];
    assert_eq!(entries(&finished), expected, "{finished}");
}

#[test]
fn a_name_that_can_be_none_is_refused() {
    let stage = Stage::new();
    for variable in ["=value", ""] {
        let finished = run(&stage, &["--env", variable], &["touch", "trace"]).finish();
        finished
            .assert_code(64)
            .assert_complains("environment variable");
        assert!(!stage.path("trace").exists());
    }
}

/// Whether a file of the folder contains these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| match path.is_dir() {
            true => holds(&path, bytes),
            false => {
                fs::read(&path).is_ok_and(|all| all.windows(bytes.len()).any(|it| it == bytes))
            }
        })
}

#[test]
fn what_was_withheld_is_named_and_never_shown() {
    each_user(|stage| {
        let options = ["--json", "--clear-env", "--op", "named", "--env"];
        let options = [
            &options[..],
            &["SSH_AUTH_SOCK", "--env", "MODE=fast-and-secret"],
        ]
        .concat();
        let finished = run(stage, &options, &["/usr/bin/env", "-0"])
            .env("DB_PASSWORD", "hunter2-secret")
            .env("MY_GATEWAY_TOKEN", "token-secret")
            .env("SSH_AUTH_SOCK", "/run/agent-secret")
            .finish();
        finished.assert_code(0);
        let result = finished.json();
        let expected = json!({
            "inherited": false, "set": ["MODE"], "passed": ["SSH_AUTH_SOCK"],
        });
        assert_fields(&result["environment"], &expected);
        let withheld = result["environment"]["withheld"].as_array().expect("names");
        for name in ["DB_PASSWORD", "MY_GATEWAY_TOKEN", "HOME", "PATH"] {
            assert!(withheld.contains(&json!(name)), "{name} in {withheld:?}");
        }
        assert!(
            !result["environment"].to_string().contains("secret"),
            "{result:#}"
        );
        let shown = stage
            .xioflow()
            .args(["show", "named", "--json"])
            .finish()
            .json();
        let recorded = shown.to_string();
        assert!(recorded.contains("SSH_AUTH_SOCK") && !recorded.contains("DB_PASSWORD"));
        fs::remove_dir_all(stage.domain()).expect("the stage's domain");
    });
}

#[test]
fn no_value_enters_the_record() {
    let stage = Stage::new();
    let options = ["--env", "GIVEN=given-secret", "--env", "PASSED"];
    let finished = run(&stage, &options, &["true"])
        .env("PASSED", "passed-secret")
        .env("INHERITED", "inherited-secret")
        .finish();
    finished.assert_code(0);
    assert!(holds(&stage.domain(), b"PASSED"), "the name is recorded");
    assert!(!holds(&stage.domain(), b"-secret"));
}

#[test]
fn the_value_that_is_passed_on_may_change() {
    let stage = Stage::new();
    let once = |value: &str| -> Value {
        let options = ["--json", "--op", "once", "--env", "PASSED"];
        let finished = run(&stage, &options, &shell("echo $PASSED"))
            .env("PASSED", value)
            .finish();
        finished.assert_code(0);
        finished.json()
    };
    assert_eq!(once("first")["stdout"], "first\n");
    let replayed = once("second");
    assert_fields(&replayed, &json!({ "stdout": "first\n", "replayed": true }));
    assert_eq!(
        replayed["environment"]["withheld"],
        Value::Null,
        "that is not recorded"
    );
    let options = ["--op", "once", "--env", "PASSED=first"];
    run(&stage, &options, &shell("echo $PASSED"))
        .finish()
        .assert_code(76);
}
