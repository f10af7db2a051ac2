//! Which sockets a process has open, by their inodes. Who is at the other end is the kernel's own
//! business with sock_diag(7) and not in `/proc`.

use alloc::vec::Vec;
use core::str;

use xioflow_sys::{AsFd, CWD, OpenFlags, openat, readlinkat};

use crate::CannotTell;
use crate::lists::list_numbers;
use crate::path::proc_path;
use crate::read::is_gone;

/// The inode of a socket, from the text that a link in `/proc/<pid>/fd` has for it.
#[must_use]
fn socket_inode(link: &[u8]) -> Option<u64> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    str::from_utf8(number).ok()?.parse().ok()
}

/// The inodes of all sockets that a process has open; none of one that is gone.
///
/// # Errors
/// [`CannotTell`] where the process may not be looked into: it belongs to another user or is not
/// dumpable, and there is no privilege.
pub fn socket_inodes(pid: u32) -> Result<Vec<u64>, CannotTell> {
    let path = proc_path!("/proc/{pid}/fd");
    let nobody = |errno| match is_gone(errno) {
        true => Ok(Vec::new()),
        false => Err(CannotTell::unreadable(path)(errno)),
    };
    let fds = match list_numbers(path) {
        Ok(fds) => fds,
        Err(errno) => return nobody(errno),
    };
    let folder = match openat(CWD, path.as_c_str(), OpenFlags::DIRECTORY, 0) {
        Ok(folder) => folder,
        Err(errno) => return nobody(errno),
    };
    let inode = |fd: u32| {
        let mut link = [0; 64];
        let len = readlinkat(folder.as_fd(), proc_path!("{fd}").as_c_str(), &mut link).ok()?;
        socket_inode(&link[..len])
    };
    Ok(fds.into_iter().filter_map(inode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_link_of_a_socket_has_its_inode() {
        assert_eq!(socket_inode(b"socket:[4711]"), Some(4711));
        for other in [&b"pipe:[4711]"[..], b"socket:[]", b"socket:[12", b""] {
            assert_eq!(socket_inode(other), None);
        }
    }

    #[test]
    fn the_sockets_of_a_process_are_found_while_they_are_open() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let link = std::fs::read_link(std::format!("/proc/self/fd/{}", one.as_raw_fd()));
        let link = link.expect("a link");
        let inode = socket_inode(link.as_os_str().as_encoded_bytes()).expect("a socket");
        let ours = || socket_inodes(std::process::id()).expect("ours may be looked into");
        assert!(ours().contains(&inode));
        drop(one);
        assert!(!ours().contains(&inode));
    }

    #[test]
    fn one_that_is_gone_has_none() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("true runs");
        child.wait().expect("waited for");
        assert_eq!(socket_inodes(child.id()), Ok(Vec::new()));
    }
}
