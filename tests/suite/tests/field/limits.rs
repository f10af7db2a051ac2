//! Reports of commands that take all there is. Where the kernel has to enforce the limit, it is `cgroup::limits`.

use std::time::{Duration, Instant};

use serde_json::json;
use xioflow_kit::Stage;

use crate::{assert_fields, assert_nobody_lives, run_json, shell};

/// A script that makes 200 processes.
const SWARM: &str = "i=0; while [ $i -lt 200 ]; do sleep 30 & i=$((i+1)); done; wait";

/// Without a control group the weaker means is named.
#[test]
fn a_command_that_calls_itself_is_stopped_at_its_limit() {
    let stage = Stage::new();
    let options = [
        "--driver",
        "reaper",
        "--pids",
        "50",
        "--limits",
        "soft",
        "--timeout",
        "10s",
    ];
    let begun = Instant::now();
    let (finished, document) = run_json(&stage, &options, &shell(SWARM));
    finished.assert_complains("limit of 50 processes");
    assert_fields(
        &document,
        &json!({"status": "failed", "terminationReason": "pids_exceeded"}),
    );
    assert_eq!(document["limits"]["means"], json!({"pids": "sampling"}));
    // By its limit, and long before its timeout and the end of what it started.
    assert!(begun.elapsed() < Duration::from_secs(25));
    assert_nobody_lives(&stage);
}
