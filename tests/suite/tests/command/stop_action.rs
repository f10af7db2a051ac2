//! `run --stop-action`: what is declared to end work that a command gave to others, and what becomes of it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Stage, each_user, wait};

use crate::delegated::{Tmux, client, daemon, end};
use crate::recover::signal;
use crate::{assert_fields, living_commands, run, run_alone, run_json, shell, text};

fn shown(stage: &Stage, id: &str) -> Value {
    let shown = stage.xioflow().args(["show", id, "--json"]).finish();
    shown.assert_code(0);
    shown.json()["result"].clone()
}

/// Whoever is asked to end because the time is over may say by status 0 that it did.
#[test]
fn one_that_was_ended_by_its_time_limit_has_not_succeeded() {
    let stage = Stage::new();
    let action = "trap 'exit 0' TERM; while :; do sleep 1; done";
    let options = ["--timeout", "200ms", "--stop-action-timeout", "300ms"];
    let options = [&options[..], &["--stop-action", action]].concat();
    let (finished, document) = run_json(&stage, &options, &["sleep", "60"]);
    finished
        .assert_code(124)
        .assert_complains("did not end in its time");
    let expected = json!({ "ran": true, "exitCode": 0, "timedOut": true });
    assert_fields(&document["stopAction"], &expected);
    let guidance = &document["stopAction"]["guidance"];
    assert!(guidance.is_string(), "{document:#}");
}

/// A container engine whose client is told to end and cannot say it to anybody.
#[test]
fn it_ends_what_a_daemon_does_for_a_command_that_is_stopped() {
    each_user(|stage| {
        let (daemon, socket) = daemon(stage, "engine.sock");
        let (words, ready) = client(stage, &socket, &[]);
        let action = format!("{} recall {}", text(&stage.fixture()), text(&socket));
        let options = ["--timeout", "1500ms", "--stop-action", &action];
        let (finished, document) = run_json(stage, &options, &words);
        finished.assert_code(124);
        let worker = stage.wait_ready(&ready)[1];
        assert!(!wait::is_alive(worker), "{finished}");
        assert_fields(
            &document,
            &json!({ "status": "failed", "terminationReason": "timed_out", "treeSettlement": "empty" }),
        );
        let expected = json!({
            "words": action, "ran": true, "exitCode": 0, "signal": null, "timedOut": false,
            "treeSettlement": "empty", "guidance": null, "reason": null,
        });
        assert_fields(&document["stopAction"], &expected);
        assert_eq!(
            document["delegated"][0]["socket"],
            text(&socket),
            "{document:#}"
        );
        end(stage, daemon, &socket);
    });
}

#[test]
fn it_ends_a_window_of_a_tmux_that_ran_before() {
    let stage = Stage::new();
    let Some(tmux) = Tmux::start(&stage) else {
        return;
    };
    let socket = text(&tmux.socket);
    let action = format!("tmux -S {socket} kill-session -t build");
    let script =
        format!("tmux -S {socket} new-session -d -s build 'sleep 300'; echo up; exec sleep 300");
    let options = ["--op", "build", "--stop-action", &action];
    let mut started = run(&stage, &options, &shell(&script)).start();
    started.wait_for_output(b"up");
    assert!(tmux.tell(&["has-session", "-t", "build"]).is_some());
    started.signal(Signal::INT);
    let finished = started.finish();
    finished.assert_code(130);
    assert_eq!(
        shown(&stage, "build")["stopAction"]["exitCode"],
        0,
        "{finished}"
    );
    assert!(tmux.tell(&["has-session", "-t", "build"]).is_none());
    assert!(
        tmux.tell(&["has-session", "-t", "first"]).is_some(),
        "that is another's"
    );
}

