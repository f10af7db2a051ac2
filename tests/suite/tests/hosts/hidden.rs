//! A `/proc` that shows a user only whom that user may trace (`hidepid=2`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use xioflow_kit::{Stage, each_user};

use crate::world::{MISSING, Proc, World, assert_fields, text};

/// The helper is not dumpable, and so is its child until its first step: neither is shown to the other.
#[test]
fn a_command_is_held_where_proc_hides_the_helper_from_itself() {
    each_user(|stage| {
        let Some(world) = World::new(stage, Proc::Hiding) else {
            eprintln!("{MISSING}");
            return;
        };
        let result = world.result(&[], &["sh", "-c", "setsid sleep 60 & exit 3"]);
        let expected = json!({
            "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 1,
        });
        assert_fields(&result, &expected);
        assert_eq!(result["survivors"][0]["command"], "sleep", "{result:#}");
        assert_eq!(world.check("subreaper")["verdict"], "ready");
        assert_eq!(world.check("proc-children")["verdict"], "weaker");
    });
}

/// In a namespace of an ordinary user's the init is hidden from its helper too, and so is the list of those whom it
/// has adopted.
#[test]
fn a_namespace_is_held_where_proc_hides_its_init_from_the_helper() {
    each_user(|stage| {
        let Some(world) = World::new(stage, Proc::Hiding) else {
            eprintln!("{MISSING}");
            return;
        };
        let script = "setsid sleep 60 & setsid sleep 60 & exit 3";
        let result = world.result(&["--driver", "pidns"], &["sh", "-c", script]);
        let expected = json!({
            "exitCode": 3, "scope": "pid_namespace", "treeSettlement": "reaped", "survivorsTotal": 2,
        });
        assert_fields(&result, &expected);
        let stopped = ["--driver", "pidns", "--timeout", "200ms"];
        let result = world.result(&stopped, &["sh", "-c", "sleep 60 & sleep 60"]);
        let expected = json!({
            "terminationReason": "timed_out", "signal": "SIGTERM", "survivorsTotal": 0,
        });
        assert_fields(&result, &expected);
    });
}

/// A copy of a program that nobody but root may do this with.
pub(crate) fn program(stage: &Stage, original: &str, name: &str, mode: u32) -> PathBuf {
    let copy = stage.path(name);
    fs::copy(original, &copy).expect("a program");
    fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("chmod");
    copy
}

/// A program that its user may run and not read is not dumpable. It is ended and counted; who it was is
/// not made up.
#[test]
fn survivors_that_are_hidden_are_ended_and_counted() {
    let stage = Stage::ordinary();
    let Some(world) = World::new(&stage, Proc::Hiding) else {
        eprintln!("{MISSING}");
        return;
    };
    let secret = program(&stage, "/bin/sleep", "secret", 0o711);
    let secret = text(&secret);
    let script = format!(
        "setsid sh -c '{secret} 61 & setsid {secret} 62 & wait' & setsid {secret} 60 & exit 3"
    );
    let result = world.result(&[], &["sh", "-c", &script]);
    let expected = json!({
        "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 4,
        "residualPids": [],
    });
    assert_fields(&result, &expected);
    let named = result["survivors"].as_array().map(Vec::len);
    assert_eq!(named, Some(1), "only the shell is shown: {result:#}");
    let words = [
        "run",
        "--no-arbiter",
        "--",
        "sh",
        "-c",
        &format!("setsid {secret} 60 & exit 3"),
    ];
    let finished = world.run(stage.program("xioflow"), &words).finish();
    finished
        .assert_complains("1 process outlived the command and was ended; /proc does not show who");
}

/// A process of another user that nobody sees is not taken for one that is gone.
#[test]
fn one_that_may_not_be_ended_and_is_hidden_is_counted_among_the_residuals() {
    let stage = Stage::ordinary();
    let Some(world) = World::new(&stage, Proc::Hiding) else {
        eprintln!("{MISSING}");
        return;
    };
    let become_root = program(&stage, "/usr/bin/setpriv", "become-root", 0o4755);
    let script = format!(
        "{} --reuid=0 --regid=0 --clear-groups sleep 60 & exit 3",
        text(&become_root)
    );
    let result = world.result(&["--op", "sudo", "--lease", "db"], &["sh", "-c", &script]);
    let expected = json!({
        "status": "indeterminate", "exitCode": 3, "treeSettlement": "unverified", "survivorsTotal": 1,
        "survivors": [], "residualProcessesReaped": false,
    });
    assert_fields(&result, &expected);
    let reason = result["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("1 that could only be counted"),
        "{result:#}"
    );
    let next = ["run", "--no-arbiter", "--lease", "db", "--", "true"];
    let next = world.run(stage.program("xioflow"), &next).finish();
    next.assert_code(75).assert_complains("sudo");
}

/// The owner after one that was killed sees nothing of the helper in `/proc`; its process descriptor says who it is,
/// and so it is waited for, and its last word is the result.
#[test]
fn a_helper_that_is_hidden_is_waited_for_by_the_next_owner() {
    each_user(|stage| {
        let Some(world) = World::new(stage, Proc::Hiding) else {
            eprintln!("{MISSING}");
            return;
        };
        let xioflow = stage.program("xioflow");
        let ready = stage.path("ready");
        let (x, ready) = (text(&xioflow), text(&ready));
        // Deaf to what it is asked first, so that its helper is still at work when it is looked for.
        let command = format!("trap \"\" TERM; echo up >{ready}; while :; do sleep 60; done");
        let script = format!(
            "{x} run --no-arbiter --op lost -- sh -c '{command}' & \
             until [ -s {ready} ]; do :; done; kill -KILL $!; {x} recover --json"
        );
        let recovered: Value = world.run("/bin/sh", &["-c", &script]).finish().json();
        let decision = &recovered["decisions"][0];
        let expected = json!({ "operationId": "lost", "leases": "freed" });
        assert_fields(decision, &expected);
    });
}
