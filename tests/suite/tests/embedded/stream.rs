//! Output while it comes.

use xioflow_kernel::Piece;
use xioflow_kernel::journal::Stream;
use xioflow_kit::Stage;

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
