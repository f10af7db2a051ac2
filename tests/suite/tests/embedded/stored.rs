//! Recorded results whose stored output is gone or is something else by now.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use xioflow_kernel::journal::{Outcome, Stream};
use xioflow_kernel::{Domain, OperationResult, artifact_name};
use xioflow_kit::Stage;

use crate::{fixture, open};

/// More than is kept in the journal.
const PRINTED: &str = "200000";

fn run(stage: &Stage, domain: &Domain) -> OperationResult {
    let command = fixture(stage, &["flood-output", "both", PRINTED]);
    let operation = domain.operation(command).expect("a builder");
    operation.id("op").run().expect("a result")
}

fn artifact(domain: &Domain, stream: Stream) -> PathBuf {
    domain
        .folder()
        .join("artifacts")
        .join(artifact_name("op", stream))
}

/// Runs, lets something happen to the stored standard output, and replays.
fn replay_after(happens: impl Fn(&Path), why: &str) {
    let stage = Stage::new();
    let domain = open(&stage);
    let first = run(&stage, &domain);
    let path = artifact(&domain, Stream::Stdout);
    assert!(path.is_file(), "{}", path.display());
    happens(&path);
    let again = run(&stage, &domain);
    assert!(again.replayed);
    assert_eq!(
        (again.status, again.exit_code),
        (Outcome::Succeeded, Some(0))
    );
    let error = again.stdout_spill_error.clone().unwrap_or_default();
    assert!(error.contains(why), "{error:?} does not say {why:?}");
    assert!(error.contains(&path.display().to_string()), "{error:?}");
    // What it was is still known; what it says is not.
    assert_eq!(again.stdout_bytes, first.stdout_bytes);
    assert_eq!(again.stdout_hash, first.stdout_hash);
    let marker = format!("[... truncated {} bytes ...]", first.stdout_bytes);
    assert_eq!(again.stdout.trim(), marker);
    assert!(again.stdout_truncated);
    assert_eq!(
        (&again.stderr, again.stderr_spill_error),
        (&first.stderr, None)
    );
}

#[test]
fn a_file_that_is_gone_is_that_streams_error() {
    replay_after(
        |path| fs::remove_file(path).expect("it is there"),
        "No such file",
    );
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    replay_after(
        |path| {
            let secret = path.with_file_name("secret");
            fs::write(&secret, "secret ".repeat(100_000)).expect("a file");
            fs::remove_file(path).expect("it is there");
            symlink(secret, path).expect("a link");
        },
        "Too many levels",
    );
}

#[test]
fn a_pipe_in_its_place_is_not_waited_for() {
    replay_after(
        |path| {
            fs::remove_file(path).expect("it is there");
            mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).expect("a pipe");
        },
        "pipe",
    );
}

#[test]
fn a_file_that_was_cut_off_is_not_shown_as_if_it_were_whole() {
    replay_after(
        |path| {
            let file = fs::File::options()
                .write(true)
                .open(path)
                .expect("it is there");
            file.set_len(100_000).expect("shorter");
        },
        "failed to read",
    );
}
