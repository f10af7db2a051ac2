//! What a command leaves running is ended, named, and gone when `run` returns.

use std::time::Duration;

use serde_json::{Value, json};
use xioflow_kit::{Stage, each_user, fixture_pids, wait};

use crate::{assert_fields, fixture, living_commands, run, run_json, shell};

fn survivor_pids(document: &Value) -> Vec<u64> {
    let survivors = document["survivors"]
        .as_array()
        .expect("a list of survivors");
    let mut pids: Vec<_> = survivors
        .iter()
        .filter_map(|one| one["pid"].as_u64())
        .collect();
    pids.sort_unstable();
    pids
}

#[test]
fn background_jobs_do_not_hold_a_finished_command() {
    each_user(|stage| {
        let words = shell("setsid sleep 300 & (sleep 300 &) ; exit 0");
        let (finished, document) = run_json(stage, &[], &words);
        finished.assert_code(0);
        assert!(finished.elapsed < Duration::from_secs(10), "{finished}");
        let expected = json!({
            "status": "succeeded",
            "exitCode": 0,
            "treeSettlement": "reaped",
            "residualProcessesReaped": true,
            "survivorsTotal": 2,
            "residualPids": [],
        });
        assert_fields(&document, &expected);
        for survivor in document["survivors"].as_array().expect("a list") {
            assert_eq!(survivor["command"], "sleep", "{document:#}");
        }
        assert_eq!(survivor_pids(&document).len(), 2);
        assert_eq!(living_commands(stage), Vec::<String>::new());
    });
}

#[test]
fn people_are_told_on_stderr_only() {
    let stage = Stage::new();
    let finished = run(&stage, &[], &shell("sleep 300 & echo out; exit 0")).finish();
    finished
        .assert_code(0)
        .assert_stdout("out\n")
        .assert_complains("sleep");
    assert_eq!(living_commands(&stage), Vec::<String>::new());
}

#[test]
fn quiet_says_nothing_of_survivors() {
    let stage = Stage::new();
    let finished = run(&stage, &["--quiet"], &shell("sleep 300 & echo out; exit 0")).finish();
    finished
        .assert_code(0)
        .assert_stdout("out\n")
        .assert_stderr("");
    assert_eq!(living_commands(&stage), Vec::<String>::new());
}

#[test]
fn every_shape_is_gone_when_the_run_returns() {
    let shapes: [&[&str]; 4] = [
        &["escape-setsid", "ignore", "3"],
        &["daemonise", "ignore", "3"],
        &["hold-pipe", "3"],
        &["spawn-tree", "mixed", "40"],
    ];
    each_user(|stage| {
        for shape in shapes {
            let (words, ready) = fixture(stage, &[&["--exit", "3"], shape].concat());
            let (finished, document) = run_json(stage, &["--grace", "200ms"], &words);
            finished.assert_code(3);
            let pids = fixture_pids(&ready);
            let alive: Vec<_> = pids.iter().filter(|pid| wait::is_alive(**pid)).collect();
            assert!(alive.is_empty(), "{alive:?} live after {shape:?}");
            let mut members: Vec<u64> = pids[1..].iter().map(|pid| u64::from(*pid)).collect();
            members.sort_unstable();
            assert_eq!(survivor_pids(&document), members, "{shape:?}");
            assert_fields(
                &document,
                &json!({ "treeSettlement": "reaped", "exitCode": 3 }),
            );
        }
    });
}

#[test]
fn descendants_may_be_waited_for() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["--ttl", "1", "--exit", "3", "daemonise", "2"]);
    let (finished, document) = run_json(&stage, &["--descendants", "wait"], &words);
    finished.assert_code(3);
    assert!(fixture_pids(&ready).iter().all(|pid| !wait::is_alive(*pid)));
    let expected = json!({ "exitCode": 3, "stop": null, "residualProcessesReaped": false });
    assert_fields(&document, &expected);
}

#[test]
fn output_of_descendants_that_are_waited_for_is_kept() {
    let stage = Stage::new();
    let script = "(while [ -d /proc/$$ ]; do :; done; echo late) & exit 4";
    let finished = run(&stage, &["--descendants", "wait"], &shell(script)).finish();
    finished.assert_code(4).assert_stdout("late\n");
}
