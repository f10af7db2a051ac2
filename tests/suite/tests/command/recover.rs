//! `recover`: what an owner left is settled and explained; a dry run only says what would be.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Finished, Run, Stage, each_user, wait};

use crate::{assert_fields, run, run_alone, shell, text};

fn recover(stage: &Stage, options: &[&str]) -> Finished {
    stage.xioflow().arg("recover").args(options).finish()
}

fn people(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stdout).into_owned()
}

/// The process ids of an operation's helper and of its command.
fn processes(stage: &Stage, id: &str) -> [u32; 2] {
    let shown = stage.xioflow().args(["show", id, "--json"]).finish().json();
    ["holder", "processIdentity"].map(|of| {
        let pid = shown[of]["pid"].as_u64().expect("a process id");
        u32::try_from(pid).expect("a process id")
    })
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
    kill_process(pid, signal).expect("it lives");
}

/// Leaves an operation whose owner was killed; its helper ends it.
pub(crate) fn leave_settled(stage: &Stage, id: &str) {
    let ready = stage.path(format!("ready-{id}"));
    let script = format!(": > {}; exec sleep 600", text(&ready));
    let started = run_alone(stage, &["--op", id], &shell(&script)).start();
    wait::file(&ready, Deadline::usual());
    started.signal(Signal::KILL);
    drop(started.finish());
    assert!(stage.wait_empty(Deadline::usual()), "{:?}", stage.living());
}

/// Leaves an operation whose owner and helper were killed at once, so that nobody has seen its end. Its command
/// lives, and holds a lease. Returns the command's process id.
pub(crate) fn leave_unknown(stage: &Stage, id: &str, lease: &str) -> u32 {
    let ready = ready(stage, id);
    let started = again_unknown(stage, id, lease).start();
    wait::file(&ready, Deadline::usual());
    let [helper, command] = processes(stage, id);
    stage.watch(&[command]);
    // Stopped, it cannot notice the end of its supervisor before its own.
    wait::halt(helper);
    started.signal(Signal::KILL);
    drop(started.finish());
    signal(helper, Signal::KILL);
    assert!(wait::pid_gone(helper, Deadline::usual()));
    assert!(wait::is_alive(command));
    command
}

/// The same submission as that of [`leave_unknown`].
pub(crate) fn again_unknown<'a>(stage: &'a Stage, id: &str, lease: &str) -> Run<'a> {
    let script = format!("echo out; : > {}; exec sleep 600", text(&ready(stage, id)));
    run_alone(stage, &["--op", id, "--lease", lease], &shell(&script))
}

fn ready(stage: &Stage, id: &str) -> PathBuf {
    stage.path(format!("ready-{id}"))
}

