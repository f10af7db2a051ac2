//! Standard input as it was given, of each kind but the one that is written while it is read.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use xioflow_kernel::journal::Query;
use xioflow_kernel::{Command, Domain, OperationResult, Stdin};
use xioflow_kit::Stage;

use crate::{command, fixture, open, shell, text};

fn run(domain: &Domain, command: Command) -> OperationResult {
    domain.run(command).expect("a result")
}

#[test]
fn bytes_arrive_whole_and_end() {
    let stage = Stage::new();
    let domain = open(&stage);
    let input: Vec<u8> = (0..4_000_000_u32)
        .map(|index| index.to_le_bytes()[0])
        .collect();
    let hash = sha256(&input);
    let len = input.len() as u64;
    let command = fixture(&stage, &["read-stdin"]).stdin(Stdin::bytes(input));
    let result = run(&domain, command);
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), len));
    assert_eq!(result.stdout_hash, Some(hash));
}

#[test]
fn text_arrives_as_it_is() {
    let stage = Stage::new();
    let domain = open(&stage);
    let given = "no newline at its end: \u{e9}";
    let result = run(
        &domain,
        fixture(&stage, &["read-stdin"]).stdin(Stdin::text(given)),
    );
    assert_eq!(result.stdout, given);
}

#[test]
fn input_that_is_not_read_is_no_error() {
    let stage = Stage::new();
    let domain = open(&stage);
    let input = vec![b'x'; 8_000_000];
    let command = fixture(&stage, &["exit", "0"]).stdin(Stdin::bytes(input));
    let result = run(&domain, command);
    assert_eq!((result.exit_code, result.spawn_failure), (Some(0), None));
}

/// The fixture cannot tell: its own runtime opens what it finds closed.
#[test]
fn a_closed_input_is_not_there() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = "for n in 0 1 2 3 4 5 6 7 8 9; do test -e /proc/$$/fd/$n && echo $n; done; read v";
    let result = run(&domain, shell(&stage, script).stdin(Stdin::Closed));
    assert_eq!(result.stdout, "1\n2\n", "{result:?}");
    let result = run(&domain, shell(&stage, "read v; echo $?"));
    assert_eq!(result.stdout, "1\n", "empty by default");
}

#[test]
fn it_can_be_opened_by_its_name() {
    let stage = Stage::new();
    let domain = open(&stage);
    let file = stage.write("input", "a\nb\n", 0o644);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"a\nb\n").expect("room in the pipe");
    drop(writer);
    let inputs = [
        Stdin::text("a\nb\n"),
        Stdin::File(file),
        Stdin::Descriptor(Arc::new(OwnedFd::from(reader))),
    ];
    for input in inputs {
        let command = shell(&stage, "cat /dev/stdin | wc -l").stdin(input.clone());
        let result = run(&domain, command);
        assert_eq!(result.stdout.trim(), "2", "{input:?}: {result:?}");
    }
    let empty = run(&domain, command(&stage, "/bin/cat", &["/dev/stdin"]));
    assert_eq!((empty.exit_code, empty.stdout.as_str()), (Some(0), ""));
}

#[test]
fn a_descriptor_is_shared_with_its_position() {
    let stage = Stage::new();
    let domain = open(&stage);
    let file = std::fs::File::open(stage.write("input", "one\ntwo\n", 0o644)).expect("a file");
    let shared = Stdin::Descriptor(Arc::new(file.into()));
    let first = run(&domain, shell(&stage, "head -c 4").stdin(shared.clone()));
    let second = run(&domain, shell(&stage, "cat").stdin(shared));
    assert_eq!(
        (first.stdout.as_str(), second.stdout.as_str()),
        ("one\n", "two\n")
    );
}

#[test]
fn an_input_that_cannot_be_opened_is_a_recorded_failure() {
    let stage = Stage::new();
    let domain = open(&stage);
    let missing = stage.path("missing");
    let command = crate::traced(&stage).stdin(Stdin::File(missing.clone()));
    let operation = domain.operation(command).expect("a builder").id("named");
    let result = operation.run().expect("a result");
    let failure = result.spawn_failure.expect("it did not start");
    assert_eq!(
        (failure.stage.as_str(), failure.code.as_str()),
        ("stdin", "ENOENT")
    );
    assert_eq!(failure.subject.as_deref(), Some(text(&missing)));
    assert_eq!(crate::times_run(&stage), 0);
    assert!(
        domain
            .journal()
            .operation("named")
            .expect("readable")
            .is_some()
    );
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
