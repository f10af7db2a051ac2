//! Attaching to an operation that somebody else submitted: all of its output, and nothing done to it.

use std::thread;

use sha2::{Digest, Sha256};
use xioflow_kernel::journal::{Outcome, Stream};
use xioflow_kernel::{
    Attachment, Domain, ExecuteError, NotActive, OperationHandle, Piece, Reuse, Subscription,
};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{events, fixture, open, shell, text};

/// Prints `early` on both streams, stays until the stage's file `gate` is there, prints `late`.
fn start_gated(stage: &Stage, domain: &Domain) -> OperationHandle {
    let script = format!(
        "echo early; echo early >&2; until [ -e {} ]; do :; done; echo late; echo late >&2",
        text(&stage.path("gate"))
    );
    let mut operation = domain.operation(shell(stage, &script)).expect("a builder");
    let output = operation.subscribe();
    let handle = operation.id("gated").start().expect("a thread");
    for _stream in 0..2 {
        output.next_piece().expect("it prints on both streams");
    }
    handle
}

fn open_gate(stage: &Stage) {
    std::fs::write(stage.path("gate"), "").expect("a file of the stage");
}

/// All of one stream, as it comes and from where it is stored; each piece begins where the last ended.
fn collect(output: &Subscription, wanted: Stream) -> (Vec<u8>, Vec<&'static str>) {
    let (mut all, mut kinds) = (Vec::new(), Vec::new());
    while let Some(piece) = output.next_piece() {
        if piece.stream() != wanted {
            continue;
        }
        match piece {
            Piece::Data { offset, bytes, .. } => {
                assert_eq!(offset, all.len() as u64, "a hole or an overlap");
                all.extend(bytes);
                kinds.push("data");
            }
            Piece::Gap { from, to, .. } => {
                assert_eq!(from, all.len() as u64, "a hole or an overlap");
                read_gap(output, wanted, to, &mut all);
                kinds.push("gap");
            }
        }
    }
    (all, kinds)
}

fn read_gap(output: &Subscription, stream: Stream, to: u64, all: &mut Vec<u8>) {
    let mut buffer = vec![0; 64 * 1024];
    while (all.len() as u64) < to {
        let at = all.len() as u64;
        let len = output
            .read_gap(stream, at, &mut buffer)
            .expect("it is stored");
        assert!(len > 0, "nothing is stored at {at}");
        // More than the gap may be stored by now.
        let left = usize::try_from(to - at).expect("a short gap");
        all.extend(&buffer[..len.min(left)]);
    }
}

fn joiners(domain: &Domain) -> usize {
    domain
        .in_flight()
        .expect("ours")
        .iter()
        .map(|flight| flight.joiners)
        .sum()
}

#[test]
fn all_who_attach_see_everything_from_the_beginning() {
    let stage = Stage::new();
    let domain = open(&stage);
    let running = start_gated(&stage, &domain);
    let attached: Vec<Attachment> = (0..3)
        .map(|_| domain.attach("gated").expect("it runs"))
        .collect();
    assert_eq!(joiners(&domain), 3);
    open_gate(&stage);
    let result = running.wait().expect("a result");
    for (attachment, stream) in
        attached
            .into_iter()
            .zip([Stream::Stdout, Stream::Stderr, Stream::Stdout])
    {
        assert_eq!(attachment.run_id(), result.run_id);
        let (seen, kinds) = collect(attachment.subscription(), stream);
        assert_eq!(seen, b"early\nlate\n");
        assert_eq!(kinds, ["gap", "data"]);
        let same = attachment.wait().expect("the same result");
        assert_eq!((same.reused, same.replayed), (Reuse::JoinedInFlight, true));
        assert_eq!(
            (same.stdout, same.stdout_hash),
            (result.stdout.clone(), result.stdout_hash.clone())
        );
    }
    let kinds = events(&domain, "gated");
    assert!(
        !kinds.contains(&"OPERATION_REPLAYED".to_owned()),
        "{kinds:?}"
    );
}