#[test]
fn a_command_that_comes_to_its_own_exit_needs_none_unless_it_was_asked_for() {
    let stage = Stage::new();
    let trace = stage.path("trace");
    let action = format!("echo acted | tee -a {}", text(&trace));
    let options = ["--stop-action", action.as_str()];
    let (finished, document) = run_json(&stage, &options, &shell("exit 3"));
    finished.assert_code(3).assert_stderr("");
    let expected = json!({ "ran": false, "exitCode": null, "timedOut": null, "guidance": null });
    assert_fields(&document["stopAction"], &expected);
    assert!(!trace.exists(), "{finished}");
    let always = [&options[..], &["--stop-action-when", "always"]].concat();
    let (finished, document) = run_json(&stage, &always, &shell("exit 3"));
    finished.assert_code(3).assert_stderr("");
    let expected = json!({ "ran": true, "exitCode": 0, "stdout": "acted\n", "when": "always" });
    assert_fields(&document["stopAction"], &expected);
    // One that a signal ended could not do anything itself.
    let (finished, document) = run_json(&stage, &options, &shell("kill -9 $$"));
    finished.assert_code(137);
    assert_eq!(document["stopAction"]["ran"], true, "{document:#}");
    let (_, document) = run_json(&stage, &always, &["/nonexistent"]);
    assert_eq!(
        document["stopAction"]["ran"], false,
        "nothing ran: {document:#}"
    );
    assert_eq!(
        fs::read_to_string(trace).expect("a trace"),
        "acted\nacted\n"
    );
}

#[test]
fn it_has_the_folder_and_the_variables_of_the_command_and_no_input() {
    let stage = Stage::new();
    let folder = stage.folder("there");
    let options = [
        "--cwd",
        text(&folder),
        "--env",
        "NAME=build-7",
        "--stop-action-when",
        "always",
        "--stop-action",
        "pwd; echo $NAME; wc -c; umask",
    ];
    let (_, document) = run_json(&stage, &options, &shell("umask"));
    let umask = document["stdout"].as_str().expect("a mask");
    let expected = format!("{}\nbuild-7\n0\n{umask}", text(&folder));
    assert_eq!(document["stopAction"]["stdout"], expected, "{document:#}");
}

#[test]
fn one_that_fails_changes_nothing_of_the_end_and_is_told() {
    let stage = Stage::new();
    let options = [
        "--timeout",
        "200ms",
        "--stop-action",
        "echo no such container >&2; exit 7",
    ];
    let (finished, document) = run_json(&stage, &options, &["sleep", "60"]);
    finished.assert_code(124);
    assert_fields(
        &document,
        &json!({ "status": "failed", "terminationReason": "timed_out", "treeSettlement": "empty" }),
    );
    let action = &document["stopAction"];
    assert_fields(
        action,
        &json!({ "ran": true, "exitCode": 7, "stderr": "no such container\n" }),
    );
    assert!(action["guidance"].is_string(), "{document:#}");
    let finished = run(&stage, &options, &["sleep", "60"]).finish();
    finished
        .assert_code(124)
        .assert_complains("exit status 7: no such container");
}

/// Its own tree is held as that of a command is, and its time is bounded.
#[test]
fn one_that_does_not_end_is_ended_with_everything_that_it_started() {
    each_user(|stage| {
        let action = "setsid sleep 300 & trap '' TERM INT; sleep 300; sleep 300";
        let options = [
            "--timeout",
            "200ms",
            "--stop-action-timeout",
            "400ms",
            "--stop-action",
            action,
        ];
        let (finished, document) = run_json(stage, &options, &["sleep", "60"]);
        finished.assert_code(124);
        assert!(finished.elapsed < Duration::from_secs(15), "{finished}");
        let action = &document["stopAction"];
        let expected = json!({ "ran": true, "timedOut": true, "signal": "SIGKILL" });
        assert_fields(action, &expected);
        assert!(action["guidance"].is_string(), "{document:#}");
        assert_eq!(living_commands(stage), Vec::<String>::new());
    });
}

#[test]
fn what_it_leaves_in_the_background_is_ended() {
    let stage = Stage::new();
    let options = [
        "--stop-action-when",
        "always",
        "--stop-action",
        "setsid sleep 300 & exit 0",
    ];
    let (finished, document) = run_json(&stage, &options, &["true"]);
    finished.assert_code(0);
    assert_fields(
        &document["stopAction"],
        &json!({ "exitCode": 0, "treeSettlement": "reaped" }),
    );
    assert_eq!(living_commands(&stage), Vec::<String>::new());
}

