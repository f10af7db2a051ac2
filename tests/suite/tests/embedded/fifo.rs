//! A FIFO as standard input: it is waited for where timeout and cancellation reach.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use xioflow_kernel::journal::{Outcome, Query, TerminationReason};
use xioflow_kernel::{Command, Domain, OperationHandle, OperationResult, Stdin};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{fixture, open, shell, text, times_run, traced};

fn fifo(stage: &Stage) -> PathBuf {
    let path = stage.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    path
}

fn start(domain: &Domain, command: Command, fifo: &Path) -> OperationHandle {
    let command = command.stdin(Stdin::File(fifo.to_owned()));
    let operation = domain.operation(command).expect("a builder").id("op");
    // So that one which waits for ever fails the test.
    let operation = operation.timeout(Deadline::USUAL);
    operation.start().expect("a thread")
}

/// Waits until this process has the FIFO open, which says that the operation waits for it.
fn until_opened(fifo: &Path) {
    let deadline = Deadline::usual();
    let is_open = || {
        let mut all = fs::read_dir("/proc/self/fd").expect("our descriptors");
        all.any(|entry| entry.is_ok_and(|it| fs::read_link(it.path()).is_ok_and(|to| to == fifo)))
    };
    while !is_open() {
        assert!(!deadline.passed(), "nobody opens {}", fifo.display());
        thread::yield_now();
    }
}

fn assert_nothing_ran(stage: &Stage, domain: &Domain, result: &OperationResult) {
    assert_eq!(times_run(stage), 0);
    assert_eq!((result.exit_code, &result.signal), (None, &None));
    let recorded = domain.journal().operation("op").expect("readable");
    let recorded = recorded.expect("it is in the record");
    assert_eq!(recorded.outcome, Some(result.status));
    assert!(recorded.process_identity.is_none(), "it was never active");
}

#[test]
fn a_later_writer_is_waited_for() {
    let stage = Stage::new();
    let domain = open(&stage);
    let fifo = fifo(&stage);
    let handle = start(&domain, fixture(&stage, &["read-stdin"]), &fifo);
    until_opened(&fifo);
    fs::write(&fifo, "late").expect("a reader is there");
    assert_eq!(handle.wait().expect("a result").stdout, "late");
}

#[test]
fn a_writer_that_comes_and_goes_is_an_empty_input() {
    let stage = Stage::new();
    let domain = open(&stage);
    let fifo = fifo(&stage);
    let handle = start(&domain, fixture(&stage, &["read-stdin"]), &fifo);
    until_opened(&fifo);
    drop(
        File::options()
            .write(true)
            .open(&fifo)
            .expect("a reader is there"),
    );
    let result = handle.wait().expect("a result");
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), 0));
}

#[test]
fn a_writer_may_wait_for_the_command_to_speak_first() {
    let stage = Stage::new();
    let domain = open(&stage);
    let fifo = fifo(&stage);
    let script = format!("touch {}; cat", text(&stage.path("speaks")));
    let handle = start(&domain, shell(&stage, &script), &fifo);
    until_opened(&fifo);
    let mut writer = File::options()
        .write(true)
        .open(&fifo)
        .expect("a reader is there");
    wait::file(&stage.path("speaks"), Deadline::usual());
    writer.write_all(b"answer").expect("it reads");
    drop(writer);
    assert_eq!(handle.wait().expect("a result").stdout, "answer");
}

#[test]
fn one_that_is_held_open_both_ways_is_not_waited_for() {
    let stage = Stage::new();
    let domain = open(&stage);
    let fifo = fifo(&stage);
    let held = File::options().read(true).write(true).open(&fifo);
    let handle = start(&domain, shell(&stage, "read line; echo $line"), &fifo);
    writeln!(held.as_ref().expect("a FIFO"), "held").expect("room in it");
    assert_eq!(handle.wait().expect("a result").stdout, "held\n");
}

#[test]
fn the_wait_for_a_writer_can_be_cancelled() {
    let stage = Stage::new();
    let domain = open(&stage);
    let fifo = fifo(&stage);
    let handle = start(&domain, traced(&stage), &fifo);
    until_opened(&fifo);
    handle.canceller().cancel().expect("it waits");
    let result = handle.wait().expect("a result");
    assert_eq!(result.status, Outcome::Cancelled);
    assert_nothing_ran(&stage, &domain, &result);
}

#[test]
fn the_wait_for_a_writer_is_part_of_the_timeout() {
    let stage = Stage::new();
    let domain = open(&stage);
    let fifo = fifo(&stage);
    let limit = Duration::from_millis(100);
    let command = traced(&stage).stdin(Stdin::File(fifo));
    let begun = Instant::now();
    let operation = domain.operation(command).expect("a builder").id("op");
    let result = operation.timeout(limit).run().expect("a result");
    assert!(begun.elapsed() >= limit);
    let reason = Some(TerminationReason::TimedOut);
    assert_eq!(
        (result.status, result.termination_reason),
        (Outcome::Failed, reason)
    );
    let why = result.reason.clone().expect("it is said why");
    assert!(
        why.contains("fifo") && why.contains("nothing of the command ran"),
        "{why}"
    );
    assert_nothing_ran(&stage, &domain, &result);
}

#[test]
fn leases_are_free_again_after_the_wait() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = traced(&stage).stdin(Stdin::File(fifo(&stage)));
    let waiting = domain.operation(command).expect("a builder").lease("db");
    waiting
        .timeout(Duration::from_millis(50))
        .run()
        .expect("a result");
    let next = domain
        .operation(traced(&stage))
        .expect("a builder")
        .lease("db");
    assert_eq!(next.run().expect("a result").exit_code, Some(0));
}
