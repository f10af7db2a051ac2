//! What people report of programs that run commands: their inputs, through the real thing.
//!
//! `tests/field.md` says which report is held by which test, here or in another suite.

mod descendants;
mod exit_facts;
mod groups;
mod limits;
mod pipes;
mod races;
mod signals;
mod terminal;
mod timeouts;
mod unpermitted;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xioflow_kernel::{Command, Domain, DomainOptions};
use xioflow_kit::{Finished, Run, Stage};

/// Runs `xioflow run [option...] -- <command...>` in the stage.
fn run<'a, S: AsRef<OsStr>>(stage: &'a Stage, options: &[&str], command: &[S]) -> Run<'a> {
    let run = stage.xioflow().arg("run").args(options);
    run.arg("--").args(command)
}

/// Runs with `--json` and returns the document beside the run.
fn run_json<S: AsRef<OsStr>>(stage: &Stage, options: &[&str], command: &[S]) -> (Finished, Value) {
    let finished = run(stage, &[&["--json"], options].concat(), command).finish();
    let document = finished.json();
    (finished, document)
}

/// The words of a script of sh(1).
fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// A path that is known to be text.
fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}

/// The words of a fixture that says when it is ready, and the file in which it does.
fn fixture(stage: &Stage, mode: &[&str]) -> (Vec<String>, PathBuf) {
    let (program, ready) = (stage.fixture(), stage.path("ready"));
    let fixed = [text(&program), "--ready", text(&ready)];
    let words = fixed.iter().chain(mode).map(|&word| word.to_owned());
    (words.collect(), ready)
}

/// Checks fields of a document, with the document in the message.
fn assert_fields(document: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("fields to expect") {
        assert_eq!(&document[name], value, "{name} of {document:#}");
    }
}

/// Checks that nothing of the stage lives besides helpers on their way out.
fn assert_nobody_lives(stage: &Stage) {
    let living = stage.living();
    let commands: Vec<_> = living
        .iter()
        .filter(|one| !one.contains("xioflow-reaper"))
        .collect();
    assert!(commands.is_empty(), "{commands:?} live");
}

/// The names of the programs that outlived the command, sorted.
fn survivors(document: &Value) -> Vec<&str> {
    let listed = document["survivors"].as_array().expect("a list");
    let mut names: Vec<_> = listed
        .iter()
        .map(|one| one["command"].as_str().expect("a name"))
        .collect();
    names.sort_unstable();
    names
}

/// Opens the stage's domain in this process.
fn open(stage: &Stage, options: DomainOptions) -> Domain {
    options
        .helper(stage.program("xioflow-reaper"))
        .open(stage.domain())
        .unwrap_or_else(|error| panic!("open {}: {error:?}", stage.domain().display()))
}

/// A script of sh(1) in the stage's folder and environment, for an opened domain.
fn script(stage: &Stage, script: &str) -> Command {
    let command = Command::new("/bin/sh").args(["-c", script]);
    let environment = stage.environment().into_iter();
    let command = environment.fold(command, |command, (name, value)| command.env(name, value));
    command.cwd(stage.path(""))
}
