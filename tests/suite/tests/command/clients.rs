//! Many clients of one domain: one arbiter comes of them, wherever they come from, and one that goes away
//! leaves nothing running.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Run, Stage, Started, each_user, wait};

use crate::{assert_fields, fixture, living_commands, run, run_json, shell, text};

/// Clients that start in the same moment, and how often.
const CLIENTS: usize = 50;
const ROUNDS: usize = 30;

/// What is recorded of an operation that somebody waits for to end.
fn shown(stage: &Stage, id: &str) -> Value {
    let followed = stage
        .xioflow()
        .args(["events", "--op", id, "--follow"])
        .finish();
    followed.assert_code(0);
    let shown = stage.xioflow().args(["show", id, "--json"]).finish();
    shown.assert_code(0);
    shown.json()
}

fn in_domain<'a>(run: Run<'a>, domain: &Path) -> Run<'a> {
    run.env("XIOFLOW_DOMAIN", domain)
}

#[test]
fn fifty_that_start_at_once_have_one_arbiter() {
    let stage = Stage::new();
    for round in 0..ROUNDS {
        let domain = stage.path(format!("domain-{round}"));
        let started: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let words = ["echo", &number.to_string()].map(str::to_owned);
                in_domain(run(&stage, &[], &words), &domain).start()
            })
            .collect();
        for (number, started) in started.into_iter().enumerate() {
            let finished = started.finish();
            finished.assert_code(0).assert_stderr("");
            finished.assert_stdout(format!("{number}\n"));
        }
        assert_eq!(stage.arbiters().len(), 1, "in round {round}");
        let status = in_domain(stage.xioflow().args(["status", "--json"]), &domain).finish();
        assert_eq!(status.json()["operationsTotal"], CLIENTS, "{status}");
        stage.end_arbiters();
    }
}

#[test]
fn commands_of_several_clients_run_side_by_side() {
    each_user(|stage| {
        // Neither ends before both run.
        let meet = |mine: &str, theirs: &str| {
            let script =
                format!(": > {mine}; until test -e {theirs}; do sleep 0.01; done; echo {mine}");
            run(stage, &[], &shell(&script)).start()
        };
        let (one, other) = (meet("one", "other"), meet("other", "one"));
        one.finish().assert_code(0).assert_stdout("one\n");
        other.finish().assert_code(0).assert_stdout("other\n");
        for name in ["one", "other"] {
            fs::remove_file(stage.path(name)).expect("a file of the stage");
        }
    });
}

#[test]
fn a_domain_may_have_a_long_path() {
    let stage = Stage::new();
    let long = stage.path("x".repeat(200)).join("y".repeat(200));
    fs::create_dir_all(long.parent().expect("it has one")).expect("a folder");
    for word in ["one", "two"] {
        in_domain(run(&stage, &[], &["echo", word]), &long)
            .finish()
            .assert_code(0)
            .assert_stdout(format!("{word}\n"));
    }
    assert_eq!(stage.arbiters().len(), 1);
}

#[test]
fn every_way_to_a_domain_leads_to_one_arbiter() {
    each_user(|stage| {
        run(stage, &[], &["true"]).finish().assert_code(0);
        let link = stage.path("link");
        symlink(stage.domain(), &link).expect("a link");
        in_domain(run(stage, &[], &["true"]), &link)
            .finish()
            .assert_code(0);
        in_domain(run(stage, &[], &["true"]), Path::new("../domain"))
            .finish()
            .assert_code(0);
        // A command of the domain that uses the domain itself, as agents start agents.
        let xioflow = stage.program("xioflow");
        let nested = [text(&xioflow), "run", "--", "echo", "inside"];
        run(stage, &[], &nested)
            .finish()
            .assert_code(0)
            .assert_stdout("inside\n");
        assert_eq!(stage.arbiters().len(), 1);
        let status = stage.xioflow().args(["status", "--json"]).finish().json();
        assert_eq!(status["operationsTotal"], 5, "{status:#}");
        fs::remove_file(&link).expect("a link of the stage");
        stage.end_arbiters();
    });
}

#[test]
fn the_same_operation_of_two_clients_runs_once() {
    let stage = Stage::new();
    let script = "echo ran >> trace; : > runs; until test -e go; do sleep 0.01; done; echo out";
    let first = run(&stage, &["--op", "same"], &shell(script)).start();
    wait::file(&stage.path("runs"), Deadline::usual());
    let second = run(&stage, &["--op", "same", "--json"], &shell(script)).start();
    until_clients(&stage, "same", 2);
    stage.write("go", "", 0o600);
    first.finish().assert_code(0).assert_stdout("out\n");
    let second = second.finish();
    second.assert_code(0);
    assert_fields(
        &second.json(),
        &json!({ "stdout": "out\n", "reused": "joined_in_flight" }),
    );
    let trace = fs::read_to_string(stage.path("trace")).expect("a trace");
    assert_eq!(trace, "ran\n");
}

/// What was printed before is read from where it is stored.
#[test]
fn whoever_joins_sees_the_output_from_its_beginning() {
    let stage = Stage::new();
    let script =
        "echo early; echo err >&2; : > runs; until test -e go; do sleep 0.01; done; echo late";
    let first = run(&stage, &["--op", "same"], &shell(script)).start();
    wait::file(&stage.path("runs"), Deadline::usual());
    let second = run(&stage, &["--op", "same"], &shell(script)).start();
    until_clients(&stage, "same", 2);
    stage.write("go", "", 0o600);
    let first = first.finish();
    first.assert_code(0).assert_stdout("early\nlate\n");
    let second = second.finish();
    second.assert_code(0).assert_stdout("early\nlate\n");
    second.assert_stderr("err\nxioflow: operation same ran already, and was joined\n");
}

