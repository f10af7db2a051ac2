//! Signals to the helper from its own tree.

use serde_json::json;
use xioflow_kit::each_user;

use crate::{assert_fields, assert_gone, leave_three, run};

/// All that is not SIGKILL or SIGSTOP is blocked, and of that only three mean something: end, with all that you hold.
#[test]
fn signals_that_mean_nothing_to_it_change_nothing() {
    each_user(|stage| {
        let script = "n=1; while [ $n -le 64 ]; do case $n in 1|2|9|15|19) ;; \
                      *) kill -$n $PPID || exit 9 ;; esac; n=$((n + 1)); done; exit 3";
        // Two numbers belong to the C library, which kill(1) of sh(1) passes on.
        let finished = run(stage, &[], script).finish();
        let expected = json!({
            "exitCode": 3, "terminationReason": "completed", "scope": "subreaper_tree",
            "treeSettlement": "empty",
        });
        assert_fields(&finished.assert_code(3).json(), &expected);
    });
}

#[test]
fn told_to_end_it_takes_its_tree_along() {
    each_user(|stage| {
        for signal in ["HUP", "INT", "TERM"] {
            let ready = stage.path(signal);
            let script = format!(
                "{}; kill -{signal} $PPID; sleep 60",
                leave_three(stage, &ready)
            );
            let finished = run(stage, &[], &script).finish();
            assert_gone(stage, &ready, &finished);
            let result = finished.json();
            let expected = json!({
                "status": "failed", "scope": "subreaper_tree", "residualPids": [], "stop": null,
            });
            assert_fields(&result, &expected);
            let reason = result["reason"].as_str().unwrap_or_default();
            assert!(reason.contains("told to end by a signal"), "{result:#}");
        }
    });
}

#[test]
fn killed_it_loses_nothing_of_its_tree() {
    each_user(|stage| {
        let ready = stage.path("ready");
        let script = format!("{}; kill -KILL $PPID; sleep 60", leave_three(stage, &ready));
        let finished = run(stage, &[], &script).finish();
        assert_gone(stage, &ready, &finished);
        let result = finished.json();
        let expected = json!({
            "status": "failed", "terminationReason": "crash_detected", "exitCode": null,
            "signal": "SIGKILL", "treeSettlement": "reaped", "residualPids": [],
        });
        assert_fields(&result, &expected);
        let reason = result["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("the helper went away"), "{result:#}");
    });
}

/// A stopped helper is continued when its supervisor wants something of it. One that is stopped again and again is
/// given up, and what it held is ended by its supervisor.
#[test]
fn stopped_without_pause_it_keeps_nobody_waiting() {
    each_user(|stage| {
        let ready = stage.path("ready");
        let script = format!(
            "{}; trap '' TERM; while :; do kill -STOP $PPID; done",
            leave_three(stage, &ready)
        );
        let options = ["--timeout", "500ms", "--grace", "200ms"];
        let finished = run(stage, &options, &script).finish();
        assert_gone(stage, &ready, &finished);
        let result = finished.json();
        let expected = json!({ "status": "failed", "residualPids": [] });
        assert_fields(&result, &expected);
        assert!(
            ["reaped", "empty"].contains(&result["treeSettlement"].as_str().unwrap_or_default()),
            "{result:#}"
        );
    });
}
