//! Reaching what others have started: `cancel`, `shutdown`, `status`, and the arbiter as a program.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Finished, Stage, each_user, wait};

use crate::{assert_fields, fixture, living_commands, run, shell, text};

const BUSY: i32 = 75;

fn xioflow(stage: &Stage, words: &[&str]) -> Finished {
    stage.xioflow().args(words).finish()
}

fn status(stage: &Stage) -> Value {
    let finished = xioflow(stage, &["status", "--json"]);
    finished.assert_code(0);
    finished.json()
}

#[test]
fn an_operation_is_cancelled_from_another_terminal() {
    each_user(|stage| {
        for options in [&[][..], &["--kill"], &["--grace", "100ms"], &["--wait"]] {
            fs::remove_file(stage.path("ready")).ok();
            let (words, ready) = fixture(stage, &["escape-setsid", "2"]);
            let id = format!("job{}", options.join(""));
            let running = run(stage, &["--json", "--op", &id], &words).start();
            let pids = stage.wait_ready(&ready);
            let words = [&["cancel", &id], options].concat();
            xioflow(stage, &words)
                .assert_code(0)
                .assert_stdout("")
                .assert_stderr("");
            if options == ["--wait"] {
                assert!(pids.iter().all(|pid| !wait::is_alive(*pid)));
            }
            let finished = running.finish();
            finished.assert_code(130);
            let expected = json!({ "status": "cancelled", "terminationReason": "user_cancelled" });
            assert_fields(&finished.json(), &expected);
        }
        stage.end_arbiters();
    });
}

#[test]
fn a_cancel_is_told_as_a_document() {
    let stage = Stage::new();
    for (id, options) in [("one", &["--json"][..]), ("two", &["--json", "--wait"])] {
        run(&stage, &["--detach", "--op", id], &["sleep", "300"])
            .finish()
            .assert_code(0);
        let finished = xioflow(&stage, &[&["cancel", id], options].concat());
        finished.assert_code(0);
        let expected = match id {
            "one" => json!({ "operationId": "one", "stopping": true }),
            _ => json!({ "operationId": "two", "status": "cancelled" }),
        };
        assert_fields(&finished.json(), &expected);
    }
}

#[test]
fn what_cannot_be_cancelled_says_why() {
    let stage = Stage::new();
    run(&stage, &["--op", "over"], &shell("exit 3"))
        .finish()
        .assert_code(3);
    for _ in ["by the arbiter", "by the record"] {
        xioflow(&stage, &["cancel", "over"])
            .assert_code(1)
            .assert_complains("already ended");
        xioflow(&stage, &["cancel", "nowhere"])
            .assert_code(1)
            .assert_complains("nowhere");
        stage.end_arbiters();
    }
    let (words, ready) = fixture(&stage, &["sleep"]);
    let owner = run(&stage, &["--no-arbiter", "--op", "owned"], &words).start();
    stage.wait_ready(&ready);
    let refused = xioflow(&stage, &["cancel", "owned"]);
    refused.assert_code(BUSY);
    refused.assert_complains(&format!("kill {}", owner.pid()));
    owner.signal(Signal::TERM);
    owner.finish().assert_code(143);
}

#[test]
fn an_operation_that_waits_for_a_lease_can_be_cancelled() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    let holder = run(&stage, &["--lease", "thing", "--op", "holder"], &words).start();
    stage.wait_ready(&ready);
    let options = ["--lease", "thing", "--wait", "60s", "--op", "waits"];
    let waiting = run(&stage, &options, &["true"]).start();
    wait::until("a second operation", Deadline::usual(), || {
        let status = status(&stage);
        status["arbiter"]["inFlight"]
            .as_array()
            .is_some_and(|it| it.len() == 2)
    });
    xioflow(&stage, &["cancel", "waits"]).assert_code(0);
    waiting.finish().assert_code(130);
    xioflow(&stage, &["cancel", "holder"]).assert_code(0);
    holder.finish().assert_code(130);
}

