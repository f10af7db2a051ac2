//! The bar: a timeout of 1 s with a grace of 0.5 s returns in under 3 s whatever the tree does.
//!
//! Seconds of a busy machine are longer. So each test also times the simplest case, a lone
//! `sleep`, at the same moment: how late that one is says how late the machine is, and the tree
//! under test may be late by a multiple of it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Finished, Stage, each_user, wait};

use crate::{assert_fields, assert_nobody_lives, fixture, run, run_json, shell, text};

const TIMEOUT: Duration = Duration::from_secs(1);
const BAR: Duration = Duration::from_secs(3);
const OPTIONS: [&str; 5] = ["--json", "--timeout", "1s", "--grace", "500ms"];

/// How many times later than a lone `sleep` a tree may be: ending one of thousands of processes
/// takes more turns of a processor than ending one.
const LATER_MAX: u32 = 10;

/// Runs a command into its timeout beside a lone `sleep`, and checks the bar.
fn is_within_the_bar(stage: &Stage, words: &[impl AsRef<std::ffi::OsStr>]) -> (Finished, Value) {
    let beside = stage.path("beside");
    let lone = run(stage, &OPTIONS, &["sleep", "300"])
        .env("XIOFLOW_DOMAIN", beside)
        .start();
    let finished = run(stage, &OPTIONS, words).finish();
    let lone = lone.finish();
    lone.assert_code(124);
    let bar = BAR + (lone.elapsed - TIMEOUT) * LATER_MAX;
    assert!(finished.elapsed >= TIMEOUT, "{finished}");
    assert!(
        finished.elapsed < bar,
        "bar {bar:?}, lone {lone}\n{finished}"
    );
    let document = finished.json();
    assert_eq!(document["stop"]["reason"], "timed_out", "{document:#}");
    (finished, document)
}

/// The bar for a tree that nothing is left of.
fn is_ended_within_the_bar(stage: &Stage, words: &[impl AsRef<std::ffi::OsStr>]) -> Value {
    let (finished, document) = is_within_the_bar(stage, words);
    finished.assert_code(124);
    let expected = json!({
        "status": "failed",
        "terminationReason": "timed_out",
        "residualPids": [],
        "heldOpenBy": [],
    });
    assert_fields(&document, &expected);
    assert_nobody_lives(stage);
    document
}

#[test]
fn a_tree_that_ignores_signals() {
    each_user(|stage| {
        let deaf = "trap '' TERM INT HUP; while :; do sleep 1; done";
        let document = is_ended_within_the_bar(stage, &shell(deaf));
        assert_eq!(document["signal"], "SIGKILL");
        assert_eq!(document["stop"]["lastSignal"], "SIGKILL", "it is said");
    });
}

#[test]
fn a_tree_that_holds_the_pipes_from_outside_its_group() {
    each_user(|stage| {
        for script in [
            "setsid sleep 300 & wait",
            "setsid sleep 300 & exec sleep 300",
            "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & wait",
        ] {
            is_ended_within_the_bar(stage, &shell(script));
        }
    });
}

/// It left with setsid, and nothing but the pipe is open in it.
#[test]
fn a_holder_that_left_and_closed_everything_else() {
    let stage = Stage::new();
    for script in [
        "setsid sh -c 'exec 0<&- 2>&-; exec sleep 300' & exec sleep 300",
        "(setsid sh -c 'exec 0<&- 1>&-; exec sleep 300' &) ; exec sleep 300",
    ] {
        is_ended_within_the_bar(&stage, &shell(script));
    }
}

#[test]
fn a_tree_that_floods_both_streams() {
    each_user(|stage| {
        let document = is_ended_within_the_bar(stage, &shell("yes & yes >&2"));
        for bytes in ["stdoutBytes", "stderrBytes"] {
            let count = document[bytes].as_u64().expect("a number");
            assert!(count > 1024 * 1024, "{bytes}: {count}");
        }
    });
}

