//! What doctor has to say in each place of a guest, on the kernel that it has. Outside of a guest there is nothing to examine.

use std::env;

use serde_json::Value;
use xioflow_kit::Stage;

/// Names the place; `tests/vm/guest/inside` sets it.
const PLACE_VARIABLE: &str = "XIOFLOW_TEST_PLACE";

/// The place that this test runs in, or a word about why it does not look.
#[expect(clippy::print_stdout, reason = "a test says when it did not look")]
fn place() -> Option<String> {
    let place = env::var(PLACE_VARIABLE).ok();
    if place.is_none() {
        println!("skipped: only `cargo xtask vm` has the places of this test");
    }
    place
}

/// What doctor says, as JSON.
struct Report(Value);

impl Report {
    fn of(stage: &Stage) -> Self {
        // By this doctor knows that there is a service manager of the user's own to be asked.
        let runtime = env::var_os("XDG_RUNTIME_DIR").unwrap_or_default();
        let doctor = stage.xioflow().args(["doctor", "--json"]);
        let doctor = doctor.env("XDG_RUNTIME_DIR", runtime).finish();
        doctor.assert_code(0);
        Self(doctor.json())
    }

    fn check(&self, id: &str) -> &Value {
        let checks = self.0["checks"].as_array().expect("a list of checks");
        let check = checks.iter().find(|check| check["id"] == id);
        check.unwrap_or_else(|| panic!("no check {id} in {}", self.0))
    }
}

fn words(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// The controllers that a limit of xioflow needs and that each delegating place has.
const NEEDED: [&str; 3] = ["cpu", "memory", "pids"];

#[test]
fn control_groups_are_found_as_the_place_has_them() {
    let Some(place) = place() else {
        return;
    };
    let stage = Stage::new();
    let report = Report::of(&stage);
    let check = report.check("cgroup");
    let (verdict, facts) = (&check["verdict"], &check["facts"]);
    let remedy = check["remedy"].as_str().unwrap_or_default();
    assert_eq!(facts["hierarchy"], "unified", "{check}");
    match place.as_str() {
        "user-scope" | "service" => {
            assert!(verdict == "ready" || verdict == "weaker", "{check}");
            // The manager of a user need not leave a mark; then nobody can tell, and nothing is claimed.
            let delegated = &facts["group"]["delegatedBySystemd"];
            assert_ne!(*delegated, false, "{check}");
            assert!(place == "user-scope" || *delegated == true, "{check}");
            assert_has_controllers(check);
        }
        "cgroup-namespace" => {
            assert!(verdict == "ready" || verdict == "weaker", "{check}");
            assert_eq!(facts["group"]["path"], "/", "{check}");
            assert_has_controllers(check);
        }
        // Root may make groups anywhere, and systemd does as it likes with them.
        "root-shell" => {
            assert_eq!(verdict, "weaker", "{check}");
            assert_eq!(facts["group"]["delegatedBySystemd"], false, "{check}");
            let expected = "systemd-run --scope -p Delegate=yes -- …";
            assert_eq!(remedy, expected, "{check}");
        }
        "user-shell" => {
            assert_eq!(verdict, "missing", "{check}");
            let expected = "systemd-run --user --scope -p Delegate=yes -- …";
            assert_eq!(remedy, expected, "{check}");
        }
        other => panic!("nobody has said what holds in the place {other:?}"),
    }
}

fn assert_has_controllers(check: &Value) {
    let group = &check["facts"]["group"];
    let controllers = words(&group["controllers"]);
    for controller in NEEDED {
        assert!(controllers.contains(&controller), "{check}");
    }
    assert_eq!(group["canMakeChildren"], true, "{check}");
}

/// What limits can be had is not what commands need.
#[test]
fn commands_can_run_in_every_place() {
    if place().is_none() {
        return;
    }
    let stage = Stage::new();
    assert_eq!(Report::of(&stage).0["ready"], true);
    let run = stage
        .xioflow()
        .args(["run", "--no-arbiter", "--", "echo", "here"]);
    run.finish().assert_code(0).assert_stdout("here\n");
}

/// The release of the running kernel: major and minor.
fn kernel() -> (u32, u32) {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Inodes of process descriptors came with 6.9; doctor says whether a number alone identifies a process.
#[test]
fn an_older_kernel_is_called_weaker_where_it_is() {
    if place().is_none() {
        return;
    }
    let stage = Stage::new();
    let report = Report::of(&stage);
    let expected = if kernel() < (6, 9) { "weaker" } else { "ready" };
    let check = report.check("pidfd");
    assert_eq!(check["verdict"], expected, "{check}");
}

/// Kernel releases and the version of Landlock that came with each: landlock(7).
const LANDLOCK: [((u32, u32), u64); 6] = [
    ((5, 13), 1),
    ((5, 19), 2),
    ((6, 2), 3),
    ((6, 7), 4),
    ((6, 10), 5),
    ((6, 12), 6),
];

#[test]
fn the_version_of_landlock_is_at_least_that_of_the_kernel() {
    if place().is_none() {
        return;
    }
    let stage = Stage::new();
    let report = Report::of(&stage);
    let check = report.check("landlock");
    let abi = check["facts"]["abi"].as_u64().unwrap_or_default();
    let since = LANDLOCK
        .iter()
        .rev()
        .find(|(release, _)| *release <= kernel());
    let (_, expected) = since.expect("every guest has Landlock");
    // Some fixes of an old kernel count as a version of their own, so a newer number may stand there.
    assert!(abi >= *expected, "{check}");
}
