//! The arbiter dies: its helpers end what ran, and each client is told what the record says of its own
//! operation once the next arbiter has settled it.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use xioflow_kit::{Deadline, Stage, each_user, wait};

use crate::{assert_fields, fixture, run, shell, text};

const INTERNAL: i32 = 70;

fn kill_arbiters(stage: &Stage) {
    for pid in stage.arbiters() {
        let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
        // One may have ended by itself since it was found.
        kill_process(pid, Signal::KILL).ok();
    }
}

/// A command whose last words stay in its pipe, since nobody reads them any more, and who ended well.
#[test]
fn what_nobody_has_read_is_not_said_to_be_nothing() {
    let stage = Stage::new();
    let (at_gate, gate) = (stage.path("at-gate"), stage.path("gate"));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, mode).expect("a FIFO");
    let script = format!(
        "echo $$ > {at}.draft; mv {at}.draft {at}; read line < {}; echo late; exit 0",
        text(&gate),
        at = text(&at_gate),
    );
    let client = run(&stage, &["--op", "late"], &shell(&script)).start();
    wait::file(&at_gate, Deadline::usual());
    let pid = fs::read_to_string(&at_gate).expect("a file");
    let pid = pid.trim().parse().expect("a pid");
    stage.arbiters().into_iter().for_each(wait::halt);
    fs::write(&gate, "go on\n").expect("the gate");
    assert!(wait::pid_gone(pid, Deadline::usual()), "it does not end");
    kill_arbiters(&stage);
    let finished = client.finish();
    finished.assert_code(0).assert_stdout("");
    finished.assert_complains("what it printed last may be missing");
    let shown = stage.xioflow().args(["show", "late", "--json"]).finish();
    let expected = json!({ "exitCode": 0, "stdoutBytes": 0, "outputComplete": null });
    assert_fields(&shown.json()["result"], &expected);
}

#[test]
fn a_client_is_told_what_is_recorded() {
    each_user(|stage| {
        let (words, ready) = fixture(stage, &["print-then-sleep", "early"]);
        let mut client = run(stage, &["--op", "cut"], &words).start();
        let pids = stage.wait_ready(&ready);
        client.wait_for_output(b"early\n");
        let before = stage.arbiters();
        kill_arbiters(stage);
        let finished = client.finish();
        finished.assert_code(INTERNAL).assert_stdout("early\n");
        finished.assert_complains("the arbiter went away");
        finished.assert_complains("operation cut was cut short");
        assert!(pids.iter().all(|pid| !wait::is_alive(*pid)), "{finished}");
        let after = stage.arbiters();
        assert!(after.len() == 1 && after != before, "{after:?}");
        fs::remove_file(&ready).expect("a file of the stage");
        stage.end_arbiters();
    });
}

#[test]
fn a_document_has_what_is_recorded() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["print-then-sleep", "early"]);
    let client = run(&stage, &["--json", "--op", "cut"], &words).start();
    stage.wait_ready(&ready);
    // What is still in the pipe is lost with whoever reads it.
    let mut stored = stage.xioflow().args(["logs", "cut", "--follow"]).start();
    stored.wait_for_output(b"early\n");
    kill_arbiters(&stage);
    drop(stored.finish());
    let finished = client.finish();
    finished.assert_code(INTERNAL);
    let expected = json!({ "operationId": "cut", "stdout": "early\n" });
    assert_fields(&finished.json(), &expected);
}

#[test]
fn what_was_not_passed_on_yet_is_printed_from_the_record() {
    let stage = Stage::new();
    // More than all pipes on the way hold, so that the last of it is only stored.
    let script = "head -c 400000 /dev/zero | tr '\\0' x; echo end; : > printed; exec sleep 300";
    let client = run(&stage, &["--op", "cut"], &shell(script)).start();
    wait::file(&stage.path("printed"), Deadline::usual());
    // What is still in the command's pipe is lost with whoever reads it.
    let mut stored = stage.xioflow().args(["logs", "cut", "--follow"]).start();
    stored.wait_for_output(b"end\n");
    kill_arbiters(&stage);
    drop(stored.finish());
    let finished = client.finish();
    finished.assert_code(INTERNAL);
    let expected = ["x".repeat(400_000), "end\n".to_owned()].concat();
    assert!(
        finished.stdout == expected.as_bytes(),
        "{} bytes",
        finished.stdout.len()
    );
}

