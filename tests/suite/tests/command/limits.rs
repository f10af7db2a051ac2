//! Limits on what a command may use: what cannot be meant, what cannot be enforced.

use serde_json::json;
use xioflow_kit::{Stage, each_user};

use crate::{run, shell, text};

const USAGE: i32 = 64;
const UNAVAILABLE: i32 = 69;

#[test]
fn a_limit_that_cannot_be_meant_is_a_mistake_that_says_what_is_right() {
    let stage = Stage::new();
    for (options, says) in [
        (&["--memory", "0"][..], "1 MiB"),
        (&["--memory", "512"], "1 MiB"),
        (&["--memory", "2 parsecs"], "512MiB"),
        (&["--memory", "99999999999TiB"], "too large"),
        (&["--pids", "0"], "at least 1"),
        (&["--pids", "99999999999"], "at most"),
        (&["--cpus", "0"], "0.01"),
        (&["--cpus", "nan"], "1.5"),
        (&["--cpu-time", "0"], "at least 1 ms"),
        (&["--cpu-time", "60"], "60s"),
        (&["--limits", "soft"], "--memory"),
        (&["--limits", "sort", "--pids", "9"], "soft"),
    ] {
        let finished = run(&stage, options, &["true"]).finish();
        finished.assert_code(USAGE).assert_complains(says);
        assert!(!stage.domain().exists(), "{finished}");
    }
}

/// A host without a control group of its own for operations, and one that has one and lacks the controllers, refuse.
#[test]
fn a_hard_limit_that_cannot_be_enforced_is_69_and_nothing_runs() {
    each_user(|stage| {
        for options in [["--memory", "512MiB"], ["--pids", "16"], ["--cpus", "1.5"]] {
            let trace = stage.path("trace");
            let words = [
                &options[..],
                &["--op", "limited", "--driver", "reaper", "--json"],
            ]
            .concat();
            let finished = run(stage, &words, &["touch", text(&trace)]).finish();
            finished.assert_code(UNAVAILABLE);
            let error = &finished.json()["error"];
            assert_eq!(error["kind"], "limits_refused", "{finished}");
            assert!(error["hint"].is_string(), "{finished}");
            assert!(!trace.exists(), "{finished}");
            let shown = stage.xioflow().args(["list", "--json"]).finish();
            assert_eq!(shown.json()["operations"], json!([]), "{shown}");
        }
        // Nobody has used the id.
        let finished = run(stage, &["--op", "limited"], &shell("echo ran")).finish();
        finished.assert_code(0).assert_stdout("ran\n");
    });
}