/// Waits until the arbiter knows so many who wait for the operation.
fn until_clients(stage: &Stage, id: &str, clients: u64) {
    wait::until("a client", Deadline::usual(), || {
        let status = stage.xioflow().args(["status", "--json"]).finish().json();
        let in_flight = status["arbiter"]["inFlight"].as_array().cloned();
        let mut in_flight = in_flight.unwrap_or_default().into_iter();
        in_flight.any(|it| it["operationId"] == id && it["clients"] == clients)
    });
}

fn kill(client: Started<'_>) {
    client.signal(Signal::KILL);
    drop(client.finish());
}

#[test]
fn what_a_killed_client_has_started_is_stopped() {
    each_user(|stage| {
        let (words, ready) = fixture(stage, &["escape-setsid", "2"]);
        let client = run(stage, &["--op", "orphan"], &words).start();
        let pids = stage.wait_ready(&ready);
        kill(client);
        let shown = shown(stage, "orphan");
        let expected = json!({ "outcome": "cancelled", "terminationReason": "client_lost" });
        assert_fields(&shown, &expected);
        assert!(pids.iter().all(|pid| !wait::is_alive(*pid)), "{shown:#}");
        assert_eq!(living_commands(stage), Vec::<String>::new());
        // The arbiter goes on for the others.
        run(stage, &[], &["true"]).finish().assert_code(0);
        assert_eq!(stage.arbiters().len(), 1);
        stage.end_arbiters();
    });
}

/// How many clients are killed, each a little later than the one before.
const KILLS: u32 = 200;
/// The difference between two kills; all of them together span a whole submission.
const KILL_STEP: Duration = Duration::from_micros(250);

#[test]
fn clients_killed_at_any_moment_leave_nothing_running() {
    let stage = Stage::new();
    run(&stage, &[], &["true"]).finish().assert_code(0);
    for turn in 0..KILLS {
        let client = run(&stage, &[], &["sleep", "300"]).start();
        // The time is not waited for anything: it is what this test varies.
        let ended = wait::pid_gone(client.pid(), Deadline::after(KILL_STEP * turn));
        assert!(!ended, "it waits for five minutes");
        kill(client);
    }
    let deadline = Deadline::after(Duration::from_secs(60));
    wait::until("an arbiter that runs nothing", deadline, || {
        let status = stage.xioflow().args(["status", "--json"]).finish().json();
        status["arbiter"]["inFlight"] == json!([]) && status["arbiter"]["connections"] == 1
    });
    assert_eq!(living_commands(&stage), Vec::<String>::new());
    let words = ["list", "--json", "--limit", "1000"];
    let listed = stage.xioflow().args(words).finish().json();
    let operations = listed["operations"].as_array().expect("a list");
    assert!(
        operations.len() > 1,
        "none of them came as far as its record"
    );
    for operation in operations.iter().filter(|it| it["name"] == "sleep") {
        let expected = json!({ "outcome": "cancelled", "terminationReason": "client_lost" });
        assert_fields(operation, &expected);
    }
    assert_eq!(stage.arbiters().len(), 1);
}

/// Its pipe breaks, too, but that is not what ends its command.
#[test]
fn a_command_of_a_killed_client_is_not_ended_by_its_pipe() {
    let stage = Stage::new();
    let script = "trap 'echo ended by TERM > trace; exit 0' TERM; : > runs; \
                  while :; do echo line || { echo ended by its pipe > trace; exit 0; }; sleep 0.01; done";
    let client = run(&stage, &["--op", "prints"], &shell(script)).start();
    wait::file(&stage.path("runs"), Deadline::usual());
    kill(client);
    assert_eq!(shown(&stage, "prints")["terminationReason"], "client_lost");
    let trace = fs::read_to_string(stage.path("trace")).expect("a trace");
    assert_eq!(trace, "ended by TERM\n");
}

#[test]
fn what_another_one_waits_for_goes_on() {
    let stage = Stage::new();
    let script = ": > runs; until test -e go; do sleep 0.01; done; echo out";
    let client = run(&stage, &["--op", "shared"], &shell(script)).start();
    wait::file(&stage.path("runs"), Deadline::usual());
    let other = stage.xioflow().args(["attach", "shared"]).start();
    until_clients(&stage, "shared", 2);
    kill(client);
    until_clients(&stage, "shared", 1);
    stage.write("go", "", 0o600);
    other.finish().assert_code(0).assert_stdout("out\n");
}

#[test]
fn a_command_has_what_its_own_client_has() {
    let stage = Stage::new();
    run(&stage, &[], &["true"]).finish().assert_code(0);
    let xioflow = stage.program("xioflow");
    let folder = stage.folder("elsewhere");
    let script = "umask 027; ulimit -n 77; export MINE=\"it's mine\"; \
                  exec nice -n 5 \"$0\" run -- sh -c 'umask; ulimit -n; nice; pwd; echo \"$MINE\"'";
    let finished = stage
        .run("/bin/sh")
        .args(["-c", script, text(&xioflow)])
        .cwd(&folder)
        .finish();
    let expected = format!("0027\n77\n5\n{}\nit's mine\n", folder.display());
    finished.assert_code(0).assert_stdout(expected);
}

#[test]
fn a_run_that_owns_the_domain_needs_no_arbiter() {
    let stage = Stage::new();
    let (finished, document) = run_json(&stage, &["--no-arbiter"], &["echo", "out"]);
    finished.assert_code(0);
    assert_eq!(document["stdout"], "out\n");
    assert_eq!(stage.arbiters(), Vec::<u32>::new());
}
