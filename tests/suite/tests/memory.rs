//! What output costs a host in memory: a bounded amount, however much comes and whoever does not
//! read it.
//!
//! Alone in its program, because it measures the whole process.

use std::fs;

use xioflow_kernel::{Command, DomainOptions, Piece};
use xioflow_kit::Stage;

/// Bytes on each of both streams.
const FLOOD_LEN: u64 = 300_000_000;

/// What may come on top: two long reads, two pipes' worth of hashing, a subscriber's waiting pieces,
/// and what an allocator keeps.
const GROWTH_MAX_KIB: u64 = 32 * 1024;

/// Largest resident set of this process so far (`VmHWM` of proc(5)), in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|it| it.parse().ok()).expect("a size")
}

#[test]
fn a_flood_that_nobody_reads_is_bounded_in_memory() {
    let stage = Stage::new();
    let options = DomainOptions::default().helper(stage.program("xioflow-reaper"));
    let domain = options.open(stage.domain()).expect("a domain");
    let flood = |bytes: u64| {
        let words = ["flood-output", "both", &bytes.to_string()].map(str::to_owned);
        let operation = domain.operation(Command::new(stage.fixture()).args(words));
        operation.expect("a builder").max_output_bytes(64 * 1024)
    };
    // The first fills what is kept ready.
    flood(1_000_000).run().expect("a result");
    let before = peak_kib();
    let mut operation = flood(FLOOD_LEN);
    let never_read = operation.subscribe();
    let result = operation.run().expect("a result");
    let growth = peak_kib() - before;
    assert_eq!(
        (result.stdout_bytes, result.stderr_bytes),
        (FLOOD_LEN, FLOOD_LEN)
    );
    assert!(growth < GROWTH_MAX_KIB, "{growth} KiB more");
    let first = never_read.next_piece();
    assert!(matches!(first, Some(Piece::Data { offset: 0, .. })));
}
