//! `prune`: stored output is removed by age and size, and what is asked of it afterwards gets an answer.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Finished, Stage, each_user, wait};

use crate::{assert_fields, run, run_alone, run_json, sha256, shell};

/// More than the journal takes, so it stays in a file.
const LEN: usize = 108_894;

/// Prints [`LEN`] bytes as the operation of this id, through the arbiter.
fn print(stage: &Stage, id: &str) -> Value {
    let (finished, document) = run_json(stage, &["--op", id], &shell("seq 1 20000"));
    finished.assert_code(0);
    document
}

fn prune(stage: &Stage, options: &[&str]) -> Finished {
    stage.xioflow().arg("prune").args(options).finish()
}

fn artifact(stage: &Stage, id: &str) -> PathBuf {
    stage.domain().join(format!("artifacts/{id}-stdout.log"))
}

/// Every file below a folder with what is in it.
fn content(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.push((path.clone(), fs::read(&path).ok()));
        }
    }
    all.sort();
    all
}

#[test]
fn what_was_pruned_is_told_wherever_it_is_asked_for() {
    each_user(|stage| {
        let before = print(stage, "old");
        print(stage, "new");
        let limit = LEN.to_string();
        let pruned = prune(stage, &["--max-bytes", &limit, "--json"]);
        let document = pruned.assert_code(0).json();
        let expected = json!({
            "dryRun": false,
            "removed": [{
                "operationId": "old", "stream": "stdout", "artifact": "old-stdout.log",
                "bytes": LEN, "reason": "size",
            }],
            "removedTotal": { "files": 1, "bytes": LEN },
            "unknown": [],
            "bytesBefore": 2 * LEN,
            "bytesAfter": LEN,
        });
        assert_fields(&document, &expected);
        assert!(!artifact(stage, "old").exists() && artifact(stage, "new").exists());

        for words in [
            &["logs", "old"][..],
            &["logs", "old", "--text"],
            &["logs", "old", "--both"],
        ] {
            let logs = stage.xioflow().args(words).finish();
            logs.assert_code(1).assert_stdout("");
            logs.assert_complains("stdout of operation old was pruned on 20");
            logs.assert_complains(", by size");
        }
        let shown = stage.xioflow().args(["show", "old", "--json"]).finish();
        let result = &shown.assert_code(0).json()["result"];
        let expected = json!({
            "stdoutRef": null, "outputRef": null, "spillError": null,
            "stdoutBytes": LEN, "stdoutLines": 20000, "stdoutHash": before["stdoutHash"],
            "stderrPrunedAt": null,
        });
        assert_fields(result, &expected);
        assert!(
            result["stdoutPrunedAt"]
                .as_str()
                .expect("a time")
                .starts_with("20")
        );
        let people = stage.xioflow().args(["show", "old"]).finish();
        assert!(String::from_utf8_lossy(&people.stdout).contains("stdoutPrunedAt: 20"));

        // The result is given again all the same.
        let again = run(stage, &["--op", "old"], &shell("seq 1 20000")).finish();
        again
            .assert_code(0)
            .assert_stdout("")
            .assert_complains("was pruned on");
        let attached = stage.xioflow().args(["attach", "old"]).finish();
        attached.assert_code(0).assert_complains("was pruned on");
        let (_, again) = run_json(
            stage,
            &["--op", "old", "--text-view"],
            &shell("seq 1 20000"),
        );
        assert_eq!(again["stdoutPrunedAt"], result["stdoutPrunedAt"]);
        assert_eq!(
            stage.xioflow().args(["logs", "new"]).finish().stdout.len(),
            LEN
        );

        let events = stage
            .xioflow()
            .args(["events", "--op", "old", "--json"])
            .finish();
        let events = events.json();
        let event = events["events"]
            .as_array()
            .expect("events")
            .iter()
            .find(|it| it["type"] == "OUTPUT_PRUNED");
        let payload = &event.expect("recorded")["payload"];
        let expected = json!({ "stream": "stdout", "artifact": "old-stdout.log", "reason": "size",
                               "bytes": LEN, "sha256": sha256(&numbers()) });
        assert_eq!(payload, &expected);
    });
}

