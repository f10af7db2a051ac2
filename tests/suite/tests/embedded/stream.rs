//! Output while it comes.

use std::time::Duration;

use xioflow_kernel::journal::{Outcome, Stream, TerminationReason};
use xioflow_kernel::{Piece, StopManner};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{fixture, open, shell, text};

#[test]
fn pieces_arrive_before_the_command_ends() {
    let stage = Stage::new();
    let domain = open(&stage);
    let gate = stage.path("gate");
    let script = format!(
        "echo early; until [ -e {} ]; do :; done; echo late",
        text(&gate)
    );
    let mut operation = domain.operation(shell(&stage, &script)).expect("a builder");
    let pieces = operation.subscribe();
    let handle = operation.start().expect("a thread");
    let first = pieces.next_piece().expect("a piece while it runs");
    let early = Piece::Data {
        stream: Stream::Stdout,
        offset: 0,
        bytes: b"early\n".to_vec(),
    };
    assert_eq!(first, early);
    // The command cannot end before this, so the piece came before its end.
    std::fs::write(&gate, "").expect("a file of the stage");
    let mut rest = Vec::new();
    while let Some(piece) = pieces.next_piece() {
        match piece {
            Piece::Data {
                stream: Stream::Stdout,
                bytes,
                ..
            } => rest.extend(bytes),
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(rest, b"late\n");
    assert_eq!(handle.wait().expect("a result").stdout, "early\nlate\n");
}

#[test]
fn a_subscriber_that_never_reads_holds_nothing_up() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = fixture(&stage, &["flood-output", "both", "8000000"]);
    let mut operation = domain
        .operation(command)
        .expect("a builder")
        .max_output_bytes(1024);
    let pieces = operation.subscribe();
    let result = operation.run().expect("a result");
    assert_eq!(
        (result.exit_code, result.stdout_bytes),
        (Some(0), 8_000_000)
    );
    let mut seen = 0;
    while let Some(piece) = pieces.next_piece() {
        match piece {
            Piece::Data {
                stream: Stream::Stdout,
                bytes,
                ..
            } => seen += bytes.len() as u64,
            Piece::Gap {
                stream: Stream::Stdout,
                from,
                to,
            } => seen += to - from,
            Piece::Data { .. } | Piece::Gap { .. } => {}
        }
    }
    assert_eq!(seen, 8_000_000, "what was dropped is named");
}

/// What is missed is missed at random, most often the first line.
#[test]
fn both_lines_a_thousand_times() {
    let stage = Stage::new();
    let domain = open(&stage);
    for _ in 0..1000 {
        let command = shell(&stage, "echo first; echo second");
        let result = domain.run(command).expect("a result");
        assert_eq!(result.stdout, "first\nsecond\n");
    }
}

/// Beyond the room for storing, what is handed on must not be less than what was printed.
#[test]
fn a_lossless_subscriber_gets_what_is_stored_nowhere() {
    const LEN: u64 = 5_000_000;
    let stage = Stage::new();
    let domain = open(&stage);
    let command = fixture(&stage, &["flood-output", "stdout", &LEN.to_string()]);
    let mut operation = domain
        .operation(command)
        .expect("a builder")
        .max_stored_bytes(100_000);
    let pieces = operation.subscribe_lossless();
    let handle = operation.start().expect("a thread");
    let mut seen = 0;
    while let Some(piece) = pieces.next_piece() {
        let Piece::Data { offset, bytes, .. } = piece else {
            panic!("{piece:?} after {seen} bytes");
        };
        assert_eq!(offset, seen);
        seen += bytes.len() as u64;
    }
    assert_eq!(seen, LEN);
    let result = handle.wait().expect("a result");
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), LEN));
    assert_eq!(result.status, Outcome::Succeeded);
}

#[test]
fn one_that_waits_for_its_reader_can_be_stopped() {
    let stage = Stage::new();
    let domain = open(&stage);
    let flood = || {
        let command = fixture(&stage, &["flood-output", "both", "100000000"]);
        let operation = domain.operation(command).expect("a builder");
        operation.max_stored_bytes(0)
    };
    let mut cancelled = flood();
    let never_read = cancelled.subscribe_lossless();
    let handle = cancelled.id("held up").start().expect("a thread");
    wait::until("its submission", Deadline::usual(), || {
        domain
            .cancel("held up", StopManner::Terminate, Duration::from_secs(60))
            .is_ok()
    });
    assert_eq!(handle.wait().expect("a result").status, Outcome::Cancelled);
    drop(never_read);
    let mut limited = flood().timeout(Duration::from_millis(200));
    let never_read = limited.subscribe_lossless();
    let result = limited.run().expect("a result");
    assert_eq!(result.termination_reason, Some(TerminationReason::TimedOut));
    assert_eq!(result.status, Outcome::Failed, "{:?}", result.reason);
    drop(never_read);
    // Whoever goes away is not waited for.
    let mut left = flood();
    drop(left.subscribe_lossless());
    assert_eq!(left.run().expect("a result").exit_code, Some(0));
}
