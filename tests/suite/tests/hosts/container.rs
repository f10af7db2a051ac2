//! What a container is: process 1 is ours, or a capability is missing.

use serde_json::{Value, json};
use xioflow_kit::{Stage, each_user};

use crate::world::{MISSING, Proc, World, assert_fields, text};

/// Survivors in and outside of the command's session.
const SURVIVORS: [&str; 3] = ["sh", "-c", "sleep 60 & setsid sleep 61 & exit 3"];

#[test]
fn as_process_1_a_tree_is_held_and_ended_as_elsewhere() {
    each_user(|stage| {
        let Some(world) = World::new(stage, Proc::Whole) else {
            eprintln!("{MISSING}");
            return;
        };
        let result = world.as_first().result(&[], &SURVIVORS);
        let expected = json!({
            "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 2,
        });
        assert_fields(&result, &expected);
        assert_eq!(world.as_first().check("subreaper")["verdict"], "ready");
    });
}

/// The kernel ends a process 1 by no signal that it has no handler for.
#[test]
fn process_1_hears_who_wants_it_to_stop() {
    let stage = Stage::new();
    let Some(world) = World::new(&stage, Proc::Whole) else {
        eprintln!("{MISSING}");
        return;
    };
    let script = "kill -TERM 1; sleep 60";
    let result = world
        .as_first()
        .result(&["--grace", "20s"], &["sh", "-c", script]);
    let expected = json!({
        "status": "cancelled", "signal": "SIGTERM", "treeSettlement": "empty",
    });
    assert_fields(&result, &expected);
}

/// A tree that ends its holder, below a process 1 that adopts it.
#[test]
fn as_process_1_it_ends_what_its_helper_held() {
    each_user(|stage| {
        let Some(world) = World::new(stage, Proc::Whole) else {
            eprintln!("{MISSING}");
            return;
        };
        let script = "setsid sleep 60 & kill -KILL $PPID; sleep 61";
        let result = world.as_first().result(&[], &["sh", "-c", script]);
        let expected = json!({
            "status": "failed", "terminationReason": "crash_detected", "exitCode": null,
            "treeSettlement": "reaped", "residualPids": [],
        });
        assert_fields(&result, &expected);
    });
}

/// Root in a container that may trace nobody: the helper's files in `/proc` are closed to it.
#[test]
fn without_the_capability_to_trace_nothing_is_lost() {
    let stage = Stage::new();
    let Some(world) = World::new(&stage, Proc::Whole) else {
        eprintln!("{MISSING}");
        return;
    };
    let world = world.without("sys_ptrace");
    let status = world.run("grep", &["CapBnd", "/proc/self/status"]).finish();
    let bounds = String::from_utf8_lossy(&status.assert_code(0).stdout).into_owned();
    let bounds = bounds
        .split_whitespace()
        .last()
        .and_then(|it| u64::from_str_radix(it, 16).ok());
    assert_eq!(
        bounds.map(|it| it & 1 << 19),
        Some(0),
        "the capability is gone"
    );
    let result = world.result(&[], &SURVIVORS);
    let expected = json!({
        "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 2,
    });
    assert_fields(&result, &expected);
    assert_eq!(world.check("subreaper")["verdict"], "ready");
}

/// A supervisor below somebody else who adopts orphans: here the helper of another one.
fn below_another(stage: &Stage, script: &str) -> Value {
    let words = ["run", "--no-arbiter", "--json", "--", "sh", "-c", script];
    stage.xioflow().args(words).finish().json()
}

#[test]
fn below_another_subreaper_each_keeps_its_own() {
    each_user(|stage| {
        let xioflow = stage.program("xioflow");
        let (inner, domain) = (stage.path("inner"), stage.path("domain"));
        let script = format!(
            "{} --domain {} run --no-arbiter --json -- sh -c 'setsid sleep 60 & exit 3' >{}; exit 4",
            text(&xioflow),
            text(&domain),
            text(&inner)
        );
        let outer = below_another(stage, &script);
        let expected = json!({ "exitCode": 4, "treeSettlement": "empty", "survivorsTotal": 0 });
        assert_fields(&outer, &expected);
        let inner = std::fs::read(inner).expect("the inner result");
        let inner: Value = serde_json::from_slice(&inner).expect("a document");
        let expected = json!({
            "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 1,
        });
        assert_fields(&inner, &expected);
    });
}

#[test]
fn what_loses_both_its_holders_comes_to_the_subreaper_above() {
    each_user(|stage| {
        let (xioflow, helper) = (stage.program("xioflow"), stage.path("helper"));
        let (domain, helper) = (stage.path("domain"), text(&helper).to_owned());
        let script = format!(
            "{} --domain {} run --no-arbiter -- sh -c 'setsid sleep 60 & echo $PPID >{helper}; sleep 61' & \
             until [ -s {helper} ]; do :; done; h=$(cat {helper}); kill -STOP $! $h; kill -9 $! $h; exit 4",
            text(&xioflow),
            text(&domain)
        );
        let outer = below_another(stage, &script);
        let expected = json!({
            "exitCode": 4, "scope": "subreaper_tree", "treeSettlement": "reaped", "residualPids": [],
        });
        assert_fields(&outer, &expected);
        assert!(outer["survivorsTotal"].as_u64() >= Some(2), "{outer:#}");
    });
}
