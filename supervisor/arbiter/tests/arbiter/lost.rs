//! Clients that go away, come back, join and attach.

use std::os::fd::AsFd;

use serde_json::{Value, json};
use xioflow_kernel::journal::{Query, Reader};
use xioflow_kit::{Deadline, Stage, wait};

use crate::common::{Arbiter, Client, options, pipe, read_all, shell};

/// Waits for the recorded result of an operation that nobody here waits for.
fn recorded(arbiter: &Arbiter, id: &str) -> Value {
    let reader = Reader::open(&arbiter.folder).unwrap();
    let deadline = Deadline::usual();
    loop {
        let seen = reader.last_seq().unwrap();
        if let Some(result) = reader.operation(id).unwrap().and_then(|it| it.result) {
            return result;
        }
        let more = reader.changed_since(seen, deadline.left()).unwrap();
        assert!(more.is_some(), "{id} has no result");
    }
}

fn clients_of(client: &mut Client, id: &str) -> Option<u64> {
    let status = client.call("domain.status", json!({}));
    let flights = status["inFlight"].as_array().unwrap().clone();
    let flight = flights.iter().find(|it| it["operationId"] == id)?;
    flight["clients"].as_u64()
}

#[test]
fn what_nobody_waits_for_any_more_is_stopped_as_client_lost() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    client.submit("sleep 600", json!({ "operationId": "left" }));
    drop(client);
    let result = recorded(&arbiter, "left");
    assert_eq!(result["status"], "cancelled");
    assert_eq!(result["terminationReason"], "client_lost");
    assert_eq!(result["stop"]["reason"], "client_lost");
}

#[test]
fn one_that_is_detached_goes_on_without_anybody() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut client, mut other) = (arbiter.client(), arbiter.client());
    let (gate, open) = pipe();
    let more = json!({
        "operationId": "on", "detached": true,
        "stdin": { "from": "descriptor" }, "descriptors": ["stdin"],
    });
    client.submit_with("read line; echo $line", more, &[gate.as_fd()]);
    drop((client, gate));
    // Another one is lost and stopped meanwhile, so its grace would have been over.
    let mut third = arbiter.client();
    third.submit("sleep 600", json!({ "operationId": "off" }));
    drop(third);
    recorded(&arbiter, "off");
    assert_eq!(clients_of(&mut other, "on"), Some(0));
    rustix::io::write(&open, b"late\n").unwrap();
    assert_eq!(recorded(&arbiter, "on")["exitCode"], 0);
}

#[test]
fn a_joiner_keeps_it_and_gets_the_one_result() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut first, mut second) = (arbiter.client(), arbiter.client());
    let script = "echo ran >> ledger; sleep 1";
    let more = json!({ "operationId": "shared", "command": {
        "program": "/bin/sh", "args": ["-c", script], "cwd": stage.path(""),
        "env": [["PATH", "/usr/bin:/bin"]],
    }});
    first.submit(script, more.clone());
    let id = second.send("op.execProcess", shell(script, more));
    let accepted = second.answer(id)["result"].clone();
    assert_eq!(accepted["joined"], true);
    drop(first);
    let result = second.result(id);
    assert_eq!(result["status"], "succeeded");
    assert_eq!(result["reused"], "joined_in_flight");
    let ledger = std::fs::read_to_string(stage.path("ledger")).unwrap();
    assert_eq!(ledger, "ran\n");
}

#[test]
fn a_joiner_that_goes_changes_nothing_and_the_last_one_does() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut first, mut second) = (arbiter.client(), arbiter.client());
    let mut watcher = arbiter.client();
    first.submit("sleep 600", json!({ "operationId": "shared" }));
    second.submit("sleep 600", json!({ "operationId": "shared" }));
    assert_eq!(clients_of(&mut watcher, "shared"), Some(2));
    drop(second);
    wait::until("the joiner's end", Deadline::usual(), || {
        clients_of(&mut watcher, "shared") == Some(1)
    });
    let mut third = arbiter.client();
    third.submit("sleep 600", json!({ "operationId": "shared" }));
    drop(first);
    wait::until("the first one's end", Deadline::usual(), || {
        clients_of(&mut watcher, "shared") == Some(1)
    });
    drop(third);
    let result = recorded(&arbiter, "shared");
    assert_eq!(result["terminationReason"], "client_lost");
}

