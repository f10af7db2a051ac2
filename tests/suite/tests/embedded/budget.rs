//! Output that is larger than the room for it: never more on disk than allowed, never a failure of
//! the command, and what is missing is named.

use std::fs;
use std::path::PathBuf;
use std::thread;

use xioflow_kernel::journal::{Gap, Outcome, Stream};
use xioflow_kernel::{
    Domain, DomainOptions, Extent, OperationResult, Piece, RunHandle, artifact_name,
};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{fixture, open, open_with, shell};

/// Where the end of a long stream goes, at most.
const TAIL_MAX: u64 = 64 * 1024;

/// What may be stored of each stream in most of these tests.
const ROOM: u64 = 1024 * 1024;

/// The fixture's flood: numbered lines of 16 bytes.
fn flood(len: u64) -> Vec<u8> {
    let lines: String = (0..len.div_ceil(16))
        .map(|line| format!("{line:015}\n"))
        .collect();
    lines.as_bytes()[..usize::try_from(len).expect("a test's length")].to_vec()
}

fn run(stage: &Stage, domain: &Domain, id: &str, len: u64, room: u64) -> OperationResult {
    let command = fixture(stage, &["flood-output", "stdout", &len.to_string()]);
    let operation = domain.operation(command).expect("a builder").id(id);
    operation.max_stored_bytes(room).run().expect("a result")
}

fn folder(domain: &Domain) -> PathBuf {
    domain.folder().join("artifacts")
}

