//! Files of a domain that are cut off, changed, gone, or not what their name says, as the commands
//! meet them: a right answer, or an error that names the file. Nothing waits, nothing panics, and
//! nothing outside of the folder is read or written.
//!
//! [`files`] damages what is stored; [`planted`] puts something else in its place.

mod files;
mod planted;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use xioflow_kit::{Finished, Stage};

/// Opening a domain, and every way to look at one.
const COMMANDS: [&str; 7] = [
    "run --no-arbiter -- true",
    "list",
    "show big --json",
    "logs big",
    "logs small",
    "status",
    "events",
];

/// A stage whose domain holds a small and a large output, closed.
struct Damaged<'a> {
    stage: &'a Stage,
    title: String,
}

impl<'a> Damaged<'a> {
    fn new(stage: &'a Stage, title: impl Into<String>) -> Self {
        if stage.domain().exists() {
            fs::remove_dir_all(stage.domain()).expect("a folder of ours");
        }
        let title = title.into();
        let damaged = Self { stage, title };
        damaged
            .xioflow("run --no-arbiter --op small -- echo hello")
            .assert_code(0);
        damaged
            .xioflow("run --no-arbiter --op big -- seq 1 30000")
            .assert_code(0);
        damaged
    }

    fn file(&self, name: &str) -> PathBuf {
        self.stage.domain().join(name)
    }

    /// Runs a command, which must not wait for anything.
    fn xioflow(&self, words: &str) -> Finished {
        let run = self.stage.xioflow().args(words.split(' '));
        run.deadline(Duration::from_secs(20)).finish()
    }

    /// Every command answers: well, or with one of our codes and a sentence with the file in it.
    /// Says which did not answer well.
    fn each_answers(&self, file: &str) -> Vec<&'static str> {
        let mut refused = Vec::new();
        for words in COMMANDS {
            let finished = self.xioflow(words);
            let complaint = String::from_utf8_lossy(&finished.stderr);
            assert!(
                !complaint.contains("panicked"),
                "{}: {finished}",
                self.title
            );
            match finished.status.code() {
                Some(0) => {}
                Some(70 | 73) => {
                    let named = complaint.contains(file);
                    assert!(named, "{}: {file} is not named\n{finished}", self.title);
                    refused.push(words);
                }
                _ => panic!("{}: {finished}", self.title),
            }
        }
        refused
    }
}