#[test]
fn a_tree_that_is_stopped() {
    each_user(|stage| {
        is_ended_within_the_bar(stage, &shell("kill -STOP $$"));
        let deaf = "trap '' TERM; sh -c 'kill -STOP $$' & kill -STOP $$";
        is_ended_within_the_bar(stage, &shell(deaf));
    });
}

/// Few at a time and never an end: each process makes the next one, in a session of its own, and
/// is gone before it could be signalled. The root waits, or the command would have ended. Then as
/// many as there can be, in one test, so that no other test has to live beside two of these.
#[test]
fn a_tree_that_forks_without_end() {
    let link = "setsid sh -c \"$0\" \"$0\" & exit";
    let stage = Stage::new();
    for trap in ["", "trap '' TERM INT; "] {
        let link = format!("{trap}{link}");
        let script = format!("{trap}sh -c \"$0\" \"$0\" & sleep 300 & while :; do wait; done");
        is_ended_within_the_bar(&stage, &["sh", "-c", &script, &link]);
    }
    is_ended_within_the_bar(&stage, &shell("while :; do (exit 0) & done"));
    for bomb in [
        &["fork-bomb", "1000"][..],
        &["fork-bomb", "500", "new-session"],
    ] {
        let (words, _) = fixture(&stage, bomb);
        is_ended_within_the_bar(&stage, &words);
    }
}

/// No descendant at all: a process that was there before has got the descriptors over a socket.
/// It is named, and as it may work for the command, the end is not proven.
#[test]
fn a_holder_that_is_no_descendant() {
    each_user(|stage| {
        let (socket, ready) = (stage.path("socket"), stage.path("stranger"));
        let words = ["--ready", text(&ready), "keep-descriptors", text(&socket)];
        let stranger = stage.run(stage.fixture()).args(words).start();
        wait::file(&ready, Deadline::usual());
        for mode in [&["hand-over"][..], &["hand-over", "ignore"]] {
            let (words, _) = fixture(stage, &[mode, &[text(&socket)]].concat());
            let (finished, document) = is_within_the_bar(stage, &words);
            finished.assert_code(79).assert_complains("time was over");
            let expected = json!({
                "status": "indeterminate",
                "treeSettlement": "empty",
                "residualPids": [],
                "outputComplete": false,
            });
            assert_fields(&document, &expected);
            let holders = document["heldOpenBy"].as_array().expect("a list");
            let held: Vec<_> = holders
                .iter()
                .map(|one| (&one["pid"], &one["stream"]))
                .collect();
            let pid = json!(stranger.pid());
            for stream in ["stdout", "stderr"] {
                assert!(held.contains(&(&pid, &json!(stream))), "{document:#}");
            }
        }
        stranger.signal(Signal::KILL);
        assert!(!stranger.finish().status.success());
        for file in [socket, ready] {
            fs::remove_file(file).expect("a file of the stage");
        }
    });
}

/// No limit is changed silently: the one in force is in the result, and one that cannot be kept is
/// refused with the largest that can.
#[test]
fn the_limit_in_force_is_the_one_that_was_asked_for() {
    let stage = Stage::new();
    for (asked, in_force) in [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1000y", 31_557_600_000_000_u64),
    ] {
        let (_, document) = run_json(&stage, &["--timeout", asked], &["true"]);
        assert_eq!(document["timeoutMs"], in_force, "{document:#}");
    }
    let (_, document) = run_json(&stage, &[], &["true"]);
    assert_eq!(document["timeoutMs"], json!(null));
    for asked in ["18446744073709551615s", "300000000y"] {
        let refused = run(&stage, &["--timeout", asked], &["true"]).finish();
        refused
            .assert_code(64)
            .assert_complains("292 million years");
    }
    let refused = run(&stage, &["--timeout", "30"], &["true"]).finish();
    refused.assert_code(64).assert_complains("30s");
}

