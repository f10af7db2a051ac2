//! Clients that behave badly, each a process, and what a good one notices of them: nothing but a little time.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;
use xioflow_kernel::DomainOptions;
use xioflow_kit::{Deadline, Stage, wait};

use crate::client::{Orders, say, start};
use crate::serving::Serving;

/// How many commands a good client runs beside a bad one.
const COMMANDS: usize = 5;
/// How long one of them may take, on any machine.
const LATENCY_MAX: Duration = Duration::from_secs(10);
/// A socket that takes nothing for so long is not read.
const STUCK: Duration = Duration::from_millis(500);
/// Connections that an arbiter has at most.
const CONNECTIONS_MAX: usize = 1024;
/// Connections of one that never says anything.
const SILENT: usize = 2000;
/// Requests of one that never reads an answer.
const REQUESTS: usize = 1_000_000;
/// A line of this many bytes is longer than any that is taken.
const HUGE: usize = 64 * 1024 * 1024;

const HELLO: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"kernel.hello","params":{"protocol":1,"release":"0.1.0"}}"#;
const STATUS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"domain.status"}"#;

/// One bad client: does what it is for, says that it stands, and stays until it is killed.
pub(crate) fn client(orders: &Orders) {
    let socket = orders.path("domain").join("kernel.sock");
    let connect = || UnixStream::connect(&socket).expect("somebody listens");
    let held: Vec<UnixStream> = match orders.text("kind") {
        "half a line" => vec![half_a_line(connect())],
        "a huge line" => vec![huge_line(greeted(connect()))],
        "requests without end" => vec![requests(greeted(connect()))],
        "a pipe that nobody reads" => vec![unread(greeted(connect()))],
        "descriptors without a request" => vec![descriptors(greeted(connect()))],
        "silence" => many(SILENT, connect),
        "greetings" => many(CONNECTIONS_MAX, || greeted(connect())),
        other => panic!("nobody behaves like {other:?}"),
    };
    say(&json!({ "stands": held.len() }));
    loop {
        std::thread::park();
    }
}

fn greeted(mut stream: UnixStream) -> UnixStream {
    stream
        .write_all(format!("{HELLO}\n").as_bytes())
        .expect("it reads");
    let mut answer = [0; 1024];
    assert_ne!(stream.read(&mut answer).expect("an answer"), 0);
    stream
}

fn half_a_line(mut stream: UnixStream) -> UnixStream {
    stream.write_all(&HELLO.as_bytes()[..20]).expect("it reads");
    stream
}

/// It is not taken to its end.
fn huge_line(mut stream: UnixStream) -> UnixStream {
    let piece = vec![b'x'; 1024 * 1024];
    let refused = (0..HUGE / piece.len()).any(|_| stream.write_all(&piece).is_err());
    assert!(refused, "all of it was taken");
    stream
}

/// They are no longer read before they are all there.
fn requests(mut stream: UnixStream) -> UnixStream {
    stream.set_write_timeout(Some(STUCK)).expect("a time limit");
    let some = format!("{STATUS}\n").repeat(1000);
    let stuck = (0..REQUESTS / 1000).any(|_| stream.write_all(some.as_bytes()).is_err());
    assert!(stuck, "all of them were read");
    stream
}

/// An operation that prints without end into a pipe.
fn unread(mut stream: UnixStream) -> UnixStream {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let asks = json!({ "jsonrpc": "2.0", "id": 1, "method": "op.execProcess", "params": {
        "command": { "program": "/usr/bin/yes", "cwd": "/" },
        "output": "descriptors", "descriptors": ["stdout"],
    }});
    send(&stream, format!("{asks}\n").as_bytes(), &[writer.as_fd()]).expect("it reads");
    let mut answer = [0; 4096];
    let len = stream.read(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
    assert!(answer.contains("operationId"), "{answer}");
    // It lives as long as this process.
    std::mem::drop(std::thread::spawn(move || {
        std::thread::park();
        drop(reader);
    }));
    stream
}

/// More than can wait for a request, beside a line that never ends.
fn descriptors(stream: UnixStream) -> UnixStream {
    let (reader, _writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let refused = (0..1000).any(|_| send(&stream, b" ", &[reader.as_fd(); 8]).is_err());
    assert!(refused, "all of them were taken");
    stream
}

fn send(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
}

fn many(count: usize, connect: impl Fn() -> UnixStream) -> Vec<UnixStream> {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, all).expect("its own limit");
    (0..count).map(|_| connect()).collect()
}

/// Has a bad client stand, and a good one run its commands meanwhile.
fn endured(kind: &str) {
    let stage = Stage::new();
    let arbiter = Serving::start(&stage, &["--client-grace", "0ms"]);
    let orders = json!({ "kind": kind });
    let mut bad = start(&stage, "hostile", &orders, Deadline::USUAL * 4);
    let run = || {
        let run = stage.xioflow().args(["run", "--", "true"]).finish();
        run.assert_code(0);
        run.elapsed
    };
    // While it is at it, and once it stands.
    let before = run();
    bad.wait_for_output(b"stands");
    let slowest = (0..COMMANDS).map(|_| run()).fold(before, Duration::max);
    assert!(slowest < LATENCY_MAX, "{slowest:?} beside {kind}");
    bad.signal(Signal::KILL);
    assert_eq!(bad.finish().status.code(), None, "it was killed");
    let domain = DomainOptions::default()
        .open(stage.domain())
        .expect("an arbiter");
    wait::until("the end of what it asked for", Deadline::usual(), || {
        domain.in_flight().expect("it answers").is_empty()
    });
    assert_eq!(domain.arbiter().expect("it goes on").pid, arbiter.pid());
    drop(domain);
    arbiter.end();
}

#[test]
fn half_a_line_is_endured() {
    endured("half a line");
}

#[test]
fn a_huge_line_is_endured() {
    endured("a huge line");
}

#[test]
fn requests_without_end_are_endured() {
    endured("requests without end");
}

#[test]
fn a_pipe_that_nobody_reads_is_endured() {
    endured("a pipe that nobody reads");
}

#[test]
fn descriptors_without_a_request_are_endured() {
    endured("descriptors without a request");
}

#[test]
fn silence_is_endured() {
    endured("silence");
}

/// The bound itself: those that have greeted are served, and whoever comes after them is told so.
#[test]
fn more_than_there_may_be_are_refused() {
    let stage = Stage::new();
    let arbiter = Serving::start(&stage, &[]);
    let orders = json!({ "kind": "greetings" });
    let mut bad = start(&stage, "hostile", &orders, Deadline::USUAL * 4);
    bad.wait_for_output(b"stands");
    let refused = stage.xioflow().args(["run", "--", "true"]).finish();
    refused
        .assert_code(75)
        .assert_complains("as many connections as it can have");
    bad.signal(Signal::KILL);
    assert_eq!(bad.finish().status.code(), None, "it was killed");
    let run = stage.xioflow().args(["run", "--", "true"]).finish();
    run.assert_code(0);
    arbiter.end();
}
