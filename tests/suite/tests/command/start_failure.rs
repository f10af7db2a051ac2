//! A command that cannot be started says which step failed, about what, and what to do.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use xioflow_kit::{Finished, Stage, each_user};

use crate::{assert_fields, run, run_json, text};

#[test]
fn a_working_directory_that_cannot_be_entered_is_named() {
    each_user(|stage| {
        let file = stage.write("file", "", 0o600);
        let locked = stage.folder("locked");
        let mut cases = vec![(stage.path("none"), "ENOENT"), (file, "ENOTDIR")];
        if !stage.is_privileged() {
            cases.push((locked.join("in"), "EACCES"));
            cases.push((locked.clone(), "EACCES"));
        }
        fs::create_dir(locked.join("in")).expect("a folder of the stage");
        fs::set_permissions(&locked, Permissions::from_mode(0o600)).expect("chmod");
        for (folder, code) in cases {
            let trace = stage.path("trace");
            let words = ["touch", text(&trace)];
            let (finished, result) = run_json(stage, &["--cwd", text(&folder)], &words);
            finished.assert_code(126);
            let expected = json!({ "stage": "cwd", "code": code, "subject": text(&folder) });
            assert_fields(&result["spawnFailure"], &expected);
            let operation = result["operationId"].as_str().expect("an id").to_owned();
            let shown = stage.xioflow().args(["show", &operation]).finish();
            shown.assert_code(0);
            assert!(!trace.exists(), "{finished}");
        }
        fs::set_permissions(&locked, Permissions::from_mode(0o700)).expect("chmod");
        fs::remove_dir_all(locked).expect("a folder of the stage");
    });
}

/// Runs a line of shell that stands in a folder which it has removed. `$0` is the command line
/// under test.
fn from_nowhere(stage: &Stage, line: &str) -> Finished {
    let script = format!("mkdir gone && cd gone && rmdir ../gone && {line}");
    let xioflow = stage.program("xioflow");
    stage
        .run("/bin/sh")
        .args(["-c", &script, text(&xioflow)])
        .finish()
}

#[test]
fn a_folder_that_is_gone_is_recorded_and_named() {
    each_user(|stage| {
        let gone = stage.path("gone");
        for (option, folder) in [("", gone.clone()), ("--cwd below", gone.join("below"))] {
            let line = format!("\"$0\" run --json {option} -- touch trace");
            let finished = from_nowhere(stage, &line);
            finished.assert_code(126).assert_complains("gone");
            finished.assert_complains("hint: ");
            let failure = &finished.json()["spawnFailure"];
            let expected = json!({ "stage": "cwd", "code": "ENOENT", "subject": text(&folder) });
            assert_fields(failure, &expected);
        }
        let listed = stage.xioflow().args(["list", "--json"]).finish();
        assert_eq!(
            listed.json()["operations"].as_array().map(Vec::len),
            Some(2),
            "{listed}"
        );
        fs::remove_dir_all(stage.domain()).expect("the stage's domain");
    });
}

#[test]
fn another_folder_of_that_name_is_not_taken_for_it() {
    let stage = Stage::new();
    let line = "mkdir ../gone && \"$0\" run -- touch trace";
    from_nowhere(&stage, line).assert_code(126);
    assert!(!stage.path("gone/trace").exists());
}

#[test]
fn a_folder_that_is_named_makes_up_for_one_that_is_gone() {
    each_user(|stage| {
        let here = stage.path("");
        let line = format!("\"$0\" run --cwd {} -- pwd", text(&here));
        let finished = from_nowhere(stage, &line);
        finished.assert_code(0);
        assert_eq!(
            finished.stdout,
            format!("{}\n", text(&here).trim_end_matches('/')).as_bytes()
        );
    });
}

#[test]
fn a_domain_is_not_looked_for_from_a_folder_that_is_gone() {
    let stage = Stage::new();
    for verb in ["run --cwd / -- true", "list", "--domain relative list"] {
        let line = format!("env -u XIOFLOW_DOMAIN \"$0\" {verb}");
        let finished = from_nowhere(&stage, &line);
        finished.assert_code(73).assert_complains("--domain DIR");
    }
}

#[test]
fn too_few_open_files_are_named_as_the_reason() {
    each_user(|stage| {
        // Each number ends at another place of the way.
        for allowed in [6, 8, 9, 10, 11, 12, 13, 14, 15, 16] {
            let script = format!("ulimit -n {allowed}; exec \"$0\" run -- touch trace");
            let xioflow = stage.program("xioflow");
            let finished = stage
                .run("/bin/sh")
                .args(["-c", &script, text(&xioflow)])
                .finish();
            assert!(
                [70, 73, 126].contains(&finished.status.code().unwrap_or(0)),
                "{finished}"
            );
            finished.assert_complains("ulimit -n");
            finished.assert_complains("open");
            assert!(!stage.path("trace").exists(), "{finished}");
        }
        let script = "ulimit -n 32; exec \"$0\" run -- true";
        let xioflow = stage.program("xioflow");
        let finished = stage
            .run("/bin/sh")
            .args(["-c", script, text(&xioflow)])
            .finish();
        finished.assert_code(0).assert_stderr("");
    });
}

#[test]
fn what_is_not_started_has_no_output_and_no_survivors() {
    let stage = Stage::new();
    let (_, result) = run_json(&stage, &["--cwd", "/none"], &["true"]);
    let expected = json!({ "treeSettlement": "empty", "stdoutBytes": 0, "survivorsTotal": 0 });
    assert_fields(&result, &expected);
    run(&stage, &[], &["true"]).finish().assert_code(0);
}
