//! The real command line, end to end, as a person or a program uses it.

mod adjudicate;
mod arbiter_loss;
mod budget;
mod bytes;
mod child;
mod clients;
mod delegated;
mod detached;
mod doctor_domain;
mod domain;
mod environment;
mod exit_status;
mod following;
mod hostile;
mod input;
mod limits;
mod logs;
mod loss;
mod merge;
mod namespaces;
mod options;
mod output;
mod pause;
mod pid_namespace;
mod prune;
mod reading;
mod recover;
mod refusal;
mod start_failure;
mod starter;
mod steering;
mod stop;
mod stop_action;
mod survivors;
mod terminal;
mod text_view;
mod volume;
mod watch;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use xioflow_kit::{Finished, Run, Stage};

/// Runs `xioflow run [option...] -- <command...>` in the stage.
fn run<'a, S: AsRef<OsStr>>(stage: &'a Stage, options: &[&str], command: &[S]) -> Run<'a> {
    stage
        .xioflow()
        .arg("run")
        .args(options)
        .arg("--")
        .args(command)
}

/// The same without an arbiter, for what is about the owner of the domain.
fn run_alone<'a, S: AsRef<OsStr>>(stage: &'a Stage, options: &[&str], command: &[S]) -> Run<'a> {
    run(stage, &[&["--no-arbiter"], options].concat(), command)
}

/// The words of a script of sh(1).
fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// The words of a fixture that says when it is ready, and the file in which it does.
fn fixture(stage: &Stage, arguments: &[&str]) -> (Vec<String>, PathBuf) {
    let ready = stage.path("ready");
    let program = stage.fixture();
    let fixed = [text(&program), "--ready", text(&ready)];
    (
        fixed
            .iter()
            .chain(arguments)
            .map(|&word| word.to_owned())
            .collect(),
        ready,
    )
}

/// A path that is known to be text.
fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}

/// Runs with `--json` and returns the document beside the run.
fn run_json<S: AsRef<OsStr>>(stage: &Stage, options: &[&str], command: &[S]) -> (Finished, Value) {
    let finished = run(stage, &[&["--json"], options].concat(), command).finish();
    let document = finished.json();
    (finished, document)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn sha256_of(path: &Path) -> String {
    sha256(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// What lives of the stage besides its arbiter, and helpers that are on their way out or kept warm.
fn living_commands(stage: &Stage) -> Vec<String> {
    stage
        .living()
        .into_iter()
        .filter(|one| !one.contains("xioflow-reaper"))
        .collect()
}

/// Checks fields of a document, with the document in the message.
fn assert_fields(document: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("fields to expect") {
        assert_eq!(&document[name], value, "{name} of {document:#}");
    }
}
