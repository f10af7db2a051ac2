//! Output as it comes: whole before its end is seen, in frames, in chunks, and closed on demand.

use std::io::Read;
use std::os::fd::AsFd;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Stage, wait};
use xioflow_rpc::piece::{HEADER_LEN, Header};

use crate::common::{Arbiter, pipe, read_all};

#[test]
fn all_of_it_has_come_before_the_pipe_ends_however_slow_the_reader_is() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let (out, to_out) = pipe();
    let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
    let id = client.submit_with("seq 1 700000", more, &[to_out.as_fd()]);
    drop(to_out);
    // The result waits for nobody who reads a pipe.
    let ended = client.ended(id);
    assert_eq!(ended["outputOmitted"], true);
    assert_eq!(ended["result"]["stdout"], "");
    assert_eq!(ended["result"]["stdoutTruncated"], false);
    let printed = read_all(out);
    assert_eq!(ended["result"]["stdoutBytes"], printed.len());
    let last = printed.rsplit(|it| *it == b'\n').nth(1).unwrap();
    assert_eq!(last, b"700000");
    assert_eq!(printed.iter().filter(|it| **it == b'\n').count(), 700_000);
}

#[test]
fn into_a_file_it_is_whole_when_the_result_comes() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    for _ in 0..20 {
        let file = std::fs::File::create(stage.path("log")).unwrap();
        let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
        let id = client.submit_with("seq 1 20000", more, &[file.as_fd()]);
        let result = client.result(id);
        let len = std::fs::metadata(stage.path("log")).unwrap().len();
        assert_eq!(result["stdoutBytes"], len);
    }
}

#[test]
fn a_reader_that_never_reads_costs_nobody_else_anything() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut lazy, mut other) = (arbiter.client(), arbiter.client());
    let (out, to_out) = pipe();
    let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
    let id = lazy.submit_with("head -c 4000000 /dev/zero", more, &[to_out.as_fd()]);
    // The command does not wait for it, nor does anybody else.
    assert_eq!(lazy.result(id)["exitCode"], 0);
    let id = other.submit("echo fine", json!({}));
    assert_eq!(other.result(id)["stdout"], "fine\n");
    drop((out, to_out));
}

#[test]
fn frames_say_where_each_byte_belongs() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let (out, to_out) = pipe();
    let more = json!({ "output": "frames", "descriptors": ["output"] });
    let id = client.submit_with("echo one; echo two >&2", more, &[to_out.as_fd()]);
    drop(to_out);
    let (bytes, mut streams) = (read_all(out), [Vec::new(), Vec::new()]);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (header, more) = rest.split_at(HEADER_LEN);
        let header = Header::decode(header.try_into().unwrap()).unwrap();
        assert!(!header.is_gap);
        let (data, more) = more.split_at(usize::try_from(header.len).unwrap());
        let stream =
            &mut streams[usize::from(header.stream != xioflow_rpc::operation::Stream::Stdout)];
        assert_eq!(header.offset, stream.len() as u64);
        stream.extend_from_slice(data);
        rest = more;
    }
    assert_eq!(streams, [b"one\n".to_vec(), b"two\n".to_vec()]);
    assert_eq!(client.result(id)["exitCode"], 0);
}

/// What chunks and gaps of a request came to: the bytes that were seen, and how many were left out.
fn put_together(messages: &[Value], request: i64) -> (u64, u64) {
    let (mut at, mut left_out) = (0, 0);
    for message in messages {
        let news = &message["params"];
        if news["request"] != request {
            continue;
        }
        if message["method"] == "op.chunk" {
            assert_eq!(news["offset"], at, "chunks and gaps follow each other");
            at += STANDARD
                .decode(news["base64"].as_str().unwrap())
                .unwrap()
                .len() as u64;
        } else if message["method"] == "op.gap" {
            assert_eq!(news["from"], at, "chunks and gaps follow each other");
            assert_eq!(news["why"], Value::Null, "it is stored");
            left_out += news["to"].as_u64().unwrap() - at;
            at = news["to"].as_u64().unwrap();
        }
    }
    (at, left_out)
}

#[test]
fn chunks_come_in_order_and_before_the_result() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let id = client.submit("seq 1 5000", json!({ "output": "chunks" }));
    let ended = client.ended(id);
    let bytes = ended["result"]["stdoutBytes"].as_u64().unwrap();
    assert_eq!(put_together(&client.kept, id), (bytes, 0));
}

