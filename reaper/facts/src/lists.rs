//! The lists of `/proc`: children of a thread, threads of a process, numbers in a folder.
//!
//! `tree` follows them. Missing and empty are told apart: a thread that is gone has no children any more, and a kernel
//! without the file has none to show.

use alloc::vec::Vec;
use core::str;

use xioflow_sys::{AsFd, CWD, Errno, OpenFlags, getdents, openat};

use crate::path::proc_path;
use crate::read::{is_gone, read_whole};
use crate::{CannotTell, ProcPath, StatLine, read_stat};

/// Why there is no list.
pub(crate) enum Missing {
    /// The kernel has no such file.
    File,
    /// It has, and could not be asked.
    Answer(CannotTell),
}

/// The children of one thread. Those of a thread that is gone are an empty list: they have
/// another parent now.
pub(crate) fn list_children(parent: u32, thread: u32) -> Result<Vec<u32>, Missing> {
    let path = proc_path!("/proc/{parent}/task/{thread}/children");
    let mut text = Vec::new();
    match read_whole(&path, &mut text) {
        Ok(()) => numbers(&text).ok_or(Missing::Answer(CannotTell::Malformed { path })),
        Err(Errno::ENOENT) => why_missing(parent, path),
        Err(Errno::ESRCH) => Ok(Vec::new()),
        Err(errno) => Err(Missing::Answer(CannotTell::Unreadable { path, errno })),
    }
}

/// Tells a process that is gone from a kernel without the file.
fn why_missing(parent: u32, path: ProcPath) -> Result<Vec<u32>, Missing> {
    let own = proc_path!("/proc/thread-self/children");
    match openat(CWD, own.as_c_str(), OpenFlags::READ, 0) {
        Err(Errno::ENOENT) => return Err(Missing::File),
        Err(errno) => return Err(Missing::Answer(CannotTell::Unreadable { path: own, errno })),
        Ok(_) => {}
    }
    let mut line = StatLine::new();
    match read_stat(parent, &mut line) {
        // The process is there: it was one of its threads that ended.
        Ok(_) => Ok(Vec::new()),
        Err(_) => Err(Missing::Answer(CannotTell::Unreadable {
            path,
            errno: Errno::ENOENT,
        })),
    }
}

fn numbers(text: &[u8]) -> Option<Vec<u32>> {
    str::from_utf8(text)
        .ok()?
        .split_ascii_whitespace()
        .map(|word| word.parse().ok())
        .collect()
}

/// The threads of a process; none when it is gone.
pub(crate) fn threads_of(pid: u32) -> Result<Vec<u32>, CannotTell> {
    let path = proc_path!("/proc/{pid}/task");
    match list_numbers(path) {
        Ok(threads) => Ok(threads),
        // Without `/proc`, or hidden by it, a living process would look the same.
        Err(errno) if is_gone(errno) => match read_stat(pid, &mut StatLine::new())? {
            None => Ok(Vec::new()),
            Some(_) => Err(CannotTell::Unreadable { path, errno }),
        },
        Err(errno) => Err(CannotTell::Unreadable { path, errno }),
    }
}

/// The names in a directory that are numbers.
pub(crate) fn list_numbers(path: ProcPath) -> Result<Vec<u32>, Errno> {
    let mut found = Vec::new();
    each_number(path, |number| found.push(number))?;
    Ok(found)
}

/// Passes on the names in a directory that are numbers, as they are read.
pub(crate) fn each_number(path: ProcPath, mut take: impl FnMut(u32)) -> Result<(), Errno> {
    let directory = openat(CWD, path.as_c_str(), OpenFlags::DIRECTORY, 0)?;
    let mut buffer = [0; 4096];
    loop {
        let entries = getdents(directory.as_fd(), &mut buffer)?;
        if entries.is_end() {
            return Ok(());
        }
        entries
            .filter_map(|name| name.to_str().ok()?.parse::<u32>().ok())
            .for_each(&mut take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_anything_but_numbers_is_no_list() {
        assert_eq!(numbers(b"1 22 333 \n"), Some(std::vec![1, 22, 333]));
        assert_eq!(numbers(b""), Some(Vec::new()));
        assert_eq!(numbers(b"1 x"), None);
        assert_eq!(numbers(b"1 \xff"), None);
    }
}
