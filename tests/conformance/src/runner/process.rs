//! Starts the process of a case, waits for its end within bounds, and sees that nothing is left.
//!
//! The runner is a child subreaper, so whatever a case leaves behind comes to it, however it was
//! detached, and is named and ended here. That does not depend on who may look at whom.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use xioflow_kit::{BIN_DIR_VARIABLE, Deadline, wait};

use super::args::CASE;
use super::case::UNSUPPORTED;
use super::place::Place;
use super::{Case, Verdict};

/// How long a case may take: far more than any does, so that only a hang reaches it.
const CASE_LONGEST: Duration = Duration::from_secs(180);
/// How long what is ending may take after its case.
const ENDING_LONGEST: Duration = Duration::from_secs(5);

/// Makes whatever loses its parent below this process a child of it.
pub(super) fn adopt_orphans() {
    set_child_subreaper(Some(getpid())).expect("nothing refuses that");
}

/// The process of a case.
pub(super) struct Begun {
    child: Child,
    user: &'static str,
    // Files and no pipes: what a case leaves behind would hold a pipe open.
    stdout: File,
    stderr: File,
}

/// Starts a case.
pub(super) fn begin(case: &Case<'_>, place: &Place) -> Begun {
    let [stdout, stderr] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    let mut command = command(case, place);
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().expect("a descriptor"));
    command.stderr(stderr.try_clone().expect("a descriptor"));
    Begun {
        child: command.spawn().expect("the runner can be executed again"),
        user: place.user_name(),
        stdout,
        stderr,
    }
}

/// Sees a case to its end.
pub(super) fn finish(begun: Begun) -> Verdict {
    let Begun {
        child,
        user,
        stdout,
        stderr,
    } = begun;
    let ended = wait_for(child);
    let (said, complained) = (text(stdout), text(stderr));
    match ended {
        Some(status) if status.success() => Verdict::Passed,
        Some(status) if status.code() == Some(UNSUPPORTED.into()) => {
            Verdict::Unsupported(said.trim().to_owned())
        }
        ended => {
            let end = end_in_words(ended);
            Verdict::Failed(format!("as {user}:\n{said}{complained}{end}\n"))
        }
    }
}

fn command(case: &Case<'_>, place: &Place) -> Command {
    let number = case.contract.number.to_string();
    let mut command = Command::new(place.runner());
    command
        .args([CASE, &number, case.way.name()])
        .current_dir(place.temporary())
        .env("TMPDIR", place.temporary())
        .env(BIN_DIR_VARIABLE, place.bin_dir())
        // A case is the same in every shell.
        .env_remove("XIOFLOW_DOMAIN")
        .env_remove(xioflow_kernel::HELPER_VARIABLE);
    if let Some(id) = place.user_id() {
        // As root, std also drops all supplementary groups on the way to another user.
        command.uid(id).gid(id);
    }
    command
}

/// Waits for the end of a case, and makes one if it does not come.
fn wait_for(mut child: Child) -> Option<ExitStatus> {
    let in_time = wait::pid_gone(child.id(), Deadline::after(CASE_LONGEST));
    if !in_time {
        child.kill().expect("a child of ours");
    }
    let status = child.wait().expect("a child of ours");
    in_time.then_some(status)
}

/// Ends and names what cases have left; what is just ending may do so. No case may be running.
pub(super) fn orphans() -> Vec<String> {
    let deadline = Deadline::after(ENDING_LONGEST);
    let mut left = Vec::new();
    // Those below a child that ends come to this process in turn, hence again until nobody is.
    loop {
        let children = children();
        if children.is_empty() {
            return left;
        }
        for pid in children {
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let raw = raw.expect("the kernel's own number");
            if !wait::pid_gone(pid, deadline) {
                left.push(format!("{pid} ({})", command_of(pid)));
                kill_process(raw, Signal::KILL).expect("a child of ours");
            }
            waitpid(Some(raw), WaitOptions::empty()).expect("a child of ours");
        }
    }
}

/// All children, zombies among them. This process has one thread.
fn children() -> Vec<u32> {
    let pid = getpid().as_raw_nonzero();
    let list = fs::read_to_string(format!("/proc/self/task/{pid}/children"));
    let list = list.expect("a kernel with lists of children");
    list.split_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect()
}

fn command_of(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words)
        .trim_end_matches('\0')
        .replace('\0', " ")
}

fn text(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file of ours");
    file.read_to_end(&mut bytes).expect("a file of ours");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn end_in_words(ended: Option<ExitStatus>) -> String {
    let Some(status) = ended else {
        return format!("it did not end within {} s", CASE_LONGEST.as_secs());
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, signal) => format!("it was ended by signal {signal:?}"),
    }
}
