//! `--driver cgroup`, and what `auto` takes: an operation lives in a leaf of its own, the result and the record say
//! so, and nothing of it is left.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Delegated, Stage, Started, each_user, wait};

/// Says in which group it is, and leaves two behind: one of them in a session of its own.
const LEAVES_TWO: &str = "grep ^0:: /proc/self/cgroup; (setsid sleep 300 &) </dev/null >/dev/null 2>&1; sleep 300 & exit 3";

/// As `each_user`, where a place can be delegated.
fn each_place(test: impl Fn(&Stage, &Delegated<'_>)) {
    each_user(|stage| {
        if let Some(place) = Delegated::or_skip(stage) {
            test(stage, &place);
        }
    });
}

fn run<'a>(place: &Delegated<'a>, options: &[&str], script: &str) -> xioflow_kit::Run<'a> {
    let run = place.xioflow().arg("run").args(options);
    run.args(["--", "sh", "-c", script])
}

fn show(stage: &Stage, id: &str) -> Value {
    stage.xioflow().args(["show", id, "--json"]).finish().json()
}

#[track_caller]
fn assert_fields(seen: &Value, expected: &Value) {
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&seen[key], value, "{key} of {seen:#}");
    }
}

/// The groups that are in the place beside leaves.
fn groups(place: &Delegated<'_>) -> Vec<String> {
    let entries = fs::read_dir(place.directory()).expect("a group can be listed");
    let entries = entries.map(|entry| entry.expect("an entry"));
    let groups = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = groups
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn assert_nothing_is_left(place: &Delegated<'_>) {
    assert_eq!(groups(place), [""; 0]);
}

#[test]
fn auto_takes_a_group_where_the_place_is_delegated_and_says_so() {
    each_place(|stage, place| {
        let finished = run(place, &["--no-arbiter", "--op", "op", "--json"], LEAVES_TWO).finish();
        let result = finished.assert_code(3).json();
        assert_fields(
            &result,
            &json!({ "driver": "cgroup", "scope": "containment_cgroup", "exitCode": 3,
                     "treeSettlement": "reaped", "survivorsTotal": 2, "residualPids": [] }),
        );
        let record = show(stage, "op");
        let path = record["processIdentity"]["cgroupPath"].as_str();
        let leaf = Path::new(path.expect("a path in the record"));
        assert!(leaf.starts_with(place.directory()), "{}", leaf.display());
        let name = leaf.strip_prefix(place.directory()).expect("below it");
        let told = result["stdout"].as_str().unwrap_or_default();
        assert!(
            told.trim_end().ends_with(&name.display().to_string()),
            "{told}"
        );
        assert!(record["processIdentity"]["cgroupId"].is_u64(), "{record:#}");
        assert!(
            record["processIdentity"]["cgroupNamespace"].is_u64(),
            "{record:#}"
        );
        assert_nothing_is_left(place);
    });
}

#[test]
fn a_driver_that_is_named_is_the_one_that_holds() {
    each_place(|_, place| {
        for (driver, scope) in [
            ("reaper", "subreaper_tree"),
            ("cgroup", "containment_cgroup"),
        ] {
            let options = ["--no-arbiter", "--driver", driver, "--json"];
            let result = run(place, &options, "exit 0")
                .finish()
                .assert_code(0)
                .json();
            assert_fields(&result, &json!({ "driver": driver, "scope": scope }));
        }
        assert_nothing_is_left(place);
    });
}

#[test]
fn a_pid_namespace_has_a_group_as_well_and_both_are_on_record() {
    each_place(|stage, place| {
        let options = ["--no-arbiter", "--driver", "pidns", "--op", "op", "--json"];
        let finished = run(place, &options, LEAVES_TWO).finish();
        if finished.status.code() == Some(69) {
            return; // No namespaces here; the tests of that driver say so.
        }
        assert_fields(
            &finished.json(),
            &json!({ "driver": "pidns", "scope": "pid_namespace", "exitCode": 3 }),
        );
        let identity = &show(stage, "op")["processIdentity"];
        assert!(identity["pidNamespace"].is_object(), "{identity:#}");
        assert!(identity["cgroupPath"].is_string(), "{identity:#}");
        assert_nothing_is_left(place);
    });
}

#[test]
fn where_no_group_can_be_had_it_is_refused_with_the_remedy_and_nothing_is_recorded() {
    let stage = Stage::ordinary();
    let ask = |driver: &str| {
        let options = [
            "run",
            "--no-arbiter",
            "--op",
            "op",
            "--driver",
            driver,
            "--",
            "true",
        ];
        stage.xioflow().args(options).finish()
    };
    let refused = ask("cgroup");
    if refused.status.code() == Some(0) {
        return; // The tests' own group is delegated to that user.
    }
    refused
        .assert_code(69)
        .assert_complains("no control group can be had for it")
        .assert_complains("hint: ");
    let listed = stage.xioflow().args(["list", "--json"]).finish().json();
    assert_eq!(listed["operations"], json!([]), "{listed:#}");
    ask("auto").assert_code(0);
}

#[test]
fn a_launch_that_fails_leaves_no_group() {
    each_place(|_, place| {
        let missing = place
            .xioflow()
            .args(["run", "--no-arbiter", "--", "no-such-program"]);
        missing.finish().assert_code(127);
        let gone = [
            "run",
            "--no-arbiter",
            "--cwd",
            "no-such-folder",
            "--",
            "true",
        ];
        place.xioflow().args(gone).finish().assert_code(126);
        assert_nothing_is_left(place);
    });
}

/// Moves the process whose number is in the file `stranger` into its own group, then kills its helper.
fn kills_its_helper(place: &Delegated<'_>) -> String {
    let root = place.directory();
    let name = root.file_name().expect("a name").to_string_lossy();
    let root = root.display();
    format!(
        "read stranger <stranger; group=$(sed -n 's/^0:://p' /proc/self/cgroup); \
         echo $stranger >{root}/${{group#*{name}/}}/cgroup.procs; kill -9 $PPID; sleep 300"
    )
}

#[test]
fn when_the_helper_dies_whoever_is_in_the_group_is_ended_by_the_kernel() {
    each_place(|stage, place| {
        let stranger = place.run("/bin/sleep").arg("300").start();
        fs::write(stage.path("stranger"), format!("{}\n", stranger.pid())).expect("a file");
        let options = ["--no-arbiter", "--op", "op", "--json"];
        let result = run(place, &options, &kills_its_helper(place))
            .finish()
            .json();
        assert_fields(
            &result,
            &json!({ "status": "failed", "terminationReason": "crash_detected", "driver": "cgroup",
                     "scope": "containment_cgroup", "residualPids": [] }),
        );
        let ended = stranger.finish();
        assert_eq!(signal_of(&ended.status), Some(Signal::KILL.as_raw()));
        assert_nothing_is_left(place);
    });
}

fn signal_of(status: &std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(status)
}

#[test]
fn several_domains_and_an_arbiter_share_one_root_and_leave_nothing() {
    each_place(|stage, place| {
        let in_domain = |domain: &str, options: &[&str], script: &str| {
            let run = place.xioflow().args(["--domain", domain, "run", "--json"]);
            run.args(options).args(["--", "sh", "-c", script])
        };
        let mut running: Vec<Started<'_>> = Vec::new();
        for (domain, options) in [("one", &["--no-arbiter"][..]), ("two", &[]), ("three", &[])] {
            let ready = format!("{domain}.ready");
            let script = format!("touch {ready}; exec sleep 300");
            running.push(in_domain(domain, options, &script).start());
            wait::file(&stage.path(&ready), Deadline::usual());
        }
        assert_eq!((groups(place).len(), place.leaves().len()), (3, 3));
        for started in running {
            started.signal(Signal::TERM);
            let result = started.finish().assert_code(143).json();
            assert_eq!(result["driver"], "cgroup");
        }
        for domain in ["two", "three"] {
            let shutdown = ["--domain", domain, "shutdown"];
            stage.xioflow().args(shutdown).finish().assert_code(0);
        }
        assert_nothing_is_left(place);
    });
}

#[test]
fn the_arbiters_group_counts_and_a_client_in_a_delegated_one_is_told_what_to_do() {
    let stage = Stage::ordinary();
    let Some(place) = Delegated::or_skip(&stage) else {
        return;
    };
    // Starts the arbiter, outside of the place.
    stage
        .xioflow()
        .args(["run", "--", "true"])
        .finish()
        .assert_code(0);
    let ask = || run(&place, &["--driver", "cgroup", "--json"], "exit 0").finish();
    let refused = ask();
    if refused.status.code() == Some(0) {
        return; // The tests' own group is delegated to that user.
    }
    refused
        .assert_code(69)
        .assert_complains("of the arbiter, whose group counts")
        .assert_complains("`xioflow shutdown` ends");
    stage.xioflow().arg("shutdown").finish().assert_code(0);
    assert_eq!(ask().assert_code(0).json()["driver"], "cgroup");
    stage.xioflow().arg("shutdown").finish().assert_code(0);
    assert_nothing_is_left(&place);
}