#[test]
fn one_that_is_lost_before_it_could_begin_never_runs() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut holder, mut client) = (arbiter.client(), arbiter.client());
    let held = holder.submit("sleep 600", json!({ "leases": ["port:1"] }));
    let more = json!({ "operationId": "queued", "leases": ["port:1"], "waitMs": 600_000 });
    client.send("op.execProcess", shell("touch ran", more));
    let mut watcher = arbiter.client();
    wait::until("the submission", Deadline::usual(), || {
        clients_of(&mut watcher, "queued") == Some(1)
    });
    drop(client);
    let result = recorded(&arbiter, "queued");
    assert_eq!(result["status"], "cancelled");
    assert_eq!(result["exitCode"], Value::Null);
    holder.call("op.stop", json!({ "request": held, "graceMs": 0 }));
    holder.result(held);
}

#[test]
fn whoever_attaches_sees_all_of_it_and_its_end_and_leaves_it_alone() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut client, mut other, mut third) = (arbiter.client(), arbiter.client(), arbiter.client());
    let ((gate, open), (out, to_out)) = (pipe(), pipe());
    let more = json!({
        "operationId": "watched",
        "stdin": { "from": "descriptor" }, "descriptors": ["stdin", "stdout"], "output": "descriptors",
    });
    let script = "echo early; read line; echo $line";
    let id = client.submit_with(script, more, &[gate.as_fd(), to_out.as_fd()]);
    drop(to_out);
    let mut early = [0; 6];
    std::io::Read::read_exact(
        &mut std::fs::File::from(out.try_clone().unwrap()),
        &mut early,
    )
    .unwrap();

    let (seen, to_seen) = pipe();
    let attach = json!({
        "operationId": "watched", "output": "descriptors", "descriptors": ["stdout"],
    });
    let attached = other.send_with("op.attach", attach.clone(), &[to_seen.as_fd()]);
    drop(to_seen);
    assert_eq!(other.answer(attached)["result"]["joined"], true);
    // One that attaches and goes, and one that stops what it only attached to, change nothing.
    let (_, to_nobody) = pipe();
    let gone = third.send_with("op.attach", attach, &[to_nobody.as_fd()]);
    assert_eq!(third.answer(gone)["result"]["joined"], true);
    let suspend = third.refused("op.suspend", json!({ "request": gone }));
    assert_eq!(suspend["data"]["kind"], "joined");
    third.call("op.stop", json!({ "request": gone }));
    assert_eq!(third.ended(gone)["error"]["data"]["kind"], "join_abandoned");
    drop(third);

    rustix::io::write(&open, b"late\n").unwrap();
    assert_eq!(other.result(attached)["stdout"], "early\nlate\n");
    assert_eq!(read_all(seen), b"early\nlate\n");
    assert_eq!(client.result(id)["exitCode"], 0);
    let late = other.refused("op.attach", json!({ "operationId": "watched" }));
    assert_eq!(late["data"]["kind"], "already_completed");
    let none = other.refused("op.attach", json!({ "operationId": "none" }));
    assert_eq!(none["data"]["kind"], "not_found");
}

#[test]
fn attaching_within_the_grace_rescues_it() {
    let stage = Stage::new();
    let mut options = options(&stage);
    options.client_grace = std::time::Duration::from_secs(600);
    let arbiter = Arbiter::start_with(&stage, options);
    let (mut client, mut other) = (arbiter.client(), arbiter.client());
    client.submit("sleep 600", json!({ "operationId": "rescued" }));
    drop(client);
    wait::until("the loss", Deadline::usual(), || {
        clients_of(&mut other, "rescued") == Some(0)
    });
    let attached = other.send("op.attach", json!({ "operationId": "rescued" }));
    other.answer(attached);
    assert_eq!(clients_of(&mut other, "rescued"), Some(1));
    other.call(
        "op.cancel",
        json!({ "operationId": "rescued", "graceMs": 0 }),
    );
    assert_eq!(
        other.result(attached)["terminationReason"],
        "user_cancelled"
    );
}

#[test]
fn a_killed_reader_ends_nothing_by_sigpipe() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let ((gate, open), (out, to_out)) = (pipe(), pipe());
    let more = json!({
        "operationId": "printing", "detached": true,
        "stdin": { "from": "descriptor" }, "descriptors": ["stdin", "stdout"], "output": "descriptors",
    });
    let script = "read line; echo much; echo more; exit 7";
    client.submit_with(script, more, &[gate.as_fd(), to_out.as_fd()]);
    drop((client, out, to_out, gate));
    rustix::io::write(&open, b"go\n").unwrap();
    let result = recorded(&arbiter, "printing");
    assert_eq!(
        (&result["exitCode"], &result["signal"]),
        (&json!(7), &Value::Null)
    );
    assert_eq!(result["stdoutBytes"], 10);
}