#[test]
fn a_shutdown_does_not_touch_what_runs_unless_told() {
    each_user(|stage| {
        let (words, ready) = fixture(stage, &["sleep"]);
        let running = run(stage, &[], &words).start();
        stage.wait_ready(&ready);
        let refused = xioflow(stage, &["shutdown"]);
        refused.assert_code(BUSY);
        assert_eq!(stage.arbiters().len(), 1);
        xioflow(stage, &["shutdown", "--stop", "--grace", "1s"])
            .assert_code(0)
            .assert_stderr("");
        assert_eq!(stage.arbiters(), Vec::<u32>::new());
        running.finish().assert_code(130);
        assert_eq!(living_commands(stage), Vec::<String>::new());
        xioflow(stage, &["shutdown"])
            .assert_code(0)
            .assert_complains("no arbiter");
        fs::remove_file(&ready).expect("a file of the stage");
    });
}

#[test]
fn a_shutdown_may_wait_for_what_runs() {
    let stage = Stage::new();
    let script = ": > runs; until test -e go; do sleep 0.01; done; echo done";
    let running = run(&stage, &[], &shell(script)).start();
    wait::file(&stage.path("runs"), Deadline::usual());
    let shutdown = stage
        .xioflow()
        .args(["shutdown", "--wait", "--json"])
        .start();
    wait::until("the end to begin", Deadline::usual(), || {
        status(&stage)["arbiter"]["shuttingDown"] == true
    });
    stage.write("go", "", 0o600);
    running.finish().assert_code(0).assert_stdout("done\n");
    let shutdown = shutdown.finish();
    shutdown.assert_code(0);
    assert_eq!(shutdown.json()["operations"], 1);
    assert_eq!(stage.arbiters(), Vec::<u32>::new());
    // And the next one is served by the next arbiter.
    run(&stage, &[], &["true"]).finish().assert_code(0);
}

#[test]
fn it_is_told_who_serves_the_domain() {
    let stage = Stage::new();
    run(&stage, &["--no-arbiter"], &["true"])
        .finish()
        .assert_code(0);
    let nobody = status(&stage);
    assert_eq!(nobody["owner"]["state"], "free");
    assert_eq!(nobody["arbiter"], Value::Null);
    run(&stage, &["--detach", "--op", "job"], &["sleep", "300"])
        .finish()
        .assert_code(0);
    let served = status(&stage);
    assert_eq!(served["owner"]["state"], "held");
    assert_eq!(served["owner"]["note"]["role"], "arbiter");
    assert_eq!(served["arbiter"]["pid"], stage.arbiters()[0]);
    assert_eq!(served["arbiter"]["inFlight"][0]["operationId"], "job");
    let people = xioflow(&stage, &["status"]);
    let text = String::from_utf8_lossy(&people.stdout).into_owned();
    assert!(text.contains("1 operation in flight"), "{people}");
    xioflow(&stage, &["cancel", "job", "--wait"]).assert_code(0);
    xioflow(&stage, &["shutdown"]).assert_code(0);
    let (words, ready) = fixture(&stage, &["sleep"]);
    let owner = run(&stage, &["--no-arbiter"], &words).start();
    stage.wait_ready(&ready);
    let owned = status(&stage);
    assert_eq!(owned["owner"]["note"]["role"], "embedded");
    assert_eq!(owned["arbiter"], Value::Null);
    owner.signal(Signal::TERM);
    owner.finish().assert_code(143);
}

#[test]
fn an_arbiter_that_nobody_needs_ends() {
    let stage = Stage::new();
    run(&stage, &[], &["true"])
        .env("XIOFLOW_ARBITER_IDLE", "100ms")
        .finish()
        .assert_code(0);
    for pid in stage.arbiters() {
        assert!(wait::pid_gone(pid, Deadline::usual()));
    }
    assert!(!stage.domain().join("kernel.sock").exists());
    assert_eq!(status(&stage)["owner"]["state"], "free");
}

