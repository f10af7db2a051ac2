//! A short description of a process for a record that people read.

use alloc::vec::Vec;

use xioflow_sys::{CWD, statat};

use crate::path::proc_path;
use crate::{CannotTell, ProcessState, StatLine, read_stat};

/// Who a process is, for people. Never its arguments, which may be secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// The kernel's name for the program.
    pub command: Vec<u8>,
    /// Effective user; null when it could not be read.
    pub uid: Option<u32>,
    /// What it was doing.
    pub state: ProcessState,
}

/// Describes the process with a number; `None` when there is none.
///
/// # Errors
/// [`CannotTell`] when there may be one and it cannot be read.
pub fn process_note(pid: u32) -> Result<Option<Note>, CannotTell> {
    let mut line = StatLine::new();
    let Some(stat) = read_stat(pid, &mut line)? else {
        return Ok(None);
    };
    Ok(Some(Note {
        pid,
        start_ticks: stat.start_ticks,
        command: stat.command.to_vec(),
        uid: effective_user(pid),
        state: stat.state,
    }))
}

/// The owner of `/proc/<pid>/stat` would be root for a process that is not dumpable; the task
/// directory's status file tells the user itself.
fn effective_user(pid: u32) -> Option<u32> {
    let path = proc_path!("/proc/{pid}/status");
    let mut text = [0; 2048];
    match crate::read::read_short(&path, &mut text) {
        Ok(text) => parse_effective_user(text),
        Err(_) => statat(CWD, proc_path!("/proc/{pid}").as_c_str())
            .ok()
            .map(|stat| stat.uid),
    }
}

fn parse_effective_user(status: &[u8]) -> Option<u32> {
    let users = status
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Uid:"))?;
    let users = core::str::from_utf8(users).ok()?;
    // Real, effective, saved, file system.
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described() {
        let note = process_note(std::process::id())
            .expect("readable")
            .expect("alive");
        assert_eq!(note.uid, Some(xioflow_sys::geteuid()));
        assert!(!note.command.is_empty() && note.command.len() <= 15);
    }

    #[test]
    fn the_effective_user_is_the_second_of_four() {
        let status = b"Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t1\t1\t1\t1\n";
        assert_eq!(parse_effective_user(status), Some(0));
        assert_eq!(parse_effective_user(b"Name:\tx\n"), None);
    }
}
