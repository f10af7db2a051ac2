//! The process of a case, from outside: how it is started, how long it may take, what its end means.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use xioflow_kit::{Deadline, wait};

use super::CASE;
use super::place::Place;
use super::plan::Case;
use crate::case::MISSED;

/// How long a case may take: far more than any does, so that only a hang reaches it.
const CASE_LONGEST: Duration = Duration::from_secs(180);
/// How long what is ending may take after its case.
const ENDING_LONGEST: Duration = Duration::from_secs(5);

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

/// Makes whatever loses its case a child of this process.
pub(super) fn adopt_orphans() {
    set_child_subreaper(Some(getpid())).expect("nothing refuses that");
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
    let mut command = Command::new(place.runner());
    command
        .arg(CASE)
        .arg(place.programs())
        .args(words)
        .current_dir(place.temporary())
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("TMPDIR", place.temporary())
        .stdin(Stdio::null());
    if let Some(id) = place.user_id() {
        // As root, std also drops all supplementary groups on the way to another user.
        command.uid(id).gid(id);
    }
    command
}

/// Ends and names what cases have left. No case may be running.
pub(super) fn orphans() -> Vec<String> {
    let deadline = Deadline::after(ENDING_LONGEST);
    let mut left = Vec::new();
    loop {
        let children = children();
        if children.is_empty() {
            return left;
        }
        for pid in children {
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let raw = raw.expect("the kernel's own number");
            if !wait::pid_gone(pid, deadline) {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let words = String::from_utf8_lossy(&words).replace('\0', " ");
                left.push(format!("{pid} ({})", words.trim_end()));
                kill_process(raw, Signal::KILL).expect("a child of ours");
            }
            waitpid(Some(raw), WaitOptions::empty()).expect("a child of ours");
        }
    }
}

/// All children, zombies among them. This process has one thread by now.
fn children() -> Vec<u32> {
    let pid = getpid().as_raw_nonzero();
    let list = fs::read_to_string(format!("/proc/self/task/{pid}/children"));
    let list = list.expect("a kernel with lists of children");
    list.split_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect()
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file of ours");
    file.read_to_end(&mut bytes).expect("a file of ours");
    String::from_utf8_lossy(&bytes).into_owned()
}
