//! Descriptors that travel: each is used as the request says and closed once, also where that is refused.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, memfd_create};
use serde_json::{Value, json};
use xioflow_kit::Stage;

use crate::common::{Arbiter, Client, pipe, read_all, shell};

/// Sends a request with the writing end of a pipe, and says whether that was closed over there.
fn sent_away(client: &mut Client, method: &str, params: Value) -> OwnedFd {
    let (reader, writer) = pipe();
    client.send_with(method, params, &[writer.as_fd()]);
    reader
}

#[test]
fn those_of_a_refused_request_are_closed() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let named = |names: Value, output: &str| json!({ "output": output, "descriptors": names });
    for more in [
        named(json!(["stdout", "stdout"]), "descriptors"),
        named(json!(["stdout"]), "none"),
        named(json!(["output"]), "descriptors"),
        named(json!(["stdin"]), "none"),
        named(json!(["stdout", "stderr"]), "descriptors"),
        named(json!([]), "none"),
        named(json!("no list"), "descriptors"),
        json!({ "output": "descriptors", "descriptors": ["stdout"], "name": "x".repeat(5000) }),
        json!({ "output": "descriptors", "descriptors": ["stdout"], "runId": "none" }),
    ] {
        let mut client = arbiter.client();
        let reader = sent_away(&mut client, "op.execProcess", shell("true", more.clone()));
        let id = client.send("domain.status", json!({}));
        // Either the next request is served, or the connection ends: never does it get the others' descriptors.
        drop(client.receive());
        drop(client.receive());
        let _ = id;
        drop(client);
        assert_eq!(read_all(reader), b"", "{more}");
    }
}

#[test]
fn after_a_line_that_cannot_be_read_nobody_gets_its_descriptors() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    for line in [
        "nonsense\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no.such\"}\n",
    ] {
        let mut client = arbiter.client();
        let (reader, writer) = pipe();
        client.say(line.as_bytes(), &[writer.as_fd()]);
        drop(writer);
        client.wait_closed();
        assert_eq!(read_all(reader), b"", "{line}");
        assert!(
            client.kept.iter().any(|it| it["error"].is_object()),
            "{line}"
        );
    }
}

#[test]
fn more_than_can_wait_end_the_connection_and_are_closed() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let (reader, writer) = pipe();
    // Half a line: no request will ever name them.
    for _ in 0..3 {
        client.say(b"{", &[writer.as_fd(), writer.as_fd(), writer.as_fd()]);
    }
    drop(writer);
    client.wait_closed();
    assert_eq!(read_all(reader), b"");
    let limit = client
        .kept
        .iter()
        .find(|it| it["error"].is_object())
        .unwrap();
    assert_eq!(limit["error"]["data"]["subject"]["limit"], "descriptors");
}

#[test]
fn one_connection_that_ends_with_some_of_them_waiting_closes_them() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let (reader, writer) = pipe();
    client.say(b"{", &[writer.as_fd()]);
    drop((writer, client));
    assert_eq!(read_all(reader), b"");
}

#[test]
fn requests_that_come_together_get_their_own() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
    let (pipes, ids): (Vec<_>, Vec<_>) = (0..8)
        .map(|n| {
            let (reader, writer) = pipe();
            let params = shell(&format!("echo {n}"), more.clone());
            let id = client.send_with("op.execProcess", params, &[writer.as_fd()]);
            (reader, id)
        })
        .unzip();
    for (n, reader) in pipes.into_iter().enumerate() {
        assert_eq!(read_all(reader), format!("{n}\n").as_bytes());
    }
    for id in ids {
        assert_eq!(client.result(id)["exitCode"], 0);
    }
}

#[test]
fn none_is_ever_made_non_blocking() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let ((reader, writer), (in_reader, in_writer)) = (pipe(), pipe());
    let more = json!({
        "stdin": { "from": "stream" },
        "output": "descriptors",
        "descriptors": ["stdin", "stdout"],
    });
    let id = client.submit_with("cat", more, &[in_reader.as_fd(), writer.as_fd()]);
    std::fs::File::from(in_writer)
        .write_all(b"through\n")
        .unwrap();
    assert_eq!(client.result(id)["exitCode"], 0);
    for end in [&writer, &in_reader] {
        assert!(!fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK));
    }
    drop(writer);
    assert_eq!(read_all(reader), b"through\n");
}

#[test]
fn input_in_memory_counts_by_its_bytes_and_only_a_file_can_be_it() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let memory = |bytes: &[u8]| {
        let memory = memfd_create(c"input", MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(memory);
        file.write_all(bytes).unwrap();
        file
    };
    let more = json!({
        "operationId": "counted", "stdin": { "from": "memory" }, "descriptors": ["stdin"],
    });
    let id = client.submit_with("wc -c", more.clone(), &[memory(b"12345").as_fd()]);
    assert_eq!(client.result(id)["stdout"].as_str().unwrap().trim(), "5");
    let id = client.submit_with("wc -c", more.clone(), &[memory(b"12345").as_fd()]);
    assert_eq!(client.result(id)["reused"], "replayed_recorded");
    let params = shell("wc -c", more.clone());
    let id = client.send_with(
        "op.execProcess",
        params.clone(),
        &[memory(b"54321").as_fd()],
    );
    let other = client.answer(id);
    assert_eq!(
        other["error"]["data"]["kind"], "operation_id_conflict",
        "{other}"
    );
    let (reader, _writer) = pipe();
    let id = client.send_with("op.execProcess", params, &[reader.as_fd()]);
    assert_eq!(client.answer(id)["error"]["data"]["kind"], "invalid");
}

#[test]
fn one_that_was_refused_and_had_none_leaves_the_next_one_its_own() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    for _ in 0..50 {
        let (reader, writer) = pipe();
        let refused = client.send("op.execProcess", shell("true", json!({ "runId": "none" })));
        let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
        let id = client.send_with(
            "op.execProcess",
            shell("echo mine", more),
            &[writer.as_fd()],
        );
        drop(writer);
        assert_eq!(
            client.answer(refused)["error"]["data"]["kind"],
            "run_closed"
        );
        assert_eq!(client.result(id)["exitCode"], 0);
        assert_eq!(read_all(reader), b"mine\n");
    }
}

#[test]
fn before_the_greeting_there_are_none() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.connect();
    let (reader, writer) = pipe();
    let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
    client.send_with("op.execProcess", shell("echo no", more), &[writer.as_fd()]);
    drop(writer);
    client.wait_closed();
    assert_eq!(client.kept[0]["error"]["data"]["kind"], "not_greeted");
    assert_eq!(read_all(reader), b"");
}
