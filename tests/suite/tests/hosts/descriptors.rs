//! Odd starts: whatever descriptors a supervisor is started with, the command gets its own three and no other, and so
//! does its helper.

use xioflow_kit::{Finished, Stage, each_user};

use crate::world::text;

/// Runs `xioflow` from a shell that first does something to its descriptors; the command lists its own, and how
/// many its helper has.
fn listed(stage: &Stage, first: &str) -> (Finished, Vec<String>) {
    let (xioflow, fixture) = (stage.program("xioflow"), stage.fixture());
    let script = format!("{first}; exec \"$@\"");
    let words = [
        "run",
        "--no-arbiter",
        "--op",
        "listed",
        "--",
        text(&fixture),
        "fds",
    ];
    let finished = stage
        .run("/bin/bash")
        .args(["-c", &script, "bash", text(&xioflow)])
        .args(words)
        .finish();
    let logs = stage.xioflow().args(["logs", "listed"]).finish();
    let printed = String::from_utf8_lossy(&logs.assert_code(0).stdout).into_owned();
    let numbers = printed.lines().filter_map(|line| line.split(' ').next());
    let numbers = numbers.map(str::to_owned).collect();
    (finished, numbers)
}

#[test]
fn the_command_has_three_descriptors_however_its_supervisor_was_started() {
    const STARTS: [&str; 7] = [
        ":",
        "exec <&-",
        "exec >&-",
        "exec 2>&-",
        "exec <&- >&- 2>&-",
        // Thousands that no exec closes.
        "ulimit -n 4096; for n in {1..3000}; do exec {fd}</dev/null; done",
        // Numbers that select(2) has no room for, and the highest that may be.
        "ulimit -n 4096; exec 1024</dev/null 1025>/dev/null 4095</dev/null",
    ];
    each_user(|stage| {
        for start in STARTS {
            let (finished, numbers) = listed(stage, start);
            finished.assert_code(0);
            assert_eq!(numbers, ["0", "1", "2"], "{start}: {finished}");
            // Each start has a record of its own.
            std::fs::remove_dir_all(stage.domain()).expect("a domain");
        }
    });
}