#[test]
fn what_was_printed_before_is_kept_and_it_is_no_success() {
    each_user(|stage| {
        let words = shell("echo PROGRESS; echo warn >&2; sleep 30");
        let (finished, document) = run_json(stage, &["--timeout", "1s"], &words);
        finished.assert_code(124);
        let expected = json!({
            "stdout": "PROGRESS\n", "stderr": "warn\n",
            "status": "failed", "terminationReason": "timed_out",
        });
        assert_fields(&document, &expected);
        let finished = run(stage, &["--timeout", "1s"], &words).finish();
        finished.assert_code(124).assert_stdout("PROGRESS\n");
        finished
            .assert_complains("warn")
            .assert_complains("timed out");
    });
}

/// The shell waits for a foreground child: only when that gets the signal too does the trap run.
#[test]
fn a_trap_runs_before_anything_is_killed() {
    each_user(|stage| {
        let mark = stage.path("mark");
        let script = format!(
            "trap 'echo cleaned > {}; exit 0' TERM; sleep 300",
            text(&mark)
        );
        let options = ["--timeout", "1s", "--grace", "20s"];
        let (finished, document) = run_json(stage, &options, &shell(&script));
        finished.assert_code(124);
        assert_eq!(fs::read_to_string(&mark).expect("a mark"), "cleaned\n");
        let expected = json!({
            "exitCode": 0,
            "terminationReason": "timed_out",
            "stop": { "reason": "timed_out", "lastSignal": "SIGTERM" },
        });
        assert_fields(&document, &expected);
        fs::remove_file(&mark).expect("a file of the stage");
    });
}

/// It decides once, after it has looked, and says that for a time nobody was there to decide.
#[test]
fn a_supervisor_that_was_stopped_decides_once_and_says_so() {
    let stage = Stage::new();
    let go = stage.path("go");
    let ends = format!("echo up; until [ -e {} ]; do :; done; exit 7", text(&go));
    let stays = "echo up; sleep 300".to_owned();
    for (id, script, reason) in [("stays", &stays, "timed_out"), ("ends", &ends, "completed")] {
        let timed = ["--op", id, "--timeout", "2s", "--lease", "l"];
        let options = [&["--no-arbiter"][..], &timed].concat();
        let mut started = run(&stage, &options, &shell(script)).start();
        // It passes output on, and sleeps: so it waits for what the command does next.
        started.wait_for_output(b"up");
        let (asleep, deadline) = (format!("/proc/{}/stat", started.pid()), Deadline::usual());
        while !fs::read_to_string(&asleep)
            .expect("it runs")
            .contains(") S ")
        {
            assert!(!deadline.passed(), "the supervisor does not come to rest");
        }
        wait::halt(started.pid());
        fs::write(&go, "").expect("a file of the stage");
        // What is under test is the passing of time; four seconds are beyond the timeout.
        wait::in_folder(
            &stage.path(""),
            Deadline::after(Duration::from_secs(4)),
            || None::<()>,
        );
        started.signal(Signal::CONT);
        started.finish();
        let shown = stage.xioflow().args(["show", "--json", id]).finish().json();
        let document = &shown["result"];
        assert_eq!(document["terminationReason"], reason, "{document:#}");
        let gap_ms = document["supervisorGapMs"].as_u64();
        assert!(
            gap_ms.is_some_and(|gap_ms| (1000..60_000).contains(&gap_ms)),
            "{document:#}"
        );
        let events = stage
            .xioflow()
            .args(["events", "--json", "--op", id])
            .finish();
        let results = String::from_utf8_lossy(&events.stdout)
            .matches("RESULT_RECORDED")
            .count();
        assert_eq!(results, 1, "{events}");
        let status = stage.xioflow().args(["status", "--json"]).finish().json();
        assert_eq!(status["leases"], json!([]), "{status:#}");
        fs::remove_file(&go).expect("a file of the stage");
    }
}
