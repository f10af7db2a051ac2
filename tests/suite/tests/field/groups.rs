//! Hosts whose control groups are not as people expect: containers, deep nesting, both versions at once.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use xioflow_kit::{Delegated, Finished, Stage, running_as_root};

use crate::text;

/// What `doctor` says of control groups, and the whole run for a message.
fn doctor(finished: &Finished) -> Value {
    let document = finished.json();
    let checks = document["checks"].as_array().expect("a list of checks");
    let check = checks.iter().find(|check| check["id"] == "cgroup");
    check
        .unwrap_or_else(|| panic!("no check of control groups: {finished}"))
        .clone()
}

/// The kernel's words for the no-internal-process rule.
fn assert_never_bare(finished: &Finished) {
    for stream in [&finished.stdout, &finished.stderr] {
        let said = String::from_utf8_lossy(stream).to_lowercase();
        assert!(!said.contains("resource busy"), "{finished}");
    }
}

/// Mounts what a container has: its own processes, and its own group as the root of all.
const CONTAINER: &str = "mount -t tmpfs none /sys/fs/cgroup && mkdir -p /sys/fs/cgroup/own && \
    mount -t cgroup2 none /sys/fs/cgroup/own && exec \"$@\"";

/// The first process of a container with a control group namespace of its own.
fn container<'a>(place: &Delegated<'a>, stage: &Stage, words: &[&str]) -> Finished {
    let program = stage.program("xioflow");
    let unshare = [
        "--cgroup",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "--",
    ];
    let script = ["sh", "-c", CONTAINER, "sh", text(&program)];
    place
        .run("unshare")
        .args(unshare)
        .args(script)
        .args(words.iter().copied())
        .finish()
}

#[test]
fn the_first_process_of_a_container_is_told_what_it_has() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to make a container");
        return;
    }
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let finished = container(&place, &stage, &["doctor", "--json"]);
    assert_never_bare(&finished);
    let check = doctor(&finished);
    let group = &check["facts"]["group"];
    assert_eq!(group["path"], "/", "{check:#}");
    assert_eq!(group["directory"], "/sys/fs/cgroup/own", "{check:#}");
    // It is the root of what it sees, and still no real root: its processes stand in the way of limits.
    assert_eq!(group["isRoot"], false, "{check:#}");
    assert_eq!(check["facts"]["leafMade"], true, "{check:#}");

    let limited = [
        "run",
        "--no-arbiter",
        "--json",
        "--memory",
        "64MiB",
        "--",
        "true",
    ];
    let finished = container(&place, &stage, &limited);
    assert_never_bare(&finished);
    // With the controller it moves itself out of the way; without it says so and runs nothing.
    assert!(
        [Some(0), Some(69)].contains(&finished.status.code()),
        "{finished}"
    );
}

#[test]
fn a_group_is_found_however_deep_it_is_nested() {
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let nested = place
        .directory()
        .join("prefix/distro-1/user.slice/user-1000.slice/x.scope");
    fs::create_dir_all(&nested).expect("groups in a delegated one");
    let enter = "echo $$ >\"$1/cgroup.procs\" && shift && exec \"$@\"";
    let program = stage.program("xioflow");
    let words = [
        "-c",
        enter,
        "sh",
        text(&nested),
        text(&program),
        "doctor",
        "--json",
    ];
    let finished = place.run("/bin/sh").args(words).finish();
    let check = doctor(&finished);
    let directory = check["facts"]["group"]["directory"].as_str();
    assert_eq!(directory.map(Path::new), Some(&*nested), "{check:#}");
    assert_eq!(check["facts"]["leafMade"], true, "{check:#}");
}

#[test]
fn a_hybrid_host_names_what_version_1_holds_and_what_works() {
    let own = fs::read_to_string("/proc/self/cgroup").expect("/proc is mounted");
    let holds_memory = |line: &str| line.split(':').nth(1) == Some("memory");
    if !(own.contains("0::/") && own.lines().any(holds_memory)) {
        eprintln!("skipped: needs a host with both versions of control groups");
        return;
    }
    let stage = Stage::new();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    let finished = place.xioflow().args(["doctor", "--json"]).finish();
    let check = doctor(&finished);
    assert_eq!(check["verdict"], "weaker", "{check:#}");
    assert_eq!(check["facts"]["hierarchy"], "hybrid", "{check:#}");
    let held = check["facts"]["heldByV1"].as_array().expect("a list");
    assert!(held.contains(&json!("memory")), "{check:#}");
    let detail = check["detail"].as_str().expect("a text");
    for part in [
        "hybrid",
        "memory",
        "freezing and measuring a whole tree works",
    ] {
        assert!(detail.contains(part), "{part:?} in {detail}");
    }
    let remedy = check["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains("cgroup_no_v1=all"), "{remedy}");
}
