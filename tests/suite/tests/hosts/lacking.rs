//! Kernels without a feature: the helper is that of this very source, built so that the feature is missing to it.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use xioflow_kit::{Finished, Stage, each_user, wait};

use crate::hidden::program;
use crate::world::{MISSING, Proc, World, assert_fields, text};

/// What a kernel may lack.
const FEATURES: [&str; 3] = ["children", "pidfd", "children,pidfd"];

/// A program that becomes the helper of a kernel without these.
fn helper_without(stage: &Stage, features: &str) -> PathBuf {
    let helper = stage.program("xioflow-lacking-helper");
    let script = format!(
        "#!/bin/sh\nexec env -i XIOFLOW_TEST_WITHOUT={features} {}\n",
        text(&helper)
    );
    stage.write(&format!("helper-without-{features}"), script, 0o755)
}

fn run(stage: &Stage, features: &str, options: &[&str], command: &[&str]) -> Finished {
    let fixed = ["run", "--no-arbiter", "--json"];
    stage
        .xioflow()
        .env("XIOFLOW_REAPER_PATH", helper_without(stage, features))
        .args([&fixed[..], options, &["--"], command].concat())
        .finish()
}

/// The program under test must lack what it is said to lack: it reads the variable, and the shipped one does not.
#[test]
fn only_the_helper_of_tests_can_lack_anything() {
    let stage = Stage::new();
    let reads = |name| {
        let program = fs::read(stage.program(name)).expect("a program");
        let variable = b"XIOFLOW_TEST_WITHOUT";
        program
            .windows(variable.len())
            .any(|found| found == variable)
    };
    assert!(reads("xioflow-lacking-helper"));
    assert!(!reads("xioflow-reaper") && !reads("xioflow"));
}

#[test]
fn every_survivor_is_ended_and_named() {
    let shapes = [
        &["spawn-tree", "mixed", "20"][..],
        &["escape-setsid", "3"],
        &["headless", "2"],
    ];
    each_user(|stage| {
        for (features, shape) in FEATURES
            .iter()
            .flat_map(|features| shapes.map(|shape| (*features, shape)))
        {
            let (fixture, ready) = (stage.fixture(), stage.path("ready"));
            let fixed = [text(&fixture), "--exit", "3", "--ready", text(&ready)];
            let finished = run(stage, features, &[], &[&fixed[..], shape].concat());
            let pids = stage.wait_ready(&ready);
            assert!(pids.iter().all(|pid| !wait::is_alive(*pid)), "{finished}");
            let result = finished.assert_code(3).json();
            let expected = json!({
                "scope": "subreaper_tree", "treeSettlement": "reaped", "residualPids": [],
                "survivorsTotal": pids.len() - 1,
            });
            assert_fields(&result, &expected);
            assert_eq!(
                named(&result),
                pids.len() - 1,
                "without {features}: {result:#}"
            );
            fs::remove_file(&ready).expect("a ready file");
        }
    });
}

fn named(result: &Value) -> usize {
    result["survivors"].as_array().map_or(0, Vec::len)
}

/// Who left the group is looked for, and gets the chance that the others get.
#[test]
fn a_gentle_signal_reaches_who_left_the_group() {
    each_user(|stage| {
        for features in FEATURES {
            let mark = stage.path("mark");
            // Its parent lives and is deaf, so it is no child of the helper.
            let script = format!(
                "setsid sh -c 'trap \"echo asked >{}; exit\" TERM; sleep 60 & wait' & trap '' TERM; wait",
                text(&mark)
            );
            let options = ["--timeout", "1s", "--grace", "5s"];
            let finished = run(stage, features, &options, &["sh", "-c", &script]);
            let asked = fs::read_to_string(&mark).unwrap_or_default();
            assert_eq!(asked, "asked\n", "without {features}: {finished}");
            fs::remove_file(mark).expect("a file");
        }
    });
}

/// Neither a list of children nor a `/proc` that shows everybody: what was adopted is found by its number.
#[test]
fn children_that_nothing_lists_are_found_and_ended() {
    let stage = Stage::ordinary();
    let Some(world) = World::new(&stage, Proc::Hiding) else {
        eprintln!("{MISSING}");
        return;
    };
    let secret = program(&stage, "/bin/sleep", "secret", 0o711);
    let secret = text(&secret);
    let helper = helper_without(&stage, "children,pidfd");
    let script = format!("setsid {secret} 60 & setsid {secret} 61 & exit 3");
    let words = ["run", "--no-arbiter", "--json", "--", "sh", "-c", &script];
    let finished = world
        .run(stage.program("xioflow"), &words)
        .env("XIOFLOW_REAPER_PATH", &helper)
        .finish();
    let expected = json!({
        "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 2,
        "residualPids": [],
    });
    assert_fields(&finished.assert_code(3).json(), &expected);
}