#[test]
fn chunks_that_nobody_reads_are_left_out_and_named_and_the_result_comes() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut lazy, mut other) = (arbiter.client(), arbiter.client());
    let params = json!({ "output": "chunks", "operationId": "flood" });
    let id = lazy.send(
        "op.execProcess",
        crate::common::shell("head -c 20000000 /dev/zero", params),
    );
    // Its end is seen by somebody else, while it reads nothing.
    let second = other.send(
        "op.execProcess",
        crate::common::shell(
            "head -c 20000000 /dev/zero",
            json!({ "operationId": "flood" }),
        ),
    );
    assert_eq!(other.result(second)["exitCode"], 0);
    let ended = lazy.ended(id);
    assert_eq!(ended["outputOmitted"], true);
    let (seen, left_out) = put_together(&lazy.kept, id);
    assert_eq!(seen, 20_000_000);
    assert!(left_out > 10_000_000, "{left_out} bytes were left out");
    // They are stored.
    let read = lazy.call(
        "artifacts.read",
        json!({ "operationId": "flood", "stream": "stdout", "from": 19_999_990 }),
    );
    assert_eq!(
        STANDARD.decode(read["base64"].as_str().unwrap()).unwrap(),
        [0; 10]
    );
}

#[test]
fn a_closed_stream_gives_the_command_sigpipe() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let (out, to_out) = pipe();
    let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
    let id = client.submit_with("exec yes", more, &[to_out.as_fd()]);
    drop((out, to_out));
    client.call(
        "op.closeStream",
        json!({ "request": id, "stream": "stdout" }),
    );
    let result = client.result(id);
    assert_eq!(result["signal"], "SIGPIPE");
    let late = client.refused(
        "op.closeStream",
        json!({ "request": id, "stream": "stdout" }),
    );
    assert_eq!(late["data"]["kind"], "already_completed");
}

#[test]
fn a_tree_stands_still_and_goes_on() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let (out, to_out) = pipe();
    let more = json!({ "output": "descriptors", "descriptors": ["stdout"] });
    let id = client.submit_with("echo $$; exec sleep 600", more, &[to_out.as_fd()]);
    let mut line = [0; 32];
    let len = std::fs::File::from(out).read(&mut line).unwrap();
    let pid: u32 = String::from_utf8_lossy(&line[..len])
        .trim()
        .parse()
        .unwrap();
    client.call("op.suspend", json!({ "request": id }));
    wait::until("the suspension", Deadline::usual(), || {
        wait::state(pid) == Some('T')
    });
    client.call("op.resume", json!({ "request": id }));
    wait::until("the resumption", Deadline::usual(), || {
        wait::state(pid) == Some('S')
    });
    client.call("op.stop", json!({ "request": id, "graceMs": 0 }));
    assert_eq!(client.result(id)["status"], "cancelled");
}

#[test]
fn a_result_holds_what_is_asked_for_or_says_that_it_travels_without() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let printed = 1_500_000;
    for (asked, omitted, truncated) in [
        (json!(100), false, true),
        (json!(1_000_000), false, true),
        (json!(1_200_000), true, true),
        (json!(1_500_000), true, false),
        (Value::Null, true, false),
    ] {
        let script = format!("head -c {printed} /dev/zero | tr '\\0' x");
        // The same operation, from its execution and then from the record.
        let mut more = json!({ "operationId": "printed" });
        if !asked.is_null() {
            more["maxOutputBytes"] = asked.clone();
        }
        let id = client.submit(&script, more);
        let ended = client.ended(id);
        let result = &ended["result"];
        assert_eq!(ended["outputOmitted"], omitted, "{asked}");
        assert_eq!(result["stdoutTruncated"], truncated, "{asked}");
        assert_eq!(result["isTruncated"], truncated, "{asked}");
        assert_eq!(result["stdoutBytes"], printed);
        let held = result["stdout"].as_str().unwrap().len() as u64;
        // The kernel divides it between the beginning and the end, so a byte may be left.
        let most = if omitted { 0 } else { asked.as_u64().unwrap() };
        assert!(held <= most && held + 1 >= most, "{held} of {asked}");
    }
}
