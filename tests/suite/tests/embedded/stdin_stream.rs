//! Standard input that is written while the command runs.

use std::io::{ErrorKind, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use xioflow_kernel::journal::Stream;
use xioflow_kernel::{Domain, ExecuteError, OperationBuilder, Piece, StdinWriter, Subscription};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{command, fixture, open, shell, text, times_run, traced};

/// More than a pipe takes, so that writing it needs a reader.
const MUCH: usize = 1024 * 1024;

fn next_output(pieces: &Subscription) -> Vec<u8> {
    match pieces.next_piece() {
        Some(Piece::Data {
            stream: Stream::Stdout,
            bytes,
            ..
        }) => bytes,
        other => panic!("expected output, got {other:?}"),
    }
}

/// Nobody reads it, and the writer is told so instead of being left to wait.
fn assert_broken(mut writer: StdinWriter) {
    let (done, told) = mpsc::channel();
    thread::spawn(move || done.send(writer.write_all(&[b'x'; MUCH])));
    let written = told.recv_timeout(Deadline::USUAL);
    let error = written
        .expect("the writer is left to wait")
        .expect_err("a broken pipe");
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

/// With a timeout, so that a command which never sees the end of its input fails the test.
fn streamed(operation: OperationBuilder) -> (OperationBuilder, StdinWriter) {
    let mut operation = operation.timeout(Deadline::USUAL);
    let writer = operation.stdin_stream();
    (operation, writer)
}

fn reader(domain: &Domain, stage: &Stage) -> (OperationBuilder, StdinWriter) {
    let command = fixture(stage, &["read-stdin"]);
    streamed(domain.operation(command).expect("a builder"))
}

#[test]
fn command_and_host_can_take_turns() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = "while read line; do echo \"heard $line\"; done";
    let (mut operation, mut writer) =
        streamed(domain.operation(shell(&stage, script)).expect("a builder"));
    let pieces = operation.subscribe();
    let handle = operation.start().expect("a thread");
    for word in ["one", "two"] {
        writeln!(writer, "{word}").expect("the command reads");
        assert_eq!(next_output(&pieces), format!("heard {word}\n").as_bytes());
    }
    drop(writer);
    let result = handle.wait().expect("a result");
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), 20));
}

#[test]
fn what_was_written_before_the_start_is_read() {
    let stage = Stage::new();
    let domain = open(&stage);
    let (operation, mut writer) = reader(&domain, &stage);
    writer.write_all(b"early\xff").expect("room in the pipe");
    drop(writer);
    let result = operation.run().expect("a result");
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), 6));
    let (operation, writer) = reader(&domain, &stage);
    drop(writer);
    let result = operation.run().expect("a result");
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), 0));
}

#[test]
fn much_can_be_written_from_another_thread() {
    let stage = Stage::new();
    let domain = open(&stage);
    let (operation, mut writer) = reader(&domain, &stage);
    let writing = thread::spawn(move || writer.write_all(&vec![b'x'; 8 * MUCH]));
    let result = operation.run().expect("a result");
    writing.join().expect("no panic").expect("all was read");
    assert_eq!(result.stdout_bytes, 8 * MUCH as u64);
}

#[test]
fn it_can_be_opened_by_its_name() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = shell(&stage, "cat /dev/stdin | wc -l");
    let (operation, mut writer) = streamed(domain.operation(command).expect("a builder"));
    writer.write_all(b"a\nb\n").expect("room in the pipe");
    drop(writer);
    assert_eq!(operation.run().expect("a result").stdout.trim(), "2");
}

#[test]
fn a_command_that_does_not_read_ends_as_usual() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = fixture(&stage, &["exit", "0"]);
    let (operation, writer) = streamed(domain.operation(command).expect("a builder"));
    let result = operation.run().expect("a result");
    assert_eq!((result.exit_code, result.spawn_failure), (Some(0), None));
    assert_broken(writer);
}

#[test]
fn a_command_that_closes_its_input_is_noticed_while_it_runs() {
    let stage = Stage::new();
    let domain = open(&stage);
    let gate = stage.path("gate");
    let script = format!("exec <&-; until [ -e {} ]; do :; done", text(&gate));
    let (operation, writer) =
        streamed(domain.operation(shell(&stage, &script)).expect("a builder"));
    let handle = operation.start().expect("a thread");
    assert_broken(writer);
    std::fs::write(gate, "").expect("a file of the stage");
    assert_eq!(handle.wait().expect("a result").exit_code, Some(0));
}

