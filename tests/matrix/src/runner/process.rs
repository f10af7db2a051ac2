//! The process of a case, from outside: how it is started, how long it may take, what its end means.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use xioflow_kit::wait::SLOW_VARIABLE;
use xioflow_kit::{Deadline, Place, wait};

use super::CASE;
use super::plan::Case;
use crate::case::MISSED;

/// How long a case may take: far more than any does, so that only a hang reaches it.
const CASE_LONGEST: Duration = Duration::from_secs(180);

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every promise holds.
    Passed,
    /// Its point was not passed.
    Missed,
    /// One does not; with everything that the case said.
    Failed(String),
}

/// Runs a case to its end.
pub(super) fn run(case: &Case, place: &Place) -> Verdict {
    let name = case.name.to_string();
    let lie = case.lie.map(|lie| lie.name);
    let words: Vec<&str> = std::iter::once(name.as_str()).chain(lie).collect();
    let mut complaints = tempfile::tempfile().expect("a file");
    let mut command = command(place, &words);
    command.stdout(Stdio::null());
    command.stderr(complaints.try_clone().expect("a descriptor"));
    let mut child = command.spawn().expect("the runner can be executed again");
    let in_time = wait::pid_gone(child.id(), Deadline::after(CASE_LONGEST));
    if !in_time {
        child.kill().expect("a child of ours");
    }
    let status = child.wait().expect("a child of ours");
    match (in_time, status.code()) {
        (true, Some(0)) => Verdict::Passed,
        (true, Some(code)) if code == i32::from(MISSED) => Verdict::Missed,
        (true, code) => Verdict::Failed(format!(
            "{}it ended with {code:?}, signal {:?}\n",
            text(&mut complaints),
            status.signal()
        )),
        (false, _) => Verdict::Failed(format!(
            "{}it did not end within {} s\n",
            text(&mut complaints),
            CASE_LONGEST.as_secs()
        )),
    }
}

/// What a scenario passes undisturbed.
///
/// # Panics
/// If it cannot be played.
pub(super) fn discover(place: &Place, what: &str, scenario: &str) -> String {
    let output = command(place, &[what, scenario])
        .output()
        .expect("the runner can be executed again");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scenario} undisturbed: {said}");
    String::from_utf8(output.stdout).expect("points are text")
}

fn command(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command();
    command
        .arg(CASE)
        .arg(place.programs())
        .args(words)
        .env_clear()
        .envs(
            ["PATH", SLOW_VARIABLE]
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .env("TMPDIR", place.temporary())
        .stdin(Stdio::null());
    command
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file of ours");
    file.read_to_end(&mut bytes).expect("a file of ours");
    String::from_utf8_lossy(&bytes).into_owned()
}