#[test]
fn an_arbiter_serves_however_short_or_long_its_idle_time_is() {
    for (idle, idle_ms) in [
        ("0", json!(0)),
        ("never", Value::Null),
        ("292y", Value::Null),
    ] {
        let stage = Stage::new();
        let program = stage.program("xioflow");
        // It ends behind each of them, and comes again.
        for _ in 0..2 {
            let finished = run(&stage, &[], &[text(&program), "status", "--json"])
                .env("XIOFLOW_ARBITER_IDLE", idle)
                .finish();
            finished.assert_code(0);
            assert_eq!(finished.json()["arbiter"]["idleMs"], idle_ms, "{idle}");
        }
        stage.end_arbiters();
    }
}

#[test]
fn a_time_that_is_none_is_a_mistake_and_nothing_runs() {
    let stage = Stage::new();
    let finished = run(&stage, &[], &["touch", "trace"])
        .env("XIOFLOW_ARBITER_IDLE", "soon")
        .finish();
    finished
        .assert_code(64)
        .assert_complains("XIOFLOW_ARBITER_IDLE");
    assert!(!stage.path("trace").exists());
}

#[test]
fn an_arbiter_can_be_started_by_hand() {
    each_user(|stage| {
        let arbiter = stage.xioflow().args(["arbiter", "--idle", "never"]).start();
        wait::until("an arbiter", Deadline::usual(), || {
            stage.domain().join("domain.db").exists() && status(stage)["arbiter"].is_object()
        });
        run(stage, &[], &["echo", "out"])
            .finish()
            .assert_code(0)
            .assert_stdout("out\n");
        assert_eq!(stage.arbiters(), [arbiter.pid()]);
        let second = stage.xioflow().args(["arbiter", "--wait", "0s"]).finish();
        second
            .assert_code(BUSY)
            .assert_complains(&arbiter.pid().to_string());
        arbiter.signal(Signal::TERM);
        arbiter.finish().assert_code(0).assert_stdout("");
    });
}

#[test]
fn an_arbiter_that_is_asked_to_leave_stops_what_runs() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["ignore-signals"]);
    let running = run(&stage, &["--json"], &words).start();
    stage.wait_ready(&ready);
    stage.end_arbiters();
    let finished = running.finish();
    finished.assert_code(130);
    assert_eq!(finished.json()["status"], "cancelled");
}

#[test]
fn only_a_client_starts_a_daemon() {
    let stage = Stage::new();
    let by_hand = stage.xioflow().args(["arbiter", "--daemon"]).finish();
    by_hand.assert_code(64).assert_complains("--daemon");
    assert!(!stage.domain().exists());
}

#[test]
fn whoever_owns_the_domain_is_named_to_clients() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    let owner = run(&stage, &["--no-arbiter"], &words).start();
    stage.wait_ready(&ready);
    let refused = run(&stage, &[], &["touch", "trace"]).finish();
    refused.assert_code(BUSY);
    refused.assert_complains(&owner.pid().to_string());
    assert!(
        refused.elapsed < Duration::from_secs(9),
        "at once: {refused}"
    );
    let waits = run(&stage, &["--wait", "25s"], &["echo", "served"]).start();
    owner.signal(Signal::TERM);
    owner.finish().assert_code(143);
    waits.finish().assert_code(0).assert_stdout("served\n");
    assert!(!stage.path("trace").exists());
}

/// The arbiter was started by the first command on the terminal, and is no part of its session.
#[test]
fn ctrl_c_on_a_terminal_ends_the_command_and_not_the_arbiter() {
    let stage = Stage::new();
    let words = ["run", "--", "sh", "-c", "echo up; exec sleep 300"];
    let mut terminal = stage.xioflow().args(words).start_on_terminal();
    terminal.wait_for("up");
    let arbiters = stage.arbiters();
    terminal.type_in(b"\x03");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(130), "{screen}");
    assert_eq!((arbiters.len(), stage.arbiters()), (1, arbiters));
    assert_eq!(living_commands(&stage), Vec::<String>::new());
}