#[test]
fn a_follower_is_told_too() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["print-then-sleep", "early"]);
    run(&stage, &["--detach", "--op", "cut"], &words)
        .finish()
        .assert_code(0);
    stage.wait_ready(&ready);
    let mut follower = stage.xioflow().args(["attach", "cut"]).start();
    follower.wait_for_output(b"early\n");
    kill_arbiters(&stage);
    let finished = follower.finish();
    finished.assert_code(INTERNAL).assert_stdout("early\n");
}

/// Nobody opens the domain in between: whoever asks for the operation has it settled.
#[test]
fn what_nobody_has_settled_is_settled_by_whoever_attaches() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    run(&stage, &["--detach", "--op", "cut"], &words)
        .finish()
        .assert_code(0);
    stage.wait_ready(&ready);
    kill_arbiters(&stage);
    let attached = stage.xioflow().args(["attach", "cut"]).finish();
    attached.assert_complains("operation cut");
    let shown = stage.xioflow().args(["show", "cut", "--json"]).finish();
    assert_eq!(shown.json()["status"], "done", "{attached}");
}

/// How many arbiters are killed, each a little later than the one before.
const KILLS: u32 = 60;
/// The difference between two kills; all of them together span a whole run with the start of an arbiter.
const KILL_STEP: Duration = Duration::from_micros(500);

/// Before it listens, before the record, while the command runs, before its result: at whatever moment an
/// arbiter dies, nothing runs twice and nothing stays undecided.
#[test]
fn an_arbiter_killed_at_any_moment_leaves_nothing_undecided() {
    let stage = Stage::new();
    let (trace, program) = (stage.path("trace"), stage.fixture());
    for turn in 0..KILLS {
        let id = format!("op-{turn}");
        let words = [text(&program), "append-line", text(&trace), &id];
        let client = run(&stage, &["--op", &id], &words).start();
        // The time is not waited for anything: it is what this test varies.
        let ended = wait::pid_gone(client.pid(), Deadline::after(KILL_STEP * turn));
        if !ended {
            kill_arbiters(&stage);
        }
        drop(client.finish());
        kill_arbiters(&stage);
    }
    run(&stage, &["--op", "last"], &["true"])
        .finish()
        .assert_code(0);
    let status = stage.xioflow().args(["status", "--json"]).finish().json();
    assert_eq!(status["unfinished"], json!([]), "{status:#}");
    let trace = fs::read_to_string(&trace).expect("a trace");
    let mut lines: Vec<&str> = trace.lines().collect();
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count, "something ran twice: {trace}");
}

/// Whoever comes first has the work of all others settled, and is not told of each.
#[test]
fn of_much_that_was_settled_the_first_few_are_told() {
    let stage = Stage::new();
    for number in 0..8 {
        let id = format!("cut-{number}");
        let detached = run(&stage, &["--detach", "--op", &id], &["sleep", "300"]);
        detached.finish().assert_code(0);
    }
    kill_arbiters(&stage);
    let next = run(&stage, &[], &["true"]).finish();
    next.assert_code(0)
        .assert_complains("3 more operations of an earlier owner were settled");
    let said = String::from_utf8_lossy(&next.stderr);
    assert_eq!(said.matches("operation cut-").count(), 5, "{said}");
}

/// Its files are taken away under it: nothing is told as done that is on no record, and it makes room for another.
#[test]
fn an_arbiter_whose_database_is_gone_says_so_and_ends() {
    let stage = Stage::new();
    run(&stage, &[], &["true"]).finish().assert_code(0);
    let before = stage.arbiters();
    let domain = stage.domain();
    for name in ["domain.db", "domain.db-wal", "domain.db-shm"] {
        fs::remove_file(domain.join(name)).expect("a file of the domain");
    }
    let refused = run(&stage, &[], &["true"]).finish();
    refused.assert_code(75).assert_complains("it was deleted");
    for pid in &before {
        assert!(wait::pid_gone(*pid, Deadline::usual()), "{pid} stays");
    }
    run(&stage, &[], &["true"]).finish().assert_code(0);
    assert_ne!(stage.arbiters(), before);
}
