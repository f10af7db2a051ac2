//! Supervisor and helper are killed at once: what their tree has left is in its group, and is ended by whoever comes
//! next, before the leases are free.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Delegated, Run, Stage, Started, delegated, each_user, wait};

/// How often it has to come out for each user.
const ROUNDS: usize = 10;

/// Two who have left session, parent, streams and environment, and who are deaf, and a command that goes on. It says
/// so when they are at it.
const ESCAPES: &str = "trap '' TERM INT HUP; \
                       (setsid setsid env -i sh -c ': >$0/one; exec sleep 300' \"$PWD\" <&- >&- 2>&- &); \
                       (setsid env -i sh -c ': >$0/two; exec sleep 300' \"$PWD\" <&- >&- 2>&- &); \
                       until [ -e one ] && [ -e two ]; do :; done; rm one two; : >ready; sleep 300";

fn each_place(test: impl Fn(&Stage, &Delegated<'_>)) {
    each_user(|stage| {
        if let Some(place) = Delegated::or_skip(stage) {
            test(stage, &place);
        }
    });
}

/// A command in a leaf of its own that holds a lease, without an arbiter.
fn run<'a>(place: &Delegated<'a>, id: &str, more: &[&str]) -> Run<'a> {
    let run = place.xioflow().args(["run", "--no-arbiter", "--op", id]);
    let run = run.args(["--lease", "port:8080"]).args(more);
    run.args(["--", "sh", "-c", ESCAPES])
}

fn recover(place: &Delegated<'_>) -> Value {
    let recovering = place.xioflow().args(["recover", "--json"]);
    recovering.finish().json()
}

fn show(stage: &Stage, id: &str) -> Value {
    stage.xioflow().args(["show", id, "--json"]).finish().json()
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a number"), Signal::KILL).expect("it is there");
}

/// Nobody of the two comes to act any more once it is stopped, so that nobody else ends anything.
fn kill_both(stage: &Stage, id: &str, started: Started<'_>) {
    let helper = show(stage, id)["holder"]["pid"].as_u64();
    let helper = u32::try_from(helper.expect("a helper")).expect("a number");
    for pid in [started.pid(), helper] {
        wait::halt(pid);
    }
    for pid in [started.pid(), helper] {
        kill(pid);
    }
    drop(started.finish());
}

/// Starts the command, waits until those who escape have done so, and kills who would end them. Its leaf, and who is in it.
fn leave(stage: &Stage, place: &Delegated<'_>, id: &str, more: &[&str]) -> (PathBuf, Vec<u32>) {
    let started = run(place, id, more).start();
    let ready = stage.path("ready");
    wait::file(&ready, Deadline::usual());
    fs::remove_file(ready).expect("a file of the stage");
    let leaf = show(stage, id)["processIdentity"]["cgroupPath"]
        .as_str()
        .map(PathBuf::from)
        .expect("a leaf is recorded");
    kill_both(stage, id, started);
    let left = delegated::processes(&leaf);
    assert!(left.len() >= 2, "those who have escaped: {left:?}");
    stage.watch(&left);
    (leaf, left)
}

#[track_caller]
fn assert_fields(seen: &Value, expected: &Value) {
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&seen[key], value, "{key} of {seen:#}");
    }
}

#[test]
fn who_has_escaped_is_gone_after_recovery_and_the_leases_are_free() {
    each_place(|stage, place| {
        for round in 0..ROUNDS {
            let id = format!("op-{round}");
            let (leaf, left) = leave(stage, place, &id, &["--driver", "cgroup"]);
            let settled = recover(place);
            assert!(left.iter().all(|pid| !wait::is_alive(*pid)), "{settled:#}");
            assert_fields(
                &settled["decisions"][0],
                &json!({ "operationId": id, "case": "U", "verdict": "marked_dead",
                         "status": "failed", "leases": "freed" }),
            );
            assert!(!leaf.exists(), "{} is left", leaf.display());
            assert_fields(
                &show(stage, &id)["result"],
                &json!({ "status": "failed", "terminationReason": "exit_unobserved", "exitCode": null,
                         "signal": null, "evidence": "unobserved", "treeSettlement": "reaped",
                         "scope": "containment_cgroup", "driver": "cgroup" }),
            );
            let next = place
                .xioflow()
                .args(["run", "--no-arbiter", "--lease", "port:8080"]);
            next.args(["--", "true"]).finish().assert_code(0);
        }
    });
}

#[test]
fn a_dry_run_says_who_is_in_the_group_and_ends_nobody() {
    each_place(|stage, place| {
        let (_, left) = leave(stage, place, "op", &["--driver", "cgroup"]);
        let foreseen = place.xioflow().args(["recover", "--dry-run", "--json"]);
        let foreseen = foreseen.finish().json();
        let decision = &foreseen["decisions"][0];
        assert_fields(decision, &json!({ "case": "U", "first": "stop_processes" }));
        let evidence = decision["evidence"].as_str().unwrap_or_default();
        assert!(
            evidence.contains("somebody is in its control group"),
            "{evidence}"
        );
        assert!(left.iter().any(|pid| wait::is_alive(*pid)));
        assert_eq!(recover(place)["decisions"][0]["case"], "U");
    });
}

#[test]
fn leaves_of_nobody_are_ended_and_told_and_those_of_others_are_not_touched() {
    each_place(|stage, place| {
        let (leaf, _) = leave(stage, place, "op", &["--driver", "cgroup"]);
        let domain = leaf.parent().expect("the domain's group").to_owned();
        let nobody = somebody_in(place, domain.join("f".repeat(32)));
        let unnamed = somebody_in(place, domain.join("not-a-leaf"));
        let other = place.directory().join("xioflow-ffffffffffffffff");
        let others = somebody_in(place, other.join("f".repeat(32)));
        let settled = recover(place);
        assert_fields(
            &settled["sweptGroups"][0],
            &json!({ "directory": nobody.0, "ended": [nobody.1], "removed": true }),
        );
        assert_eq!(settled["sweptGroups"].as_array().map(Vec::len), Some(1));
        assert!(!wait::is_alive(nobody.1) && !nobody.0.exists());
        for (group, pid) in [&unnamed, &others] {
            assert!(wait::is_alive(*pid), "in {}", group.display());
            kill(*pid);
            assert!(delegated::is_empty(group, Deadline::usual()));
            fs::remove_dir(group).expect("an empty group");
        }
        assert_eq!(
            recover(place)["sweptGroups"],
            json!([]),
            "nothing is left to do"
        );
        assert!(!domain.exists(), "nothing is in it any more");
    });
}

/// A group, and the one process in it.
fn somebody_in(place: &Delegated<'_>, group: PathBuf) -> (PathBuf, u32) {
    let enter = "mkdir -p \"$0\" && echo 0 >\"$0/cgroup.procs\"; exec setsid -f sleep 300 >&- 2>&-";
    let entering = place.run("/bin/sh").args(["-c", enter]).arg(&group);
    entering.finish().assert_code(0);
    let members = delegated::processes(&group);
    let [pid] = members[..] else {
        panic!("one in {}: {members:?}", group.display());
    };
    (group, pid)
}
