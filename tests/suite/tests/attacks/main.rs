//! A tree against its holder: what processes of the same user may do to the helper, and what the result says then.
//! The table is in `docs/holder.md`. What the helper keeps closed to them is in `holder::armour`.

mod everybody;
mod exhaustion;
mod limits;
mod signals;

use std::path::Path;

use serde_json::Value;
use xioflow_kit::{Finished, Run, Stage, wait};

/// A run of a script of sh(1) without an arbiter.
fn run<'a>(stage: &'a Stage, options: &[&str], script: &str) -> Run<'a> {
    let fixed = ["run", "--no-arbiter", "--json"];
    let words = [&fixed[..], options, &["--", "sh", "-c", script]].concat();
    stage.xioflow().args(words)
}

/// The words that leave three processes behind, outside of the group, and write their numbers to a ready file.
fn leave_three(stage: &Stage, ready: &Path) -> String {
    format!(
        "{} --exit 0 --ready {} escape-setsid ignore 3",
        stage.fixture().display(),
        ready.display()
    )
}

/// Checks that nobody who said that it was there lives, and returns how many those are.
fn assert_gone(stage: &Stage, ready: &Path, finished: &Finished) -> usize {
    let pids = stage.wait_ready(ready);
    let alive: Vec<_> = pids.iter().filter(|pid| wait::is_alive(**pid)).collect();
    assert!(alive.is_empty(), "{alive:?} live\n{finished}");
    pids.len()
}

/// Checks fields of a document, with the document in the message.
fn assert_fields(document: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("fields to expect") {
        assert_eq!(&document[name], value, "{name} of {document:#}");
    }
}
