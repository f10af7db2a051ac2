//! Limits on what a command may use: what cannot be meant, what cannot be enforced, and what is watched where no control
//! group counts.

use serde_json::{Value, json};
use xioflow_kit::{Finished, Stage, each_user};

use crate::{assert_fields, fixture, living_commands, run, run_json, shell, text};

const USAGE: i32 = 64;
const UNAVAILABLE: i32 = 69;
const CONFLICT: i32 = 76;
const SIGTERM_STATUS: i32 = 143;

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

/// Drivers without a control group, for whom processes are looked at.
const WITHOUT_GROUP: &str = "reaper";

/// Runs a fixture with soft or observed limits and without a control group.
fn watched(stage: &Stage, options: &[&str], words: &[&str]) -> (Finished, Value) {
    let options = [&["--json", "--driver", WITHOUT_GROUP], options].concat();
    let program = stage.fixture();
    let command = [&[text(&program)], words].concat();
    let finished = run(stage, &options, &command).finish();
    let document = finished.json();
    (finished, document)
}

const SOFT: [&str; 2] = ["--limits", "soft"];

fn number(document: &Value, pointer: &str) -> u64 {
    let number = document.pointer(pointer).and_then(Value::as_u64);
    number.unwrap_or_else(|| panic!("no {pointer} in {document:#}"))
}

#[test]
fn a_memory_hog_that_is_watched_is_stopped_and_says_so() {
    each_user(|stage| {
        let options = [&SOFT[..], &["--memory", "64MiB"]].concat();
        let (finished, document) = watched(stage, &options, &["hog-memory", "209715200"]);
        finished.assert_code(SIGTERM_STATUS);
        assert_fields(
            &document,
            &json!({
                "status": "failed", "terminationReason": "memory_exceeded", "signal": "SIGTERM",
                "treeSettlement": "empty", "resourceSamplingError": null, "limitEvents": null,
            }),
        );
        assert_fields(
            &document["limits"],
            &json!({
                "maxMemoryBytes": 64 << 20, "maxPids": null, "enforcement": "soft",
                "means": {"memory": "sampling"}, "reached": ["memory"],
            }),
        );
        assert_eq!(document["usage"]["source"], "sampling");
        assert!(number(&document, "/usage/memoryPeakBytes") > 64 << 20);
        finished.assert_complains("memory limit of 64.0 MiB");
    });
}

#[test]
fn a_command_that_makes_too_many_processes_is_stopped_and_all_of_them_are_gone() {
    let stage = Stage::new();
    let script = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; wait";
    let options = [
        "--driver",
        WITHOUT_GROUP,
        "--limits",
        "soft",
        "--pids",
        "20",
    ];
    let (finished, document) = run_json(&stage, &options, &shell(script));
    finished.assert_complains("limit of 20 processes");
    assert_fields(
        &document,
        &json!({"status": "failed", "terminationReason": "pids_exceeded"}),
    );
    assert_eq!(document["limits"]["reached"], json!(["pids"]));
    assert!(number(&document, "/usage/pidsPeak") > 20);
    assert_eq!(living_commands(&stage), Vec::<String>::new());
}

#[test]
fn a_busy_loop_that_is_watched_has_its_processor_time_and_no_more() {
    let stage = Stage::new();
    let options = [&SOFT[..], &["--cpu-time", "400ms"]].concat();
    let (finished, document) = watched(&stage, &options, &["burn-cpu"]);
    finished.assert_code(SIGTERM_STATUS);
    finished.assert_complains("processor time");
    assert_eq!(document["terminationReason"], "cpu_exceeded");
    assert!(number(&document, "/cpuTimeMs") >= 400);
}

/// No process of this tree has used much when it is looked at.
#[test]
fn processor_time_of_those_that_have_ended_counts() {
    let stage = Stage::new();
    let script = format!("while :; do {} burn-cpu 40; done", text(&stage.fixture()));
    let options = [
        "--driver",
        WITHOUT_GROUP,
        "--limits",
        "soft",
        "--cpu-time",
        "400ms",
    ];
    let (_, document) = run_json(&stage, &options, &shell(&script));
    assert_eq!(
        document["terminationReason"], "cpu_exceeded",
        "{document:#}"
    );
}

#[test]
fn what_stays_within_its_limits_is_left_alone() {
    let stage = Stage::new();
    let options = [
        &SOFT[..],
        &["--memory", "512MiB", "--pids", "20", "--cpu-time", "30s"],
    ]
    .concat();
    let (finished, document) = watched(&stage, &options, &["burn-cpu", "300"]);
    finished.assert_code(0);
    assert_fields(
        &document,
        &json!({"status": "succeeded", "terminationReason": "completed"}),
    );
    assert_eq!(document["limits"]["reached"], json!([]));
    assert!(number(&document, "/usage/memoryPeakBytes") > 0);
}

/// Six processes that share 40 MiB have 40 MiB, and not 240.
#[test]
fn shared_memory_counts_once() {
    let stage = Stage::new();
    let (words, _) = fixture(&stage, &["hog-memory", "41943040", "5"]);
    let script = format!(
        "{} & while [ ! -e ready ]; do :; done; {} burn-cpu 500; kill $!",
        words.join(" "),
        text(&stage.fixture())
    );
    let options = [
        "--driver",
        WITHOUT_GROUP,
        "--limits",
        "soft",
        "--memory",
        "120MiB",
    ];
    let (finished, document) = run_json(&stage, &options, &shell(&script));
    finished.assert_code(0);
    assert_eq!(document["limits"]["reached"], json!([]), "{document:#}");
    assert!(number(&document, "/usage/pidsPeak") >= 7);
}

#[test]
fn what_is_only_observed_ends_by_itself_and_says_what_it_was_too_much_of() {
    let stage = Stage::new();
    let fixture = stage.fixture();
    let fixture = text(&fixture);
    let script = format!("{fixture} hog-memory 20971520 & {fixture} burn-cpu 500; kill $!; wait");
    let limits = [
        "--memory",
        "10MiB",
        "--pids",
        "9",
        "--cpu-time",
        "100ms",
        "--cpus",
        "1",
    ];
    let options = [
        &["--driver", WITHOUT_GROUP, "--limits", "observe"],
        &limits[..],
    ]
    .concat();
    let (finished, document) = run_json(&stage, &options, &shell(&script));
    finished.assert_code(0).assert_stderr("");
    assert_eq!(document["status"], "succeeded");
    assert_eq!(document["limits"]["reached"], json!(["memory", "cpu_time"]));
    assert_eq!(document["limits"]["means"]["cpus"], "recorded");
}

/// Who has the id again is answered from the record, with all of it.
#[test]
fn what_was_used_is_on_record_and_other_limits_are_another_operation() {
    let stage = Stage::new();
    let base = ["--op", "hog", "--limits", "soft", "--memory", "64MiB"];
    let words = ["hog-memory", "209715200"];
    let (_, first) = watched(&stage, &base, &words);
    let (finished, again) = watched(&stage, &base, &words);
    finished.assert_code(SIGTERM_STATUS);
    assert_eq!(again["reused"], "replayed_recorded");
    for field in ["limits", "usage", "terminationReason"] {
        assert_eq!(first[field], again[field]);
    }
    let shown = stage.xioflow().args(["show", "hog"]).finish();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        text.contains("memoryPeakBytes") && text.contains("maxMemoryBytes"),
        "{shown}"
    );
    let other = ["--op", "hog", "--limits", "soft", "--memory", "65MiB"];
    watched(&stage, &other, &words).0.assert_code(CONFLICT);
}