fn numbers() -> Vec<u8> {
    (1..=20_000)
        .map(|at| format!("{at}\n"))
        .collect::<String>()
        .into()
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_go() {
    each_user(|stage| {
        print(stage, "one");
        fs::write(stage.domain().join("artifacts/notes"), "12345").expect("a stranger's file");
        stage.end_arbiters();
        // A first reader leaves SQLite's memory and an empty log.
        stage.xioflow().arg("list").finish().assert_code(0);
        let before = content(&stage.domain());
        let dry = prune(stage, &["--max-bytes", "0", "--dry-run", "--json"]);
        let dry = dry.assert_code(0).json();
        let people = prune(stage, &["--max-age", "0s", "--dry-run"]);
        people.assert_code(0).assert_stderr("");
        let told = String::from_utf8_lossy(&people.stdout).into_owned();
        assert!(
            told.starts_with("would remove 1 file, 106.3 KiB\n  stdout of one, "),
            "{told}"
        );
        assert!(
            told.contains("1 file, 5 bytes that nothing in the record explains\n  notes\n"),
            "{told}"
        );
        assert!(content(&stage.domain()) == before, "a byte has changed");

        let real = prune(stage, &["--max-bytes", "0", "--json"]);
        let mut real = real.assert_code(0).json();
        real["dryRun"] = json!(true);
        assert_eq!(real, dry);
        assert!(stage.domain().join("artifacts/notes").exists());
    });
}

#[test]
fn an_owner_is_not_disturbed_by_a_dry_run_and_its_output_is_kept() {
    let stage = Stage::new();
    let script = "seq 1 20000; echo ready >&2; exec sleep 600";
    let mut started = run_alone(&stage, &["--op", "running"], &shell(script)).start();
    started.wait_for_complaint(b"ready");
    let dry = prune(&stage, &["--max-bytes", "0", "--dry-run", "--json"])
        .assert_code(0)
        .json();
    assert_eq!(dry["removedTotal"]["files"], 0);
    assert_eq!(dry["kept"]["unfinished"]["files"], 2, "{dry:#}");
    let busy = prune(&stage, &["--max-bytes", "0"]);
    busy.assert_code(75).assert_complains("process");
    assert!(artifact(&stage, "running").exists());
    started.signal(Signal::INT);
    started.finish().assert_code(130);
    prune(&stage, &["--max-bytes", "0"]).assert_code(0);
    assert!(!artifact(&stage, "running").exists());
}

#[test]
fn there_has_to_be_a_domain_and_something_to_go_by() {
    let stage = Stage::new();
    let none = prune(&stage, &["--max-age", "7d"]);
    none.assert_code(73).assert_complains("there is no domain");
    assert!(!stage.domain().exists(), "none was made");
    prune(&stage, &[])
        .assert_code(64)
        .assert_complains("--max-age");
    let json = prune(&stage, &["--max-bytes", "much", "--json"]);
    assert_eq!(json.assert_code(64).json()["error"]["kind"], "usage");
}

#[test]
fn a_file_that_cannot_be_removed_is_named_and_removed_the_next_time() {
    let stage = Stage::ordinary();
    print(&stage, "op");
    stage.end_arbiters();
    let folder = stage.domain().join("artifacts");
    let mode = |mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    mode(0o500);
    let failed = prune(&stage, &["--max-bytes", "0"]);
    mode(0o700);
    failed
        .assert_code(70)
        .assert_complains("op-stdout.log, which is recorded as pruned");
    assert!(artifact(&stage, "op").exists());
    prune(&stage, &["--max-bytes", "0"]).assert_code(0);
    assert!(!artifact(&stage, "op").exists());
}

/// Killed at any moment, a pruning leaves each file either whole and unpruned, or on its way out.
#[test]
fn a_killed_pruning_is_finished_by_the_next() {
    let stage = Stage::new();
    for at in 0..30 {
        let (id, script) = (format!("op-{at:02}"), "seq 1 20000");
        run(&stage, &["--op", &id, "--quiet"], &shell(script))
            .finish()
            .assert_code(0);
    }
    stage.end_arbiters();
    let folder = stage.domain().join("artifacts");
    let files = || fs::read_dir(&folder).expect("the folder").count();
    let started = stage.xioflow().args(["prune", "--max-bytes", "0"]).start();
    wait::in_folder(&folder, Deadline::usual(), || (files() < 30).then_some(())).expect("begun");
    started.signal(Signal::KILL);
    drop(started.finish());

    let listed = stage
        .xioflow()
        .args(["list", "--json", "--limit", "100"])
        .finish()
        .json();
    run_alone(&stage, &["--quiet"], &["true"])
        .finish()
        .assert_code(0);
    for operation in listed["operations"].as_array().expect("operations") {
        let id = operation["operationId"].as_str().expect("an id");
        let shown = stage.xioflow().args(["show", id, "--json"]).finish().json();
        let (file, result) = (artifact(&stage, id), &shown["result"]);
        let is_pruned = !result["stdoutPrunedAt"].is_null();
        assert_eq!(file.exists(), !is_pruned, "{id}");
        assert_eq!(result["stdoutRef"].is_null(), is_pruned, "{id}");
        assert_eq!(result["spillError"], Value::Null, "{id}");
    }
    prune(&stage, &["--max-bytes", "0"]).assert_code(0);
    assert_eq!(files(), 0);
}

#[test]
fn a_quota_is_an_option_of_the_arbiter_and_of_whoever_owns_the_domain() {
    let stage = Stage::new();
    let limit = "400KB";
    let options = ["--max-artifacts", limit];
    for at in 0..6 {
        let id = format!("alone-{at}");
        let options = [&options[..], &["--op", &id, "--json"]].concat();
        let finished = run_alone(&stage, &options, &shell("seq 1 20000")).finish();
        assert_eq!(finished.assert_code(0).json()["stdoutGap"], Value::Null);
    }
    let stored = || -> u64 {
        let entries = fs::read_dir(stage.domain().join("artifacts")).expect("the folder");
        entries
            .map(|it| it.expect("an entry").metadata().expect("a file").len())
            .sum()
    };
    assert!(stored() <= 400_000);
    let logs = stage.xioflow().args(["logs", "alone-0"]).finish();
    logs.assert_code(1)
        .assert_complains("to make room for a new operation");
    for at in 0..6 {
        let id = format!("shared-{at}");
        let finished = run(&stage, &["--op", &id, "--json"], &shell("seq 1 20000"))
            .env("XIOFLOW_MAX_ARTIFACTS", limit)
            .finish();
        assert_eq!(finished.assert_code(0).json()["stdoutGap"], Value::Null);
    }
    assert!(stored() <= 400_000);
    let status = stage.xioflow().args(["status", "--json"]).finish().json();
    assert_eq!(status["arbiter"]["artifactMaxBytes"], 400_000);
    let wrong = run_alone(&stage, &[], &["true"])
        .env("XIOFLOW_MAX_ARTIFACTS", "lots")
        .finish();
    wrong
        .assert_code(64)
        .assert_complains("XIOFLOW_MAX_ARTIFACTS is no size");
    run(&stage, &options, &["true"])
        .finish()
        .assert_code(64)
        .assert_complains("--no-arbiter");
}
