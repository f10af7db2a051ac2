//! Who has a pipe open for writing: the reason why it does not come to its end.

use alloc::vec::Vec;
use core::str;

use xioflow_sys::{AsFd, CWD, OpenFlags, openat, readlinkat};

use crate::lists::list_numbers;
use crate::path::proc_path;
use crate::read::{is_gone, read_whole};
use crate::{CannotTell, StatLine, read_stat};

/// One descriptor of one process that leads to the pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipeHolder {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// The kernel's name for its program.
    pub command: Vec<u8>,
    /// Its number for the pipe.
    pub fd: u32,
}

/// Everyone who was found to hold the pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipeHolders {
    /// Who.
    pub holders: Vec<PipeHolder>,
    /// How many processes could not be looked into, so may hold it too.
    pub uninspected: u32,
}

/// The inode of a pipe, from the text that a link in `/proc/<pid>/fd` has for it.
#[must_use]
pub fn pipe_inode(link: &[u8]) -> Option<u64> {
    let number = link.strip_prefix(b"pipe:[")?.strip_suffix(b"]")?;
    str::from_utf8(number).ok()?.parse().ok()
}

/// Finds every process that has the pipe with this inode open for writing: a reader keeps nobody
/// waiting. A descriptor of which that cannot be told is taken for a writer's.
///
/// Descriptors of processes of other users, and of those that are not dumpable, cannot be seen
/// without privilege; they are counted.
///
/// # Errors
/// [`CannotTell`] when processes cannot be listed at all.
pub fn pipe_holders(inode: u64) -> Result<PipeHolders, CannotTell> {
    let path = proc_path!("/proc");
    let all = list_numbers(path).map_err(CannotTell::unreadable(path))?;
    let mut found = PipeHolders::default();
    for pid in all {
        match holds(pid, inode) {
            Some(fds) => found.add(pid, &fds),
            None => found.uninspected += 1,
        }
    }
    Ok(found)
}

impl PipeHolders {
    fn add(&mut self, pid: u32, fds: &[u32]) {
        if fds.is_empty() {
            return;
        }
        let mut line = StatLine::new();
        match read_stat(pid, &mut line) {
            Ok(Some(stat)) => self.holders.extend(fds.iter().map(|&fd| PipeHolder {
                pid,
                start_ticks: stat.start_ticks,
                command: stat.command.to_vec(),
                fd,
            })),
            Ok(None) => {}
            Err(_) => self.uninspected += 1,
        }
    }
}

/// The descriptors of a process that lead to the pipe; `None` when it cannot be looked into.
fn holds(pid: u32, inode: u64) -> Option<Vec<u32>> {
    let path = proc_path!("/proc/{pid}/fd");
    let fds = match list_numbers(path) {
        Ok(fds) => fds,
        Err(errno) => return is_gone(errno).then(Vec::new),
    };
    let directory = match openat(CWD, path.as_c_str(), OpenFlags::DIRECTORY, 0) {
        Ok(directory) => directory,
        Err(errno) => return is_gone(errno).then(Vec::new),
    };
    let leads = |fd: &u32| {
        let mut link = [0; 64];
        let len = readlinkat(directory.as_fd(), proc_path!("{fd}").as_c_str(), &mut link);
        len.is_ok_and(|len| pipe_inode(&link[..len]) == Some(inode))
    };
    let writes = |fd: &u32| !is_read_only(pid, *fd);
    Some(fds.into_iter().filter(leads).filter(writes).collect())
}

/// Whether a descriptor is known to be open for reading only (`flags` of `/proc/<pid>/fdinfo/<fd>`,
/// in octal, with the access mode in the last two bits).
fn is_read_only(pid: u32, fd: u32) -> bool {
    let mut text = Vec::new();
    if read_whole(&proc_path!("/proc/{pid}/fdinfo/{fd}"), &mut text).is_err() {
        return false;
    }
    access_mode(&text) == Some(0)
}

fn access_mode(fdinfo: &[u8]) -> Option<u32> {
    const ACCESS_MODE: u32 = 0o3;
    let mut lines = fdinfo.split(|&byte| byte == b'\n');
    let flags = lines.find_map(|line| line.strip_prefix(b"flags:"))?;
    let flags = str::from_utf8(flags).ok()?.trim();
    Some(u32::from_str_radix(flags, 8).ok()? & ACCESS_MODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    #[test]
    fn a_link_of_a_pipe_has_its_inode() {
        assert_eq!(pipe_inode(b"pipe:[4711]"), Some(4711));
        for other in [
            &b"socket:[4711]"[..],
            b"pipe:[]",
            b"pipe:[12",
            b"/pipe:[1]",
            b"",
        ] {
            assert_eq!(pipe_inode(other), None);
        }
    }

    #[test]
    fn the_access_mode_is_in_the_last_bits() {
        let info = |flags| std::format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t15\n").into_bytes();
        assert_eq!(access_mode(&info("02004000")), Some(0));
        assert_eq!(access_mode(&info("0100001")), Some(1));
        assert_eq!(access_mode(&info("02")), Some(2));
        assert_eq!(access_mode(b"pos:\t0\n"), None);
        assert_eq!(access_mode(&info("rw")), None);
    }

    #[test]
    fn this_process_is_named_like_any_other() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let link = std::fs::read_link(std::format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let link = link.expect("a link");
        let inode = pipe_inode(link.as_os_str().as_encoded_bytes()).expect("a pipe");
        let ours = |fd: u32| {
            let found = pipe_holders(inode).expect("listed");
            let own = |holder: &PipeHolder| holder.pid == std::process::id() && holder.fd == fd;
            found.holders.iter().any(own)
        };
        let number = |fd: i32| u32::try_from(fd).expect("a descriptor");
        assert!(ours(number(writer.as_raw_fd())));
        assert!(!ours(number(reader.as_raw_fd())));
    }

    #[test]
    fn the_one_who_holds_a_pipe_is_named() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sleep runs");
        let ours = child.stdout.as_ref().expect("piped").as_raw_fd();
        let link = std::fs::read_link(std::format!("/proc/self/fd/{ours}")).expect("a link");
        let inode = pipe_inode(link.as_os_str().as_encoded_bytes()).expect("a pipe");
        let found = pipe_holders(inode).expect("listed");
        let theirs: Vec<_> = found
            .holders
            .iter()
            .filter(|h| h.pid == child.id())
            .collect();
        assert_eq!(theirs.len(), 1);
        assert_eq!(theirs[0].fd, 1);
        assert_eq!(theirs[0].command, b"sleep");
        assert!(
            found
                .holders
                .iter()
                .all(|holder| holder.pid != std::process::id()),
            "a reader holds nothing up"
        );
        child.kill().expect("killed");
        child.wait().expect("waited for");
        let after = pipe_holders(inode).expect("listed");
        assert!(after.holders.iter().all(|holder| holder.pid != child.id()));
    }
}
