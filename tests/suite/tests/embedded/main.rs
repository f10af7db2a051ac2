//! The library as a host uses it: one process, many threads, real helpers, a real journal.

mod active;
mod attaching;
mod budget;
mod callers;
mod cancel;
mod cancel_by_id;
mod domain_budget;
mod drain;
mod environment;
mod fifo;
mod identity;
mod joining;
mod leases;
mod pause;
mod prune;
mod record;
mod recovery;
mod role;
mod runs;
mod start_failure;
mod stdin;
mod stdin_stream;
mod stored;
mod stream;
mod unreaped;

use std::fs::File;
use std::path::Path;

use xioflow_kernel::journal::Query;
use xioflow_kernel::{Command, Domain, DomainOptions};
use xioflow_kit::Stage;

/// Opens the stage's domain with its own helper.
fn open(stage: &Stage) -> Domain {
    open_with(stage, DomainOptions::default())
}

fn open_with(stage: &Stage, options: DomainOptions) -> Domain {
    options
        .helper(stage.program("xioflow-reaper"))
        .open(stage.domain())
        .unwrap_or_else(|error| panic!("open {}: {error:?}", stage.domain().display()))
}

/// A command in the stage's folder and environment.
fn command(stage: &Stage, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
    let command = Command::new(program.as_ref())
        .args(arguments.to_vec())
        .cwd(stage.path(""));
    let environment = stage.environment().into_iter();
    environment.fold(command, |command, (name, value)| command.env(name, value))
}

fn shell(stage: &Stage, script: &str) -> Command {
    command(stage, "/bin/sh", &["-c", script])
}

fn fixture(stage: &Stage, arguments: &[&str]) -> Command {
    command(stage, stage.fixture(), arguments)
}

/// A command that leaves a line in the stage's `trace` each time it runs.
fn traced(stage: &Stage) -> Command {
    fixture(stage, &["append-line", text(&stage.path("trace"))])
}

/// Makes this process a stranger that holds the standard output of a running operation.
fn hold_stdout(domain: &Domain, operation_id: &str) -> File {
    let operation = domain.journal().operation(operation_id);
    let identity = operation.expect("readable").expect("it runs");
    let pid = &identity.process_identity.expect("it runs")["pid"];
    let path = format!("/proc/{pid}/fd/1");
    let pipe = File::options().write(true).open(&path);
    pipe.unwrap_or_else(|error| panic!("open {path}: {error}"))
}

/// How often a traced command has run.
fn times_run(stage: &Stage) -> usize {
    std::fs::read_to_string(stage.path("trace")).map_or(0, |trace| trace.lines().count())
}

/// A path that is known to be text.
fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}

/// The names of the events of one operation, in order.
fn events(domain: &Domain, operation_id: &str) -> Vec<String> {
    let events = domain
        .journal()
        .events(0, Some(operation_id), None)
        .expect("a readable journal");
    events.into_iter().map(|event| event.kind).collect()
}
