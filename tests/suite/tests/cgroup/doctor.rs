//! What `xioflow doctor` says of control groups: proven by doing, in a delegated place and outside of one.

use std::fs;

use serde_json::{Value, json};
use xioflow_kit::{Delegated, Finished, Stage, each_user};

#[track_caller]
fn check(finished: &Finished, id: &str) -> Value {
    let report = finished.json();
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["id"] == id);
    found
        .unwrap_or_else(|| panic!("no {id} in {report:#}"))
        .clone()
}

#[test]
fn in_a_delegated_place_a_command_is_ended_in_a_leaf_and_nothing_is_left() {
    each_user(|stage| {
        let Some(place) = Delegated::or_skip(stage) else {
            return;
        };
        let finished = place.xioflow().args(["doctor", "--json"]).finish();
        let check = check(&finished, "cgroup");
        let detail = check["detail"].as_str().unwrap_or_default();
        assert!(
            detail.contains("a command was made in a leaf and ended by one write"),
            "{check:#}"
        );
        assert_ne!(check["verdict"], "missing", "{check:#}");
        assert_eq!(check["facts"]["emptiedByKill"], json!(true), "{check:#}");
        assert!(check["facts"]["clonedInto"].is_boolean(), "{check:#}");
        let entries = fs::read_dir(place.directory()).expect("a group can be listed");
        let left: Vec<_> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn the_helper_says_what_it_has_put_on() {
    let stage = Stage::new();
    let finished = stage.xioflow().args(["doctor", "--json"]).finish();
    let check = check(&finished, "helper-armour");
    assert_ne!(check["verdict"], "cannot_tell", "{check:#}");
    assert_eq!(check["facts"]["noNewPrivs"], json!(true), "{check:#}");
    assert_eq!(check["facts"]["filter"], json!(true), "{check:#}");
}

/// The variables by which the own systemd manager is found.
const MANAGER: [&str; 2] = ["DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"];

#[test]
fn without_a_way_to_the_user_manager_plain_runs_go_on_and_doctor_has_one_line_with_the_remedy() {
    let stage = Stage::ordinary();
    let without = |words: &[&str]| {
        let run = MANAGER
            .iter()
            .fold(stage.xioflow(), |run, name| run.env_remove(name));
        run.args(words).finish()
    };
    without(&["run", "--no-arbiter", "--", "true"])
        .assert_code(0)
        .assert_stderr("");
    let report = without(&["doctor", "--json"]);
    let check = check(&report, "cgroup");
    assert_eq!(check["facts"]["userManager"], json!(false), "{check:#}");
    if check["verdict"] == "ready" {
        return; // The tests' own group is delegated to that user, manager or not.
    }
    let remedy = check["remedy"].as_str().expect("a remedy");
    assert!(!remedy.contains('\n'), "{remedy}");
    // With systemd it is a manager that can be reached; else somebody who hands a group over.
    let expected = match check["facts"]["systemd"].as_bool() {
        Some(true) => "loginctl enable-linger",
        _ => "sudo ",
    };
    assert!(remedy.contains(expected), "{remedy}");
    let refused = without(&["run", "--no-arbiter", "--driver", "cgroup", "--", "true"]);
    refused
        .assert_code(69)
        .assert_complains(&format!("hint: {remedy}"));
}
