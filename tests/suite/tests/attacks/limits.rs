//! Limits and priorities of the helper, which any process of its user may change: prlimit(2), setpriority(2) and
//! sched_setscheduler(2) ask for the user, not for the right to trace.

use std::fs;

use serde_json::json;
use xioflow_kit::each_user;

use crate::{assert_fields, assert_gone, leave_three, run};

/// All that can be taken from a helper that has its tree already.
const LIMITS: [&str; 8] = [
    "nofile",
    "as",
    "data",
    "fsize",
    "stack",
    "nproc",
    "sigpending",
    "memlock",
];

#[test]
fn a_helper_without_any_resource_ends_its_tree_and_says_so() {
    each_user(|stage| {
        for limit in LIMITS {
            let ready = stage.path("ready");
            let script = format!(
                "prlimit --pid $PPID --{limit}=0:0 || exit 9; {}; exit 3",
                leave_three(stage, &ready)
            );
            let finished = run(stage, &[], &script).finish();
            assert_gone(stage, &ready, &finished);
            let result = finished.assert_code(3).json();
            let expected = json!({
                "exitCode": 3, "terminationReason": "completed", "scope": "subreaper_tree",
                "treeSettlement": "reaped", "survivorsTotal": 3, "residualPids": [],
            });
            assert_fields(&result, &expected);
            fs::remove_file(ready).expect("a ready file");
        }
    });
}

/// The kernel kills whoever is over its limit of processor time, if it runs when that is looked at. That is SIGKILL then,
/// and no more.
#[test]
fn a_helper_that_the_kernel_may_end_for_its_limit_loses_nothing() {
    each_user(|stage| {
        for limit in ["cpu", "rttime"] {
            let ready = stage.path("ready");
            let script = format!(
                "prlimit --pid $PPID --{limit}=0:0 || exit 9; {}; exit 3",
                leave_three(stage, &ready)
            );
            let finished = run(stage, &[], &script).finish();
            assert_gone(stage, &ready, &finished);
            let result = finished.json();
            let expected = json!({
                "status": "failed", "scope": "subreaper_tree", "treeSettlement": "reaped", "residualPids": [],
            });
            assert_fields(&result, &expected);
            match result["terminationReason"].as_str() {
                Some("completed") => assert_eq!(result["exitCode"], 3, "{result:#}"),
                Some("crash_detected") => {
                    let reason = result["reason"].as_str().unwrap_or_default();
                    assert!(reason.contains("the helper went away"), "{result:#}");
                }
                _ => panic!("{result:#}"),
            }
            fs::remove_file(ready).expect("a ready file");
        }
    });
}

/// As little of the processors as the kernel knows, beside a tree that takes all of them.
#[test]
fn a_helper_that_is_last_in_every_queue_still_ends_its_tree() {
    each_user(|stage| {
        let ready = stage.path("ready");
        let script = format!(
            "renice -n 19 -p $PPID >&2; chrt --idle -p 0 $PPID; ionice -c 3 -p $PPID; taskset -cp 0 $PPID >&2; \
             {}; for n in 1 2 3 4; do (trap '' TERM; while :; do :; done) & done; \
             trap '' TERM; while :; do :; done",
            leave_three(stage, &ready)
        );
        let options = ["--timeout", "500ms", "--grace", "200ms"];
        let finished = run(stage, &options, &script).finish();
        assert_gone(stage, &ready, &finished);
        let expected = json!({
            "status": "failed", "terminationReason": "timed_out", "signal": "SIGKILL", "residualPids": [],
        });
        assert_fields(&finished.json(), &expected);
    });
}