#[test]
fn leases_are_kept_until_it_has_ended() {
    let stage = Stage::new();
    let (begun, go) = (stage.path("begun"), stage.path("go"));
    let action = format!(
        ": > {}; while [ ! -e {} ]; do sleep 0.01; done",
        text(&begun),
        text(&go)
    );
    let options = [
        "--op",
        "holds",
        "--lease",
        "port:1",
        "--timeout",
        "200ms",
        "--stop-action-timeout",
        "60s",
        "--stop-action",
        &action,
    ];
    let started = run(&stage, &options, &["sleep", "60"]).start();
    wait::file(&begun, Deadline::usual());
    let refused = run(&stage, &["--lease", "port:1"], &["true"]).finish();
    refused.assert_code(75).assert_complains("holds");
    fs::write(&go, "").expect("a file");
    started.finish().assert_code(124);
    run(&stage, &["--lease", "port:1"], &["true"])
        .finish()
        .assert_code(0);
}

#[test]
fn whoever_will_not_wait_for_it_ends_it() {
    let stage = Stage::new();
    let begun = stage.path("begun");
    let action = format!(
        "trap '' INT TERM; : > {}; while :; do sleep 1; done",
        text(&begun)
    );
    let options = [
        "--op",
        "slow",
        "--stop-action-timeout",
        "60s",
        "--stop-action",
        &action,
    ];
    let mut started = run(&stage, &options, &shell("echo up; exec sleep 60")).start();
    started.wait_for_output(b"up");
    started.signal(Signal::INT);
    wait::file(&begun, Deadline::usual());
    started.signal(Signal::INT);
    started.finish().assert_code(130);
    let action = shown(&stage, "slow")["stopAction"].clone();
    assert_fields(
        &action,
        &json!({ "ran": true, "signal": "SIGKILL", "timedOut": false }),
    );
    assert!(
        action["reason"].is_string() && action["guidance"].is_string(),
        "{action:#}"
    );
}

#[test]
fn it_runs_once_however_often_the_operation_is_asked_for() {
    let stage = Stage::new();
    let trace = stage.path("trace");
    let action = format!("echo acted >> {}", text(&trace));
    let again = || {
        let options = [
            "--op",
            "once",
            "--timeout",
            "200ms",
            "--stop-action",
            &action,
        ];
        let (finished, document) = run_json(&stage, &options, &["sleep", "60"]);
        finished.assert_code(124);
        document["stopAction"].clone()
    };
    assert_eq!(again(), again());
    assert_eq!(fs::read_to_string(trace).expect("a trace"), "acted\n");
    let other = [
        "--op",
        "once",
        "--timeout",
        "200ms",
        "--stop-action",
        "true",
    ];
    let refused = run(&stage, &other, &["sleep", "60"]).finish();
    refused.assert_code(76);
}

#[test]
fn without_an_action_its_options_are_mistakes() {
    let stage = Stage::new();
    for option in [
        ["--stop-action-when", "always"],
        ["--stop-action-timeout", "1s"],
    ] {
        run(&stage, &option, &["true"]).finish().assert_code(64);
    }
    let long = "x".repeat(5000);
    let refused = run(&stage, &["--stop-action", &long], &["true"]).finish();
    refused
        .assert_code(64)
        .assert_complains("put it into a script");
    // As from a variable that is not set.
    let empty = run(&stage, &["--stop-action", ""], &["true"]).finish();
    empty.assert_code(64).assert_complains("no words");
    let options = ["--stop-action", "true", "--stop-action-timeout", "0s"];
    let without_time = run(&stage, &options, &["true"]).finish();
    without_time.assert_code(64).assert_complains("no time");
}

/// Whoever ran it died before: recovery runs nothing, and says what a person can do.
#[test]
fn recovery_runs_no_action_and_says_so() {
    each_user(|stage| {
        let (ready, trace) = (stage.path("ready"), stage.path("trace"));
        let action = format!("echo acted >> {}", text(&trace));
        let script = format!(": > {}; exec sleep 600", text(&ready));
        let options = ["--op", "lost", "--stop-action", &action];
        let started = run_alone(stage, &options, &shell(&script)).start();
        wait::file(&ready, Deadline::usual());
        started.signal(Signal::KILL);
        drop(started.finish());
        assert!(stage.wait_empty(Deadline::usual()), "{:?}", stage.living());
        let dry = stage.xioflow().args(["recover", "--dry-run"]).finish();
        let recovered = stage.xioflow().arg("recover").finish();
        for told in [dry, recovered] {
            let text = String::from_utf8_lossy(&told.assert_code(0).stdout).into_owned();
            assert!(
                text.contains("by hand:") && text.contains(&action),
                "{told}"
            );
        }
        let result = shown(stage, "lost");
        assert_fields(
            &result,
            &json!({ "status": "failed", "terminationReason": "crash_detected", "recoveryCase": "A" }),
        );
        assert_fields(
            &result["stopAction"],
            &json!({ "ran": false, "words": action, "exitCode": null }),
        );
        let guidance = result["stopAction"]["guidance"].as_str().expect("advice");
        assert!(guidance.contains(&action), "{guidance}");
        assert!(!trace.exists());
        // Who asks for it again is told the same.
        let again = run_alone(stage, &options, &shell(&script)).finish();
        again.assert_complains("was not run, its supervisor died");
    });
}