/// The length of everything in the artifacts folder.
fn on_disk(domain: &Domain) -> u64 {
    let entries = fs::read_dir(folder(domain)).expect("the folder");
    entries
        .filter_map(|entry| entry.expect("an entry").metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// What the stream's reader gives, with the missing part left out.
fn read_all(domain: &Domain, id: &str) -> Vec<u8> {
    let output = domain.output(id, Stream::Stdout).expect("a reader");
    let (mut at, mut bytes, mut buffer) = (0, Vec::new(), vec![0; 50_000]);
    loop {
        match output.extent(at).expect("an extent") {
            Extent::End => return bytes,
            Extent::Missing { to } => at = to,
            Extent::Stored { .. } => {
                let len = output.read_at(at, &mut buffer).expect("stored bytes");
                bytes.extend_from_slice(&buffer[..len]);
                at += len as u64;
            }
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_stream_beyond_its_room_keeps_both_ends_and_names_the_gap() {
    let stage = Stage::new();
    let domain = open(&stage);
    let (len, bytes) = (5_000_000, flood(5_000_000));
    let result = run(&stage, &domain, "op", len, ROOM);
    assert_eq!(
        (result.status, result.exit_code),
        (Outcome::Succeeded, Some(0))
    );
    let gap = Gap {
        from: ROOM - TAIL_MAX,
        to: len - TAIL_MAX,
    };
    assert_eq!((result.stdout_gap, result.stderr_gap), (Some(gap), None));
    assert_eq!(result.spill_error, None, "it is no error");
    assert_eq!(
        (result.stdout_bytes, result.stdout_lines),
        (len, Some(len.div_ceil(16)))
    );
    let file = folder(&domain).join(result.stdout_ref.as_ref().expect("a file"));
    let stored = fs::read(file).expect("the file");
    let head = usize::try_from(gap.from).expect("an offset");
    assert_eq!(stored, &bytes[..head]);
    assert_eq!(result.stdout_hash, Some(sha256(&stored)));
    assert!(result.is_truncated && result.stdout_truncated);
    let text = result.stdout.as_bytes();
    assert!(text.starts_with(&bytes[..head]));
    assert!(text.ends_with(&bytes[bytes.len() - 64 * 1024..]));
    assert!(
        result
            .stdout
            .contains(&format!("truncated {} bytes", gap.to - gap.from))
    );
    let again = run(&stage, &domain, "op", len, ROOM);
    assert!(again.replayed);
    assert_eq!(again.stdout, result.stdout);
    assert_eq!(again.stdout_gap, Some(gap));
}

#[test]
fn a_replay_says_the_same_whatever_the_room() {
    let stage = Stage::new();
    let domain = open(&stage);
    let len = 200_000;
    let bytes = flood(len);
    for room in [
        0, 1, 79, 100, 1000, 16_384, 65_535, 65_536, 65_537, 100_000, 199_999, 200_000, 300_000,
    ] {
        let id = format!("room-{room}");
        let before = on_disk(&domain);
        let live = run(&stage, &domain, &id, len, room);
        let stored = read_all(&domain, &id);
        assert_eq!(stored.len() as u64, room.min(len), "room {room}");
        let gap = live.stdout_gap.map_or(0, |gap| gap.to - gap.from);
        assert_eq!(gap, len.saturating_sub(room), "room {room}");
        let taken = on_disk(&domain) - before;
        assert!(taken <= room, "{taken} bytes on disk, room {room}");
        assert_eq!(live.stdout_truncated, room < len);
        if room >= len {
            assert_eq!(live.stdout.as_bytes(), bytes);
        }
        if live.stdout_ref.is_none() {
            assert!(room <= 65_536);
            assert_eq!(live.stdout_hash, Some(sha256(&stored)), "room {room}");
        }
        let again = run(&stage, &domain, &id, len, room);
        assert!(again.replayed);
        assert_eq!(again.stdout, live.stdout, "room {room}");
        assert_eq!(again.stdout_gap, live.stdout_gap);
    }
}

#[test]
fn what_fits_exactly_is_one_whole_file() {
    let stage = Stage::new();
    let domain = open(&stage);
    let result = run(&stage, &domain, "op", ROOM, ROOM);
    assert_eq!(result.stdout_gap, None);
    let file = folder(&domain).join(result.stdout_ref.expect("a file"));
    let stored = fs::read(file).expect("the file");
    assert_eq!(stored, flood(ROOM));
    assert_eq!(result.stdout_hash, Some(sha256(&stored)));
    assert_eq!(result.stdout.as_bytes(), stored);
}

/// The last bytes are in no file while the command may print more. A subscriber that is too slow
/// for them has them all the same.
#[test]
fn a_slow_subscriber_is_given_the_end_before_it_is_in_a_file() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = format!("head -c {} /dev/zero; echo done >&2; read end", 3 * ROOM);
    let mut operation = domain
        .operation(shell(&stage, &script))
        .expect("a builder")
        .id("op");
    let end = operation.stdin_stream();
    let pieces = operation.subscribe();
    let running = thread::spawn(move || operation.max_stored_bytes(3 * ROOM).run());
    // It is read behind all of the standard output that was written before it.
    let behind = folder(&domain).join(artifact_name("op", Stream::Stderr));
    wait::file(&behind, Deadline::usual());
    let mut seen = 0;
    while seen < 3 * ROOM {
        match pieces.next_piece().expect("a piece") {
            Piece::Data {
                stream: Stream::Stdout,
                bytes,
                ..
            } => seen += bytes.len() as u64,
            Piece::Gap {
                stream: Stream::Stdout,
                to,
                ..
            } => {
                while seen < to {
                    let mut buffer = vec![1; usize::try_from(to - seen).expect("a length")];
                    let read = pieces.read_gap(Stream::Stdout, seen, &mut buffer);
                    let len = read.expect("what is stored");
                    assert!(len > 0, "nothing stands at {seen} of {to}");
                    assert_eq!(buffer[..len], vec![0; len]);
                    seen += len as u64;
                }
            }
            Piece::Data { .. } | Piece::Gap { .. } => {}
        }
    }
    drop(end);
    let result = running.join().expect("no panic").expect("a result");
    assert_eq!((result.stdout_bytes, result.stdout_gap), (3 * ROOM, None));
}

/// What it was too slow for it reads from the file, as far as that goes, and nothing else.
#[test]
fn a_slow_subscriber_is_given_only_what_is_stored() {
    let stage = Stage::new();
    let domain = open(&stage);
    let len = 6_000_000;
    let command = fixture(&stage, &["flood-output", "stdout", &len.to_string()]);
    let mut operation = domain
        .operation(command)
        .expect("a builder")
        .max_stored_bytes(2 * ROOM);
    let pieces = operation.subscribe();
    let result = operation.run().expect("a result");
    let stored_to = result.stdout_gap.expect("a gap").from;
    let bytes = flood(len);
    let (mut at, mut missing) = (0, 0);
    while let Some(piece) = pieces.next_piece() {
        match piece {
            Piece::Data { bytes: some, .. } => {
                assert!(bytes[at..].starts_with(&some), "at {at}");
                at += some.len();
            }
            Piece::Gap { from, to, .. } => {
                assert_eq!(from, at as u64);
                let mut buffer = vec![0; usize::try_from(to - from).expect("a length")];
                let len = pieces.read_gap(Stream::Stdout, from, &mut buffer);
                let len = len.expect("the stored part");
                assert!(bytes[at..].starts_with(&buffer[..len]));
                // A short read may still have fitted in between, so a gap can begin behind all that is stored.
                assert_eq!(from + len as u64, to.min(stored_to).max(from));
                missing += to - from - len as u64;
                at = usize::try_from(to).expect("an offset");
            }
        }
    }
    assert_eq!(at as u64, len);
    assert!(missing > 0, "nothing was missed");
}

/// Looked at each time that output arrives: the file stops growing while the command goes on.
#[test]
fn it_is_never_above_its_room_while_the_command_runs() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = shell(
        &stage,
        "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2",
    );
    let mut operation = domain
        .operation(command)
        .expect("a builder")
        .id("op")
        .max_stored_bytes(ROOM);
    let pieces = operation.subscribe();
    let handle = operation.start().expect("a thread");
    let mut looks = 0;
    while pieces.next_piece().is_some() {
        let there = on_disk(&domain);
        assert!(there <= 2 * ROOM, "{there} bytes");
        looks += 1;
    }
    assert!(looks > 10, "{looks} looks");
    let result = handle.wait().expect("a result");
    assert_eq!(
        (result.stdout_bytes, result.stderr_bytes),
        (20_000_000, 20_000_000)
    );
    assert!(result.stdout_gap.is_some() && result.stderr_gap.is_some());
    assert!(on_disk(&domain) <= 2 * ROOM);
}

#[test]
fn operations_share_the_room_of_their_domain() {
    let stage = Stage::new();
    let max = 1_000_000;
    let options = || DomainOptions::default().max_artifact_bytes(max);
    let domain = open_with(&stage, options());
    // Its host may still read what they printed, so none of it makes room for another.
    let host = domain
        .begin_run("host", &serde_json::json!({}))
        .expect("a Run");
    let run_in = |host: &RunHandle, id: &str| {
        let command = fixture(&stage, &["flood-output", "stdout", "600000"]);
        let operation = host.operation(command).expect("a builder").id(id);
        operation
            .max_stored_bytes(u64::MAX)
            .run()
            .expect("a result")
    };
    let whole = run_in(&host, "first");
    assert_eq!(whole.stdout_gap, None);
    assert_eq!(domain.artifact_bytes().expect("ours").used, 600_000);
    let part = run_in(&host, "second");
    assert_eq!(
        part.stdout_gap,
        Some(Gap {
            from: 400_000 - TAIL_MAX,
            to: 600_000 - TAIL_MAX
        })
    );
    assert_eq!(
        domain.artifact_bytes().expect("ours").used,
        on_disk(&domain)
    );
    let host_id = host.id().to_owned();
    drop((host, domain));
    let domain = open_with(&stage, options());
    assert_eq!(
        domain.artifact_bytes().expect("ours").used,
        on_disk(&domain)
    );
    assert_eq!(domain.artifact_bytes().expect("ours").max, max);
    let room = max - on_disk(&domain);
    let third = run_in(&domain.open_run(&host_id).expect("an open Run"), "third");
    assert!(on_disk(&domain) <= max);
    // Too little was left for a file worth its name, so the journal has both ends.
    assert!(room <= TAIL_MAX + 48 * 1024);
    assert_eq!(third.stdout_ref, None);
    assert_eq!(read_all(&domain, "third").len() as u64, TAIL_MAX);
    assert_eq!(
        (third.status, third.spill_error),
        (Outcome::Succeeded, None)
    );
}

#[test]
fn a_full_domain_still_records_what_is_small() {
    let stage = Stage::new();
    let domain = open_with(&stage, DomainOptions::default().max_artifact_bytes(0));
    for len in [1, 50_000, TAIL_MAX] {
        let result = run(&stage, &domain, &format!("of-{len}"), len, u64::MAX);
        assert_eq!(result.stdout.as_bytes(), flood(len));
        assert_eq!((result.stdout_gap, result.spill_error), (None, None));
    }
    let result = run(&stage, &domain, "large", 3_000_000, u64::MAX);
    assert_eq!((result.exit_code, result.spill_error), (Some(0), None));
    let gap = result.stdout_gap.expect("a gap");
    assert_eq!((gap.from, gap.to), (49_152, 3_000_000 - 16_384));
    assert_eq!(
        (
            on_disk(&domain),
            domain.artifact_bytes().expect("ours").used
        ),
        (0, 0)
    );
}

#[test]
fn operations_side_by_side_do_not_exceed_it_together() {
    let stage = Stage::new();
    let max = 4_000_000;
    let domain = open_with(&stage, DomainOptions::default().max_artifact_bytes(max));
    thread::scope(|scope| {
        for number in 0..4 {
            let (stage, domain) = (&stage, &domain);
            scope.spawn(move || {
                let result = run(stage, domain, &format!("op-{number}"), 3_000_000, u64::MAX);
                assert_eq!(result.exit_code, Some(0));
                assert_eq!(result.stdout_bytes, 3_000_000);
            });
        }
    });
    let there = on_disk(&domain);
    assert!(there <= max, "{there} bytes");
    assert_eq!(domain.artifact_bytes().expect("ours").used, there);
}

#[test]
fn a_small_limit_of_the_result_takes_nothing_from_what_is_stored() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = fixture(&stage, &["flood-output", "stdout", "60000"]);
    let operation = domain.operation(command).expect("a builder").id("op");
    let result = operation.max_output_bytes(100).run().expect("a result");
    assert!(result.stdout.len() <= 100 && result.stdout_truncated);
    assert_eq!(read_all(&domain, "op"), flood(60_000));
    assert!(
        !folder(&domain)
            .join(artifact_name("op", Stream::Stdout))
            .exists()
    );
}
