//! `kill -9 -1`: everybody whom the kernel lets a process signal. In a pid namespace of the test's own, so that it meets
//! nobody else's processes.

use serde_json::{Value, json};
use xioflow_kit::{Finished, Stage, running_as_root};

use crate::assert_fields;

/// Runs a script as an ordinary user among processes of its own.
fn inside(stage: &Stage, script: &str) -> Option<Finished> {
    let world = |script: &str| {
        let user = stage.user_id().unwrap_or(0).to_string();
        stage
            .run_privileged("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args([
                "sh",
                "-c",
                "\"$@\"; exit $?",
                "sh",
                "setpriv",
                "--clear-groups",
            ])
            .args(["--reuid", &user, "--regid", &user, "sh", "-c", script])
            .finish()
    };
    (running_as_root() && world("true").status.success()).then(|| world(script))
}

const MISSING: &str = "skipped: needs root, and a pid namespace of its own";

fn xioflow(stage: &Stage) -> String {
    stage.program("xioflow").display().to_string()
}

/// It ends its own supervisor and helper, and whoever escaped with it. The command lives: kill(2) spares the caller. The
/// next owner ends it by its recorded identity.
#[test]
fn of_a_user_leaves_only_whoever_sent_it_and_the_next_owner_ends_that_one() {
    let stage = Stage::ordinary();
    let attack = "setsid sleep 60 & kill -9 -1; echo alive >alive; exec sleep 61";
    // The shell that waits here would be hit as well: it waits for the file, from another user's process.
    let x = xioflow(&stage);
    let script = format!("{x} run --no-arbiter --op lost -- sh -c '{attack}'");
    let Some(first) = inside_then(&stage, &script, &format!("{x} recover --json")) else {
        eprintln!("{MISSING}");
        return;
    };
    let recovered: Value = first.json();
    let decision = &recovered["decisions"][0];
    assert_fields(decision, &json!({ "operationId": "lost" }));
    let signalled = decision["signalled"].as_array().map(Vec::len);
    // Of those that it has hit some may still be on their way out.
    assert!(matches!(signalled, Some(1..)), "{recovered:#}");
}

/// The first script dies of what it does; the second is run after it, by process 1, which is root's.
fn inside_then(stage: &Stage, first: &str, second: &str) -> Option<Finished> {
    let user = stage.user_id().unwrap_or(0).to_string();
    let become_user = format!("setpriv --clear-groups --reuid {user} --regid {user} sh -c");
    let world = |script: &str| {
        stage
            .run_privileged("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", script, "sh", first, second])
            .finish()
    };
    let script = format!(
        "{become_user} \"$1\" >&2; until [ -s alive ]; do :; done; {become_user} \"$2\"; exit $?"
    );
    (running_as_root() && world("true").status.success()).then(|| world(&script))
}

/// In a user and a pid namespace of the tree's own there is nobody of ours.
#[test]
fn inside_of_namespaces_meets_nobody_of_ours() {
    let stage = Stage::ordinary();
    let script = format!(
        "{} run --no-arbiter --json -- unshare --user --map-root-user --pid --fork sh -c \
         'sleep 60 & kill -9 -1; exit 3'",
        xioflow(&stage)
    );
    let Some(finished) = inside(&stage, &script) else {
        eprintln!("{MISSING}");
        return;
    };
    let result = finished.json();
    if result["stderr"]
        .as_str()
        .is_some_and(|it| it.contains("unshare failed"))
    {
        eprintln!("skipped: needs user namespaces for ordinary users");
        return;
    }
    let expected = json!({
        "exitCode": 3, "terminationReason": "completed", "scope": "subreaper_tree",
    });
    assert_fields(&result, &expected);
}

/// In a user namespace alone the others are still there, and are the same user's: as without it.
#[test]
fn inside_of_a_user_namespace_alone_is_as_outside() {
    let stage = Stage::ordinary();
    let attack =
        "unshare --user --map-root-user sh -c \"kill -9 -1; echo alive >alive; exec sleep 61\"";
    let x = xioflow(&stage);
    let script =
        format!("{x} run --no-arbiter --op lost -- sh -c '{attack}' || echo refused >alive");
    let Some(finished) = inside_then(
        &stage,
        &script,
        &format!("{x} recover --json; cat alive >&2"),
    ) else {
        eprintln!("{MISSING}");
        return;
    };
    if String::from_utf8_lossy(&finished.stderr).contains("refused") {
        eprintln!("skipped: needs user namespaces for ordinary users");
        return;
    }
    let recovered: Value = finished.json();
    assert_fields(
        &recovered["decisions"][0],
        &json!({ "operationId": "lost" }),
    );
}