/// An operation whose owner was killed while its stop action ran; the process ids of that action and of its helper.
fn killed_while_it_acts(stage: &Stage, stop_its_helper: bool) -> [u32; 2] {
    let begun = stage.path("begun");
    let action = format!(
        "echo $$ $PPID > {0}.draft; mv {0}.draft {0}; exec sleep 600",
        text(&begun)
    );
    let options = [
        "--op",
        "acting",
        "--lease",
        "port:1",
        "--timeout",
        "200ms",
        "--stop-action-timeout",
        "60s",
        "--stop-action",
        &action,
    ];
    let started = run_alone(stage, &options, &["sleep", "600"]).start();
    wait::file(&begun, Deadline::usual());
    let pids = fs::read_to_string(&begun).expect("two pids");
    let pids: Vec<u32> = pids
        .split_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect();
    let [action, helper] = pids.try_into().expect("two pids");
    if stop_its_helper {
        // Stopped, it cannot notice the end of its supervisor before its own.
        wait::halt(helper);
    }
    started.signal(Signal::KILL);
    drop(started.finish());
    [action, helper]
}

#[test]
fn an_owner_that_dies_while_it_runs_leaves_it_to_its_helper() {
    each_user(|stage| {
        let [action, _] = killed_while_it_acts(stage, false);
        stage.xioflow().arg("recover").finish().assert_code(0);
        assert!(!wait::is_alive(action), "nothing is freed before");
        let result = shown(stage, "acting");
        assert_fields(
            &result,
            &json!({ "status": "failed", "terminationReason": "timed_out" }),
        );
        let expected = json!({ "ran": true, "signal": "SIGTERM", "treeSettlement": "empty" });
        assert_fields(&result["stopAction"], &expected);
        assert!(result["stopAction"]["guidance"].is_string(), "{result:#}");
        let free = run_alone(stage, &["--lease", "port:1"], &["true"]).finish();
        free.assert_code(0);
        let words = fs::read_dir(stage.domain().join("holders")).expect("a folder");
        assert_eq!(words.count(), 0, "no last word stays behind");
    });
}

/// Nobody can say what it started, so the leases stay, although the end of the command itself is proven.
#[test]
fn an_action_whose_end_nobody_saw_keeps_the_leases() {
    each_user(|stage| {
        let [action, helper] = killed_while_it_acts(stage, true);
        signal(helper, Signal::KILL);
        assert!(wait::pid_gone(helper, Deadline::usual()));
        assert!(wait::is_alive(action));
        let previewed = stage
            .xioflow()
            .args(["recover", "--dry-run", "--json"])
            .finish();
        let decision = &previewed.json()["decisions"][0];
        assert_fields(
            decision,
            &json!({ "leases": "kept", "first": "stop_processes" }),
        );
        stage.xioflow().arg("recover").finish();
        assert!(!wait::is_alive(action), "it could be identified");
        let result = shown(stage, "acting");
        assert_fields(&result, &json!({ "status": "indeterminate" }));
        assert_fields(
            &result["stopAction"],
            &json!({ "ran": null, "treeSettlement": "unverified" }),
        );
        let reason = result["reason"].as_str().expect("a reason");
        assert!(reason.contains("stop action"), "{reason}");
        let held = run_alone(stage, &["--lease", "port:1"], &["true"]).finish();
        held.assert_code(75);
        let words = [
            "adjudicate",
            "acting",
            "confirmed_stopped",
            "--actor",
            "ada",
        ];
        stage.xioflow().args(words).finish().assert_code(0);
        let free = run_alone(stage, &["--lease", "port:1"], &["true"]).finish();
        free.assert_code(0);
    });
}
