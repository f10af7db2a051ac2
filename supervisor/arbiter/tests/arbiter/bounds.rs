//! What a slow, silent or hostile client costs others: nothing.

use std::io::Write;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use xioflow_kit::{Deadline, Stage};

use crate::common::{Arbiter, shell};

/// That the arbiter serves somebody else, within a time that only a hang reaches.
fn assert_serves(arbiter: &Arbiter) {
    let mut other = arbiter.client();
    let id = other.submit("echo fine", json!({}));
    assert_eq!(other.result(id)["stdout"], "fine\n");
}

#[test]
fn a_connection_that_does_not_greet_is_closed() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut silent, mut half) = (arbiter.connect(), arbiter.connect());
    half.say(b"{\"jsonrpc\":", &[]);
    assert_serves(&arbiter);
    silent.wait_closed();
    half.wait_closed();
}

#[test]
fn half_a_line_may_stay_and_is_no_end_of_others() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut half = arbiter.client();
    half.say(b"{\"jsonrpc\":\"2.0\",", &[]);
    assert_serves(&arbiter);
    half.say(b"\"id\":\"late\",\"method\":\"domain.status\"}\n", &[]);
    let answer = half.wait_for("the answer", |it| it["id"] == "late");
    assert_eq!(answer["result"]["shuttingDown"], false);
}

#[test]
fn a_line_that_is_too_long_ends_its_connection_alone() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let huge = arbiter.client();
    let mut writer = huge.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let piece = vec![b'x'; 1024 * 1024];
        // It fails once the other end has enough.
        (0..64).any(|_| writer.write_all(&piece).is_err())
    });
    let mut huge = huge;
    assert_serves(&arbiter);
    huge.wait_closed();
    assert!(writing.join().unwrap(), "all of it was taken");
    let refused = huge.kept.iter().find(|it| it["error"].is_object());
    if let Some(refused) = refused {
        assert_eq!(refused["error"]["data"]["subject"]["limit"], "requestBytes");
    }
}

#[test]
fn the_longest_request_is_carried_out_and_those_after_it_in_their_order() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let text = "x".repeat(15 * 1024 * 1024);
    let params = shell(
        "wc -c",
        json!({ "stdin": { "from": "text", "text": text } }),
    );
    let long = client.send("op.execProcess", params);
    // A stop of what comes before it finds that.
    let id = client.send("op.execProcess", shell("sleep 600", json!({})));
    let stop = client.send("op.stop", json!({ "request": id, "graceMs": 0 }));
    assert!(client.answer(stop)["error"].is_null());
    assert_eq!(client.result(id)["status"], "cancelled");
    assert_eq!(
        client.result(long)["stdout"].as_str().unwrap().trim(),
        text.len().to_string()
    );
}

#[test]
fn a_flood_of_requests_whose_answers_nobody_reads_is_no_longer_read() {
    const REQUESTS: usize = 50_000;
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut flood = arbiter.client();
    let mut writer = flood.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"domain.status\"}\n";
        writer.write_all(line.repeat(REQUESTS).as_bytes()).unwrap();
    });
    for _ in 0..5 {
        assert_serves(&arbiter);
    }
    // More than all buffers together hold, so somebody does not read.
    assert!(!writing.is_finished());
    // As soon as answers are read, it goes on, and none is missing.
    for _ in 0..REQUESTS {
        assert_eq!(flood.receive().unwrap()["id"], 1);
    }
    writing.join().unwrap();
}

#[test]
fn with_as_many_unfinished_requests_as_there_may_be_no_more_are_read() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    client.submit(
        "sleep 600",
        json!({ "leases": ["one"], "operationId": "held" }),
    );
    let waits = || shell("true", json!({ "leases": ["one"], "waitMs": 600_000 }));
    let ids: Vec<i64> = (0..300)
        .map(|_| client.send("op.execProcess", waits()))
        .collect();
    let status = client.send("domain.status", json!({}));
    let mut other = arbiter.client();
    xioflow_kit::wait::until("the most there may be", Deadline::usual(), || {
        let status = other.call("domain.status", json!({}));
        status["inFlight"].as_array().unwrap().len() == 256
    });
    assert_serves(&arbiter);
    // Each that ends makes room for the next; the last of all is answered too.
    other.call("op.cancel", json!({ "operationId": "held", "graceMs": 0 }));
    for id in ids {
        assert_eq!(client.result(id)["exitCode"], 0);
    }
    assert!(client.answer(status)["result"].is_object());
}

