//! What no command line can be given and a library can: strings that execve(2) does not take.

use xioflow_kernel::{Command, Domain, SpawnFailure};
use xioflow_kit::Stage;

use crate::{fixture, open};

/// Bytes of the longest string that Linux hands to a program where a page has 4 KiB.
const LONGEST: usize = 131_071;

fn refused(domain: &Domain, command: Command) -> SpawnFailure {
    let result = domain.run(command).expect("a result");
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(126), 0));
    let failure = result.spawn_failure.expect("it did not start");
    assert_eq!(
        (failure.stage.as_str(), failure.code.as_str()),
        ("exec", "E2BIG")
    );
    let hint = failure.hint.as_deref().expect("what to do");
    assert!(
        hint.contains("standard input") && hint.contains("file"),
        "{hint}"
    );
    failure
}

fn assert_names(failure: &SpawnFailure, parts: &[&str]) {
    let message = &failure.message;
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    assert!(!message.contains("xxx"), "no value is shown: {message}");
}

#[test]
fn an_argument_of_128_kib_is_named_by_its_place() {
    let stage = Stage::new();
    let domain = open(&stage);
    let longest = "x".repeat(LONGEST);
    let result = domain
        .run(fixture(&stage, &["args", &longest]))
        .expect("a result");
    assert_eq!(
        (result.exit_code, result.stdout_bytes),
        (Some(0), LONGEST as u64 + 1)
    );
    let longer = "x".repeat(LONGEST + 1);
    let failure = refused(&domain, fixture(&stage, &["args", "short", &longer]));
    assert_names(&failure, &["argument 3", "131072", "131071"]);
}

#[test]
fn a_variable_of_128_kib_is_named_by_its_name() {
    let stage = Stage::new();
    let domain = open(&stage);
    let with = |len: usize| fixture(&stage, &["env"]).env("SECRET", "x".repeat(len));
    // The name, the equals sign and the value are one string.
    let longest = LONGEST - "SECRET=".len();
    let result = domain.run(with(longest)).expect("a result");
    assert_eq!(result.exit_code, Some(0));
    assert!(result.stdout_bytes > LONGEST as u64);
    let failure = refused(&domain, with(longest + 1));
    assert_names(&failure, &["SECRET", "131072", "131071"]);
}

#[test]
fn strings_that_are_too_much_together_are_counted() {
    let stage = Stage::new();
    let domain = open(&stage);
    let many = vec!["x".repeat(100_000); 64];
    let failure = refused(&domain, fixture(&stage, &["args"]).args(many));
    assert_names(&failure, &["66 arguments", "64"]);
}
