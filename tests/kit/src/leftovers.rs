//! Finds what a test has caused and not ended.
//!
//! A process belongs to a stage if the stage's nonce is in its environment, or if it executes
//! or stands in a file of the stage's folder. The second covers the helper, whose environment
//! is empty.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::wait::{self, Deadline};

/// A process that a stage has caused.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) pid: u32,
    command: String,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.pid, self.command)
    }
}

impl Leftover {
    /// The same, named by what it executes now: one that was found on its way through execve(2) had no words yet.
    pub(crate) fn named_again(self) -> Self {
        let command = command_of(self.pid);
        Self { command, ..self }
    }

    /// Whether it is an arbiter, which waits for clients until it has been idle for long enough.
    pub(crate) fn is_arbiter(&self) -> bool {
        self.command.contains("/xioflow arbiter")
    }

    /// Whether it is a helper: of an operation, or one that an arbiter keeps warm.
    pub(crate) fn is_helper(&self) -> bool {
        self.command.ends_with("/xioflow-reaper")
    }
}

/// All living processes of the stage with this nonce and folder.
pub(crate) fn scan(nonce: &str, folder: &Path) -> Vec<Leftover> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && belongs(*pid, nonce, folder))
        .filter(|pid| wait::is_alive(*pid))
        .map(|pid| Leftover {
            pid,
            command: command_of(pid),
        })
        .collect()
}

/// What cannot be read has ended meanwhile, or is not ours to read and so not ours.
fn belongs(pid: u32, nonce: &str, folder: &Path) -> bool {
    let below = |name: &str| {
        fs::read_link(format!("/proc/{pid}/{name}")).is_ok_and(|link| link.starts_with(folder))
    };
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let marked = environment
        .windows(nonce.len())
        .any(|window| window == nonce.as_bytes());
    marked || below("exe") || below("cwd")
}

/// Its words; for one that has none, as while it ends, the kernel's name for it, in brackets as ps(1) has it.
fn command_of(pid: u32) -> String {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let words = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
    match words.trim_end() {
        "" => format!("[{}]", String::from_utf8_lossy(&read("comm")).trim_end()),
        words => words.to_owned(),
    }
}

/// Ends them all; what a failed test leaves must not disturb the next one.
pub(crate) fn kill(leftovers: &[Leftover]) {
    for leftover in leftovers {
        wait::signal(leftover.pid, Signal::KILL);
    }
    let deadline = Deadline::usual();
    for leftover in leftovers {
        assert!(
            wait::pid_gone(leftover.pid, deadline),
            "{leftover} outlives SIGKILL"
        );
    }
}

/// Mount points below the folder.
pub(crate) fn mounts(folder: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    points
        .filter(|point| Path::new(point).starts_with(folder))
        .map(str::to_owned)
        .collect()
}