/// Each at another moment of a stream that never pauses, with readers that are too slow now and then.
#[test]
fn what_floods_is_seen_as_it_is_stored() {
    const BYTES: &str = "40000000";
    let stage = Stage::new();
    let domain = open(&stage);
    let command = fixture(&stage, &["flood-output", "stdout", BYTES]);
    let mut operation = domain.operation(command).expect("a builder").id("flood");
    let pace = operation.subscribe();
    let running = operation.start().expect("a thread");
    let hashes: Vec<String> = thread::scope(|scope| {
        let mut readers = Vec::new();
        for _ in 0..6 {
            // Some output later than the one before.
            for _ in 0..4 {
                drop(pace.next_piece());
            }
            let Ok(mut attached) = domain.attach("flood") else {
                continue;
            };
            let output = attached.take_subscription();
            assert_eq!(attached.subscription().next_piece(), None);
            readers.push(scope.spawn(move || {
                let reader = thread::spawn(move || collect(&output, Stream::Stdout).0);
                attached.wait().expect("a result");
                let seen = reader.join().expect("no panic");
                assert_eq!(seen.len().to_string(), BYTES);
                hex(&Sha256::digest(seen))
            }));
        }
        assert!(!readers.is_empty(), "the first came while it ran");
        let join = |reader: thread::ScopedJoinHandle<'_, String>| reader.join().expect("no panic");
        readers.into_iter().map(join).collect()
    });
    let stored = running.wait().expect("a result").stdout_hash;
    for hash in hashes {
        assert_eq!(Some(hash), stored);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Nobody is told of bytes that are nowhere as if they could be read.
#[test]
fn what_is_not_stored_is_a_gap_that_cannot_be_read() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = format!(
        "head -c 200000 /dev/zero; until [ -e {} ]; do :; done; echo end",
        text(&stage.path("gate"))
    );
    let mut operation = domain.operation(shell(&stage, &script)).expect("a builder");
    let output = operation.subscribe();
    let operation = operation.id("much").max_stored_bytes(4000);
    let running = operation.start().expect("a thread");
    let mut printed = 0;
    while printed < 200_000 {
        match output.next_piece().expect("it prints") {
            Piece::Data { bytes, .. } => printed += bytes.len() as u64,
            Piece::Gap { from, to, .. } => printed += to - from,
        }
    }
    let attached = domain.attach("much").expect("it runs");
    open_gate(&stage);
    let gap = Piece::Gap {
        stream: Stream::Stdout,
        from: 0,
        to: 200_000,
    };
    let output = attached.subscription();
    assert_eq!(output.next_piece(), Some(gap));
    let read = |at| output.read_gap(Stream::Stdout, at, &mut [0; 100]);
    assert_eq!(read(0).expect("stored"), 100);
    assert_eq!(read(100_000).expect("no error"), 0);
    let end = Piece::Data {
        stream: Stream::Stdout,
        offset: 200_000,
        bytes: b"end\n".to_vec(),
    };
    assert_eq!(output.next_piece(), Some(end));
    let result = attached.wait().expect("a result");
    assert_eq!(Some(result.stdout_bytes), Some(200_004));
    assert_eq!(
        result.stdout_gap,
        running.wait().expect("a result").stdout_gap
    );
}

/// An attachment is whole however near the end it comes, or there is none.
#[test]
fn one_that_comes_at_the_end_gets_all_or_is_told() {
    let stage = Stage::new();
    let domain = open(&stage);
    let mut attached_to = 0;
    for turn in 0..200 {
        let id = format!("short-{turn}");
        let operation = domain.operation(shell(&stage, "echo one; echo two"));
        let running = operation
            .expect("a builder")
            .id(&id)
            .start()
            .expect("a thread");
        let attached = loop {
            match domain.attach(&id) {
                Ok(attached) => break Some(attached),
                Err(NotActive::NotFound { .. }) => thread::yield_now(),
                Err(NotActive::AlreadyCompleted { .. }) => break None,
                Err(other) => panic!("{other:?}"),
            }
        };
        if turn % 2 == 0 {
            // So the operation is over, or nearly.
            running.wait().expect("a result");
        }
        let Some(attached) = attached else { continue };
        attached_to += 1;
        let (seen, _) = collect(attached.subscription(), Stream::Stdout);
        assert_eq!(seen, b"one\ntwo\n");
        assert_eq!(attached.wait().expect("a result").stdout, "one\ntwo\n");
    }
    assert!(attached_to > 0, "no round attached to anything");
}

#[test]
fn whoever_leaves_leaves_the_operation_alone() {
    let stage = Stage::new();
    let domain = open(&stage);
    let running = start_gated(&stage, &domain);
    let mut dropped = domain.attach("gated").expect("it runs");
    let output = dropped.take_subscription();
    drop(dropped);
    let (seen, _) = collect(&output, Stream::Stdout);
    assert_eq!(seen, b"early\n", "what had come by then");
    let told = domain.attach("gated").expect("it runs");
    told.canceller().cancel().expect("it waits");
    let suspended = told.canceller().suspend();
    assert!(matches!(suspended, Err(NotActive::Joined { .. })));
    let error = told.wait().expect_err("it was told to stop waiting");
    assert!(matches!(error, ExecuteError::JoinAbandoned { .. }));
    let silent = domain.attach("gated").expect("it runs");
    silent.subscription().reader_gone(Stream::Stdout);
    assert_eq!(joiners(&domain), 1);
    open_gate(&stage);
    let result = running.wait().expect("a result");
    assert_eq!(
        (result.status, result.stdout.as_str()),
        (Outcome::Succeeded, "early\nlate\n")
    );
    assert!(silent.wait().is_ok());
}

#[test]
fn there_is_nothing_to_attach_to_before_and_after() {
    let stage = Stage::new();
    let domain = open(&stage);
    let before = domain.attach("short");
    assert!(matches!(before, Err(NotActive::NotFound { .. })));
    let operation = domain.operation(shell(&stage, ":")).expect("a builder");
    operation.id("short").run().expect("a result");
    let after = domain.attach("short");
    assert!(matches!(after, Err(NotActive::AlreadyCompleted { .. })));
}

/// One that waits for its resources is in flight, and may never run.
#[test]
fn an_operation_that_is_refused_has_no_result_for_anybody() {
    let stage = Stage::new();
    let domain = open(&stage);
    let holder = domain
        .operation(shell(&stage, "sleep 600"))
        .expect("a builder");
    let (tell, told) = std::sync::mpsc::channel();
    let holder = holder
        .lease("place")
        .when_active(move |active| tell.send(active).expect("it is awaited"))
        .start()
        .expect("a thread");
    told.recv().expect("it runs");
    let waiting = domain.operation(shell(&stage, ":")).expect("a builder");
    let waiting = waiting
        .id("waiting")
        .lease("place")
        .wait(Deadline::USUAL)
        .start()
        .expect("a thread");
    wait::until("the waiting one", Deadline::usual(), || {
        domain.in_flight().expect("ours").len() == 2
    });
    let attached = domain.attach("waiting").expect("it waits");
    domain.close();
    assert_eq!(attached.subscription().next_piece(), None);
    let refused = attached.wait().expect_err("nothing of it ran");
    assert!(
        matches!(refused, ExecuteError::Refused { .. }),
        "{refused:?}"
    );
    let submitter = waiting.wait().expect_err("the domain was closed");
    assert!(matches!(submitter, ExecuteError::DomainClosed));
    holder.canceller().cancel().expect("it runs");
    holder.wait().expect("a result");
}