#[test]
fn a_client_that_goes_at_any_moment_leaves_nothing() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "kernel.hello",
        "params": { "protocol": 1, "release": "t" } });
    let exec = json!({ "jsonrpc": "2.0", "id": 2, "method": "op.execProcess",
        "params": shell("sleep 600", json!({ "output": "chunks" })) });
    let all = format!("{hello}\n{exec}\n");
    for len in (0..all.len()).step_by(7).chain([all.len()]) {
        let mut stream = UnixStream::connect(arbiter.socket()).unwrap();
        // Refused by one that has answered and gone already, which is fine.
        stream.write_all(&all.as_bytes()[..len]).ok();
    }
    let mut watcher = arbiter.client();
    xioflow_kit::wait::until("the end of all", Deadline::usual(), || {
        let status = watcher.call("domain.status", json!({}));
        status["inFlight"] == json!([]) && status["connections"] == 1
    });
}

#[test]
fn numbers_beyond_all_measure_break_nothing() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let most = u64::MAX;
    let more = json!({
        "timeoutGraceMs": most, "waitMs": most, "maxOutputBytes": most, "maxStoredBytes": most,
        "drainTimeoutMs": most, "leases": ["one"],
    });
    let id = client.submit("echo fine", more);
    assert_eq!(client.result(id)["stdout"], "fine\n");
    let refused = client.refused(
        "op.execProcess",
        shell("true", json!({ "timeoutMs": most })),
    );
    assert_eq!(refused["data"]["kind"], "invalid");
    let id = client.submit("sleep 600", json!({ "operationId": "s" }));
    client.call("op.cancel", json!({ "operationId": "s", "graceMs": most }));
    assert_eq!(client.result(id)["status"], "cancelled");
    let read = json!({ "operationId": "s", "stream": "stdout", "from": most, "maxBytes": most });
    assert_eq!(client.call("artifacts.read", read)["base64"], "");
    client.call("journal.read", json!({ "after": i64::MAX }));
    client.call("journal.read", json!({ "after": i64::MIN }));
    let many: Vec<Value> = (0..2000).map(|n| json!(format!("l{n}"))).collect();
    let refused = client.refused("op.execProcess", shell("true", json!({ "leases": many })));
    assert_eq!(refused["data"]["subject"]["limit"], "leases");
    assert_serves(&arbiter);
}

#[test]
fn results_that_nobody_reads_end_the_connection_once_they_are_too_many() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut lazy = arbiter.client();
    // Zero bytes have six letters each, so a result is 3 MiB.
    let zeros = || {
        shell(
            "head -c 500000 /dev/zero",
            json!({ "operationId": "zeros" }),
        )
    };
    let ids: Vec<i64> = (0..20)
        .map(|_| lazy.send("op.execProcess", zeros()))
        .collect();
    assert_serves(&arbiter);
    let mut watcher = arbiter.client();
    xioflow_kit::wait::until("the end of the connection", Deadline::usual(), || {
        watcher.call("domain.status", json!({}))["connections"] == 1
    });
    // What had been told before is whole, and not all of it is there.
    lazy.wait_closed();
    let results = lazy
        .kept
        .iter()
        .filter(|it| it["method"] == "op.result")
        .count();
    assert!(results < ids.len(), "{results} results");
    assert_serves(&arbiter);
}

#[test]
fn a_long_line_without_an_end_is_not_kept_for_ever() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut half = arbiter.client();
    half.say(&vec![b' '; 100_000], &[]);
    assert_serves(&arbiter);
    half.wait_closed();
    assert_eq!(
        half.kept[0]["error"]["data"]["subject"]["limit"],
        "requestSeconds"
    );
}