/// Every file of the domain that SQLite does not need to read it.
fn content(stage: &Stage) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for folder in ["", "artifacts", "holders"] {
        for entry in fs::read_dir(stage.domain().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let of_readers = path
                .extension()
                .is_some_and(|it| it == "db-shm" || it == "db-wal");
            if path.is_file() && !of_readers {
                all.push((path.clone(), fs::read(&path).expect("readable")));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn where_nothing_was_left_there_is_nothing_to_say() {
    let stage = Stage::new();
    recover(&stage, &[])
        .assert_code(73)
        .assert_complains("there is no domain");
    assert!(!stage.domain().exists(), "none was made");
    run(&stage, &[], &["true"]).finish().assert_code(0);
    stage.end_arbiters();
    recover(&stage, &[])
        .assert_code(0)
        .assert_stdout("nothing to recover\n");
    let dry = recover(&stage, &["--dry-run"]);
    dry.assert_code(0)
        .assert_stdout("nothing would have to be recovered\n");
    let document = recover(&stage, &["--json"]).assert_code(0).json();
    let expected =
        json!({ "source": "recovered", "decisions": [], "waiting": [], "waitingTotal": 0 });
    assert_fields(&document, &expected);
}

#[test]
fn what_a_helper_saw_is_told_with_its_evidence() {
    each_user(|stage| {
        leave_settled(stage, "lost");
        let before = content(stage);
        let dry = recover(stage, &["--dry-run", "--json"])
            .assert_code(0)
            .json();
        assert_eq!(dry["source"], "preview");
        assert!(content(stage) == before, "a byte has changed");
        let told = recover(stage, &["--dry-run"]);
        assert!(people(&told).contains("1 operation of an earlier owner would be settled\n"));

        let recovered = recover(stage, &["--json"]).assert_code(0).json();
        assert_eq!(recovered["source"], "recovered");
        assert_eq!(
            recovered["decisions"], dry["decisions"],
            "as it was foreseen"
        );
        let decision = &recovered["decisions"][0];
        let expected = json!({ "operationId": "lost", "verdict": "settled_by_last_word", "status": "failed",
                               "leases": "freed", "signalled": [] });
        assert_fields(decision, &expected);
        assert!(
            !decision["evidence"]
                .as_str()
                .expect("a sentence")
                .is_empty()
        );
        recover(stage, &[])
            .assert_code(0)
            .assert_stdout("nothing to recover\n");
    });
}

#[test]
fn what_nobody_saw_waits_for_a_person_as_long_as_nobody_has_decided() {
    each_user(|stage| {
        let command = leave_unknown(stage, "lost", "port:8080");
        let before = content(stage);
        let dry = recover(stage, &["--dry-run"]);
        dry.assert_code(79);
        let told = people(&dry);
        assert!(told.contains("operation lost "), "{told}");
        assert!(told.contains("  evidence:"), "{told}");
        assert!(
            !told.contains("has ended all of it"),
            "nothing was done yet: {told}"
        );
        assert!(told.contains("its leases are kept\n"), "{told}");
        assert!(wait::is_alive(command), "a preview signals nobody");
        assert!(content(stage) == before, "a byte has changed");

        let recovered = recover(stage, &["--json"]).assert_code(79).json();
        assert!(
            wait::pid_gone(command, Deadline::usual()),
            "what is identified is ended"
        );
        let decision = &recovered["decisions"][0];
        let expected = json!({ "operationId": "lost", "verdict": "stopped_alive_process",
                               "status": "indeterminate", "leases": "kept", "stdoutBytes": 4 });
        assert_fields(decision, &expected);
        assert!(
            decision["signalled"]
                .as_array()
                .expect("pids")
                .contains(&json!(command))
        );
        let waiting = &recovered["waiting"][0];
        assert_fields(
            waiting,
            &json!({ "operationId": "lost", "leases": ["port:8080"] }),
        );
        let guidance = waiting["guidance"].as_str().expect("advice");
        assert!(
            guidance.contains("xioflow adjudicate lost confirmed_stopped"),
            "{guidance}"
        );

        // It changes nothing a second time, and says again what waits.
        let again = recover(stage, &[]);
        again.assert_code(79);
        let told = people(&again);
        assert!(
            told.starts_with("nothing to recover\n\noperation lost waits for a decision\n"),
            "{told}"
        );
        assert!(told.contains("  keeps:    port:8080\n"), "{told}");
        let (_, document) = (
            again,
            stage.xioflow().args(["status", "--json"]).finish().json(),
        );
        assert_eq!(document["indeterminateTotal"], 1);
    });
}

#[test]
fn an_owner_is_left_alone_and_its_report_is_shown() {
    let stage = Stage::new();
    leave_settled(&stage, "lost");
    let detached = ["--detach", "--quiet", "--op", "live"];
    run(&stage, &detached, &["sleep", "600"])
        .finish()
        .assert_code(0);
    for options in [&["--json"][..], &["--json", "--dry-run"]] {
        let document = recover(&stage, options).assert_code(0).json();
        let expected = json!({ "source": "last_report", "waitingTotal": 0 });
        assert_fields(&document, &expected);
        assert_eq!(document["owner"]["state"], "held");
        let ids: Vec<&Value> = decisions(&document)
            .iter()
            .map(|it| &it["operationId"])
            .collect();
        assert_eq!(ids, ["lost"], "what it runs is no work of recovery");
    }
    stage
        .xioflow()
        .args(["cancel", "live", "--wait"])
        .finish()
        .assert_code(0);
    stage.end_arbiters();

    let ready = stage.path("ready");
    let script = format!(": > {}; exec sleep 600", text(&ready));
    let started = run_alone(&stage, &["--op", "alone"], &shell(&script)).start();
    wait::file(&ready, Deadline::usual());
    for options in [&[][..], &["--dry-run"]] {
        let refused = recover(&stage, options);
        refused.assert_code(75);
        let told = people(&refused);
        assert!(
            told.starts_with(&format!("process {} owns the domain", started.pid())),
            "{told}"
        );
    }
    started.signal(Signal::INT);
    started.finish().assert_code(130);
}

fn decisions(document: &Value) -> &[Value] {
    document["decisions"].as_array().expect("decisions")
}

#[test]
fn a_preview_needs_no_right_to_write() {
    let stage = Stage::ordinary();
    leave_settled(&stage, "lost");
    run_alone(&stage, &["--quiet", "--op", "after"], &["true"])
        .finish()
        .assert_code(0);
    leave_settled(&stage, "later");
    // As on a medium that is mounted read-only, after a clean copy.
    for name in ["domain.db-shm", "domain.db-wal"] {
        let path = stage.domain().join(name);
        if fs::metadata(&path).is_ok_and(|it| it.len() == 0) {
            fs::remove_file(path).expect("removed");
        }
    }
    let mode = |mode| {
        fs::set_permissions(stage.domain(), fs::Permissions::from_mode(mode)).expect("chmod");
    };
    mode(0o500);
    let dry = recover(&stage, &["--dry-run", "--json"]);
    let refused = recover(&stage, &[]);
    mode(0o700);
    let document = dry.assert_code(0).json();
    assert_eq!(decisions(&document)[0]["operationId"], "later");
    refused.assert_code(73);
}
