//! The arbiter as it is used: the real program, many clients at once, and each of them a process that can
//! be killed. One file for each figure that is promised.

#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for whoever looks into a test"
)]

mod client;
mod crowd;
mod first;
mod hostile;
mod idle;
mod lost_arbiter;
mod lost_clients;
mod serving;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use xioflow_kernel::journal::{Operation, OperationFilter, Query, Reader};
use xioflow_kit::Stage;

/// The record of the stage's domain.
fn record(stage: &Stage) -> Reader {
    Reader::open(stage.domain()).expect("a domain")
}

/// All that is on record, by id.
fn recorded(stage: &Stage) -> HashMap<String, Operation> {
    let operations = record(stage).operations(&OperationFilter::default());
    let operations = operations.expect("a readable record").into_iter();
    operations
        .map(|operation| (operation.id.clone(), operation))
        .collect()
}

/// How often each line stands in a file to which every command adds its own.
fn ledger(path: &Path) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    times
}

/// A number from the environment, for runs beyond what a suite has time for.
fn number(variable: &str, usual: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: {text} is no number")),
        Err(_) => usual,
    }
}

/// A path that is known to be text.
fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}