#[test]
fn other_operations_keep_no_end_of_it() {
    let stage = Stage::new();
    let domain = open(&stage);
    let gate = stage.path("gate");
    let (first, mut writer) = reader(&domain, &stage);
    let first = first.start().expect("a thread");
    let script = format!("touch {0}.ready; until [ -e {0} ]; do :; done", text(&gate));
    let other = domain.operation(shell(&stage, &script)).expect("a builder");
    let other = other.start().expect("a thread");
    wait::file(&stage.path("gate.ready"), Deadline::usual());
    writer.write_all(b"x").expect("room in the pipe");
    drop(writer);
    // It ends while the other one still runs.
    assert_eq!(first.wait().expect("a result").stdout, "x");
    std::fs::write(gate, "").expect("a file of the stage");
    other.wait().expect("a result");
}

#[test]
fn an_operation_that_is_answered_from_the_record_reads_nothing() {
    let stage = Stage::new();
    let domain = open(&stage);
    for (round, replayed) in [(1, false), (2, true)] {
        let operation = domain.operation(traced(&stage)).expect("a builder");
        let (operation, writer) = streamed(operation.id("once"));
        let result = operation.run().expect("a result");
        assert_eq!(
            (result.replayed, times_run(&stage)),
            (replayed, 1),
            "{round}"
        );
        assert_broken(writer);
    }
    let plain = domain.operation(traced(&stage)).expect("a builder");
    let refused = plain.id("once").run();
    assert!(
        matches!(refused, Err(ExecuteError::IdConflict { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_submission_that_joins_keeps_its_writer_until_the_end() {
    let stage = Stage::new();
    let domain = open(&stage);
    let submit = || {
        let operation = domain.operation(fixture(&stage, &["read-stdin"]));
        streamed(operation.expect("a builder").id("shared"))
    };
    let (mut first, mut writer) = submit();
    let pieces = first.subscribe();
    let first = first.start().expect("a thread");
    writer.write_all(b"heard").expect("it reads");
    assert_eq!(next_output(&pieces), b"heard");
    let (second, late) = submit();
    let second = second.start().expect("a thread");
    // It has no reader of its own, and waits for the end of the operation that it joins.
    let waiting = thread::spawn(move || assert_broken(late));
    drop(writer);
    assert_eq!(first.wait().expect("a result").stdout, "heard");
    let second = second.wait().expect("a result");
    assert_eq!((second.replayed, second.stdout.as_str()), (true, "heard"));
    waiting.join().expect("the writer is told");
}

#[test]
fn an_operation_that_does_not_start_reads_nothing() {
    let stage = Stage::new();
    let domain = open(&stage);
    let missing = command(&stage, stage.path("missing"), &[]);
    let (operation, writer) = streamed(domain.operation(missing).expect("a builder"));
    assert!(operation.run().expect("a result").spawn_failure.is_some());
    assert_broken(writer);
    let invalid = domain.operation(traced(&stage).env("", "x"));
    let (operation, writer) = streamed(invalid.expect("a builder"));
    assert!(matches!(operation.run(), Err(ExecuteError::Invalid(_))));
    assert_broken(writer);
    let (operation, writer) = streamed(domain.operation(traced(&stage)).expect("a builder"));
    operation.canceller().cancel().expect("it has not ended");
    operation.run().expect("a result");
    assert_broken(writer);
    let (operation, writer) = streamed(domain.operation(traced(&stage)).expect("a builder"));
    drop(operation);
    assert_broken(writer);
    assert_eq!(times_run(&stage), 0);
}

#[test]
fn a_later_stream_breaks_an_earlier_one() {
    let stage = Stage::new();
    let domain = open(&stage);
    let (mut operation, first) = reader(&domain, &stage);
    let mut second = operation.stdin_stream();
    assert_broken(first);
    second.write_all(b"second").expect("room in the pipe");
    drop(second);
    assert_eq!(operation.run().expect("a result").stdout, "second");
}

#[test]
fn a_stop_breaks_it() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = fixture(&stage, &["sleep"]);
    let operation = domain.operation(command).expect("a builder");
    let (operation, writer) = streamed(operation);
    let operation = operation.timeout(Duration::from_millis(200));
    let handle = operation.start().expect("a thread");
    // It waits for a reader, until the timeout has ended the only one there could be.
    assert_broken(writer);
    assert!(handle.wait().expect("a result").stop.is_some());
}
