//! Timeouts, Ctrl-C, and the signals that ask us to leave.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use xioflow_kit::{Deadline, Stage, each_user, wait};

use crate::{assert_fields, fixture, living_commands, run, run_alone, run_json, shell, text};

#[test]
fn a_timeout_ends_the_tree_and_is_124() {
    each_user(|stage| {
        let shapes: [&[&str]; 3] = [
            &["sleep"],
            &["ignore-signals"],
            &["escape-setsid", "ignore", "2"],
        ];
        for shape in shapes {
            let (words, _) = fixture(stage, shape);
            let options = ["--timeout", "600ms", "--grace", "300ms"];
            let (finished, document) = run_json(stage, &options, &words);
            finished.assert_code(124);
            let expected = json!({
                "status": "failed",
                "terminationReason": "timed_out",
                "exitCode": null,
            });
            assert_fields(&document, &expected);
            assert!(finished.elapsed >= Duration::from_millis(600), "{finished}");
            assert!(finished.elapsed < Duration::from_secs(10), "{finished}");
            assert_eq!(living_commands(stage), Vec::<String>::new(), "{shape:?}");
        }
    });
}

#[test]
fn a_timeout_is_explained_to_people() {
    let stage = Stage::new();
    let finished = run(&stage, &["--timeout", "200ms"], &["sleep", "60"]).finish();
    finished
        .assert_code(124)
        .assert_stdout("")
        .assert_complains("timed out");
}

#[test]
fn a_command_within_its_time_is_not_touched() {
    let stage = Stage::new();
    let (finished, document) = run_json(&stage, &["--timeout", "60s"], &shell("exit 5"));
    finished.assert_code(5);
    assert_fields(
        &document,
        &json!({ "terminationReason": "completed", "stop": null }),
    );
}

#[test]
fn the_first_interrupt_asks_and_is_130() {
    each_user(|stage| {
        let (words, ready) = fixture(stage, &["escape-setsid", "2"]);
        let started = run(stage, &["--json"], &words).start();
        let pids = stage.wait_ready(&ready);
        started.signal(Signal::INT);
        let finished = started.finish();
        finished.assert_code(130);
        let expected = json!({ "status": "cancelled", "terminationReason": "user_cancelled" });
        assert_fields(&finished.json(), &expected);
        assert!(pids.iter().all(|pid| !wait::is_alive(*pid)), "{finished}");
    });
}

#[test]
fn a_command_may_clean_up_after_an_interrupt() {
    let stage = Stage::new();
    let (ready, trace) = (stage.path("ready"), stage.path("trace"));
    let script = format!(
        "trap 'echo cleaned > {}; exit 0' INT; : > {}; while :; do sleep 60 & wait $!; done",
        trace.display(),
        ready.display()
    );
    let started = run(&stage, &["--grace", "20s"], &shell(&script)).start();
    wait::file(&ready, Deadline::usual());
    started.signal(Signal::INT);
    started.finish().assert_code(130);
    assert_eq!(fs::read_to_string(&trace).expect("a trace"), "cleaned\n");
}

#[test]
fn the_second_interrupt_kills() {
    let stage = Stage::new();
    let record = stage.path("signals");
    let (words, ready) = fixture(&stage, &["record-signals", text(&record)]);
    let started = run(&stage, &["--grace", "600s"], &words).start();
    stage.wait_ready(&ready);
    started.signal(Signal::INT);
    let heard = wait::in_folder(&stage.path(""), Deadline::usual(), || {
        let came = fs::read_to_string(&record).ok()?;
        came.contains("SIGINT").then_some(())
    });
    assert!(heard.is_some(), "the first one does not reach the command");
    started.signal(Signal::INT);
    started.finish().assert_code(130);
    assert_eq!(living_commands(&stage), Vec::<String>::new());
}

#[test]
fn being_asked_to_leave_cancels_too() {
    let stage = Stage::new();
    for signal in [Signal::TERM, Signal::HUP] {
        fs::remove_file(stage.path("ready")).ok();
        let (words, ready) = fixture(&stage, &["escape-setsid", "2"]);
        let started = run(&stage, &["--json", "--grace", "300ms"], &words).start();
        let pids = stage.wait_ready(&ready);
        started.signal(signal);
        let finished = started.finish();
        let expected = json!({ "status": "cancelled", "terminationReason": "user_cancelled" });
        assert_fields(&finished.json(), &expected);
        finished.assert_code(128 + signal.as_raw());
        assert!(pids.iter().all(|pid| !wait::is_alive(*pid)), "{finished}");
    }
}

#[test]
fn a_grace_of_zero_kills_at_once() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["ignore-signals"]);
    let started = run(&stage, &["--grace", "0s"], &words).start();
    stage.wait_ready(&ready);
    started.signal(Signal::INT);
    let finished = started.finish();
    finished.assert_code(130);
    assert!(finished.elapsed < Duration::from_secs(10), "{finished}");
}

#[test]
fn a_fork_bomb_is_ended() {
    let stage = Stage::new();
    let (words, _) = fixture(&stage, &["fork-bomb", "1500", "new-session"]);
    let options = ["--timeout", "300ms", "--grace", "100ms"];
    run(&stage, &options, &words).finish().assert_code(124);
    assert_eq!(living_commands(&stage), Vec::<String>::new());
}

#[test]
fn a_signal_that_was_blocked_by_the_caller_is_heard() {
    let stage = Stage::new();
    let mut started = stage
        .run("env")
        .args(["--block-signal=TERM"])
        .arg(stage.program("xioflow"))
        .args(["run", "--", "sh", "-c", "echo up; exec sleep 300"])
        .start();
    started.wait_for_output(b"up");
    started.signal(Signal::TERM);
    started.finish().assert_code(143);
}

/// As a shell does it: the program is a job, in a group of its own in the shell's session.
#[test]
fn ctrl_z_has_the_whole_job_stand_still_and_fg_has_it_go_on() {
    each_user(|stage| {
        let (words, ready) = fixture(stage, &["escape-setsid", "2"]);
        let started = run(stage, &[], &words).as_job().start();
        let mut pids = stage.wait_ready(&ready);
        pids.push(started.pid());
        let all_stopped = |stopped| {
            let pids = pids.clone();
            move || {
                pids.iter()
                    .all(|pid| (wait::state(*pid) == Some('T')) == stopped)
            }
        };
        started.signal(Signal::TSTP);
        wait::until("standstill", Deadline::usual(), all_stopped(true));
        started.signal(Signal::CONT);
        wait::until("going on", Deadline::usual(), all_stopped(false));
        started.signal(Signal::TERM);
        started.finish().assert_code(143);
    });
}

/// A timeout that passes while nobody is there to look is decided when somebody is, once, and not
/// after another wait.
#[test]
fn a_timeout_that_passes_while_the_supervisor_is_stopped_is_decided_at_once() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    let started = run_alone(&stage, &["--json", "--timeout", "6s"], &words).start();
    stage.wait_ready(&ready);
    wait::halt(started.pid());
    // Another process's time, longer than the timeout.
    let passed = std::process::Command::new("sleep").arg("7").status();
    assert!(passed.expect("sleep runs").success());
    started.signal(Signal::CONT);
    let continued = Instant::now();
    let finished = started.finish();
    finished.assert_code(124);
    // Whoever waits for the rest of its time once more takes nearly six seconds.
    assert!(continued.elapsed() < Duration::from_secs(5), "{finished}");
    let document = finished.json();
    let gap_ms = document["supervisorGapMs"].as_u64().expect("a gap");
    assert!(gap_ms >= 1000, "{document:#}");
}
