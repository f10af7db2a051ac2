//! The processes of a case: how one is started, how it ends, and what lives in the end.
//!
//! The case's own process is a child subreaper, so whatever loses its parent comes to it, however it was
//! detached, and can be waited for by its number.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Signal, kill_process, set_parent_process_death_signal};
use xioflow_kit::orphans::{self, children, collect, command_of, to_pid};
use xioflow_kit::wait::SLOW_VARIABLE;
use xioflow_kit::{Deadline, wait};

use crate::folder::Folder;
use crate::invariants::Living;
use crate::roles::ROLE;
use crate::work::OPERATION_VARIABLE;

/// Prepares this process to be that of a case.
pub(super) fn begin() {
    // A runner that is killed must not leave a case behind.
    set_parent_process_death_signal(Some(Signal::KILL)).expect("nothing refuses that");
    orphans::adopt();
}

/// A process of the case.
pub(super) struct Process {
    what: String,
    child: Child,
    // A file and no pipe: what it leaves behind would hold a pipe open.
    complaints: File,
}

/// Starts one. `variables` are all that it has.
pub(super) fn start(folder: &Folder, words: &[&str], variables: &[(&str, String)]) -> Process {
    spawn(folder, words, variables, Stdio::null())
}

/// Starts one that says on its standard output when it is ready, and waits for that; whether it did.
pub(super) fn start_ready(
    folder: &Folder,
    words: &[&str],
    variables: &[(&str, String)],
) -> (Process, bool) {
    let mut process = spawn(folder, words, variables, Stdio::piped());
    let pipe = process.child.stdout.take().expect("a pipe");
    let mut line = String::new();
    // Its end without a line is the end of the process: nobody else has the other end.
    BufReader::new(pipe)
        .read_line(&mut line)
        .expect("a pipe of ours");
    (process, !line.is_empty())
}

fn spawn(folder: &Folder, words: &[&str], variables: &[(&str, String)], stdout: Stdio) -> Process {
    let [role, scenario, rest @ ..] = words else {
        panic!("a process needs a role and a scenario: {words:?}");
    };
    let complaints = tempfile::tempfile().expect("a file");
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command
        .args([ROLE, role, scenario])
        .args([folder.path(), folder.programs()])
        .args(rest)
        .env_clear()
        .envs(std::env::var_os(SLOW_VARIABLE).map(|factor| (SLOW_VARIABLE, factor)))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(complaints.try_clone().expect("a descriptor"));
    Process {
        what: words.join(" "),
        child: command.spawn().expect("this program can be executed again"),
        complaints,
    }
}

impl Process {
    /// Waits for its end. `may_be_killed`: SIGKILL is an end like another.
    ///
    /// # Panics
    /// If it does not end in time, or ends badly; with what it complained of.
    pub(super) fn finish(mut self, may_be_killed: bool) {
        let in_time = wait::pid_gone(self.child.id(), Deadline::after(super::LONGEST));
        if !in_time {
            self.child.kill().expect("a child of ours");
        }
        let status = self.child.wait().expect("a child of ours");
        let killed = may_be_killed && status.signal() == Some(Signal::KILL.as_raw());
        assert!(
            in_time && (status.success() || killed),
            "{}",
            self.told(status, in_time)
        );
    }

    fn told(&mut self, status: ExitStatus, in_time: bool) -> String {
        let mut said = Vec::new();
        let file = &mut self.complaints;
        file.seek(SeekFrom::Start(0)).expect("a file of ours");
        file.read_to_end(&mut said).expect("a file of ours");
        let said = String::from_utf8_lossy(&said);
        match in_time {
            true => format!("{} ended with {status}: {said}", self.what),
            false => format!("{} did not end in time: {said}", self.what),
        }
    }
}

/// Kills one that is known by its number: it is a child of this process by now.
pub(super) fn kill(pid: u32) {
    // It may have ended with its parent, and been waited for by nobody yet.
    kill_process(to_pid(pid), Signal::KILL).expect("a child of ours");
    assert!(
        wait::pid_gone(pid, Deadline::usual()),
        "{pid} outlives SIGKILL"
    );
}

/// Collects what has ended below this process, and waits until nothing lives there that is not excused; what
/// does, excused or not, then or at the deadline.
pub(super) fn living(deadline: Deadline, is_excused: impl Fn(&Living) -> bool) -> Vec<Living> {
    loop {
        let (ended, left): (Vec<u32>, Vec<u32>) = children()
            .into_iter()
            .partition(|pid| !wait::is_alive(*pid));
        for pid in &ended {
            collect(*pid);
        }
        // Those below one that has ended come to this process in turn, hence again.
        if !ended.is_empty() {
            continue;
        }
        let mut left: Vec<Living> = left.into_iter().map(describe).collect();
        left.sort_unstable_by_key(|it| it.pid);
        // The newest first: an init has an older number than everybody whom it waits for.
        match left.iter().rev().find(|it| !is_excused(it)) {
            Some(one) if wait::pid_gone(one.pid, deadline) => {}
            _ => return left,
        }
    }
}

/// Ends everything below this process.
pub(super) fn end_all() {
    loop {
        let children = children();
        if children.is_empty() {
            return;
        }
        for pid in children {
            kill(pid);
            collect(pid);
        }
    }
}

fn describe(pid: u32) -> Living {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let prefix = format!("{OPERATION_VARIABLE}=");
    let mut variables = environment
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy);
    let operation = variables.find_map(|it| it.strip_prefix(&prefix).map(str::to_owned));
    Living {
        pid,
        operation,
        command: command_of(pid),
    }
}
