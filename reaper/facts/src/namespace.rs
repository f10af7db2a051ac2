//! In which namespaces this process counts processes. A process id means nothing outside of its pid
//! namespace, and a start time is shifted by the clocks of a time namespace (time_namespaces(7)).

use core::str;

use xioflow_sys::{CWD, Errno, getpid, readlinkat, statat};

use crate::CannotTell;
use crate::path::proc_path;

/// Digits of a process id, and one to spare: a longer link is not what we know.
const LINK_LEN_MAX: usize = 12;

/// Inodes of namespaces (namespaces(7)). One is given out again only after its namespace has ended,
/// and with a pid namespace all of its processes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Namespaces {
    /// That of process ids.
    pub pid: u64,
    /// That of the clocks since boot; `None` where the kernel has none of the kind.
    pub time: Option<u64>,
}

/// The namespaces in which this process sees others.
///
/// # Errors
/// [`CannotTell`] where `/proc` does not say.
pub fn own_namespaces() -> Result<Namespaces, CannotTell> {
    let pid = proc_path!("/proc/self/ns/pid");
    let time = proc_path!("/proc/self/ns/time");
    let inode = |path| statat(CWD, path).map(|stat| stat.inode);
    Ok(Namespaces {
        pid: inode(pid.as_c_str()).map_err(CannotTell::unreadable(pid))?,
        time: match inode(time.as_c_str()) {
            Ok(inode) => Some(inode),
            Err(Errno::ENOENT) => None,
            Err(error) => return Err(CannotTell::unreadable(time)(error)),
        },
    })
}

/// The pid namespace of this process's next children, which has its first process already.
///
/// # Errors
/// [`CannotTell`] where `/proc` does not say.
pub fn pid_namespace_of_children() -> Result<u64, CannotTell> {
    let path = proc_path!("/proc/self/ns/pid_for_children");
    statat(CWD, path.as_c_str())
        .map(|stat| stat.inode)
        .map_err(CannotTell::unreadable(path))
}

/// Whether the numbers in `/proc` are those that this process and its system calls use. They are not
/// where `/proc` was mounted in another pid namespace: a number there is another process, or none.
///
/// # Errors
/// [`CannotTell`] where there is no `/proc`, or it does not say.
pub fn proc_is_ours() -> Result<bool, CannotTell> {
    let path = proc_path!("/proc/self");
    let mut link = [0; LINK_LEN_MAX];
    match readlinkat(CWD, path.as_c_str(), &mut link) {
        Ok(len) => Ok(parse(&link[..len]) == Some(getpid())),
        // A mounted /proc has the name always; where the reader has no number in it, it leads nowhere.
        Err(Errno::ENOENT) if statat(CWD, c"/proc/sys").is_ok() => Ok(false),
        Err(error) => Err(CannotTell::unreadable(path)(error)),
    }
}

fn parse(link: &[u8]) -> Option<u32> {
    str::from_utf8(link).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn this_process_is_in_the_namespaces_of_its_children() {
        let here = own_namespaces().expect("/proc says");
        let child = std::process::Command::new("stat")
            .args(["-L", "-c", "%i", "/proc/self/ns/pid"])
            .output()
            .expect("stat runs");
        let told = std::string::String::from_utf8(child.stdout).expect("a number");
        assert_eq!(told.trim().parse(), Ok(here.pid));
        let time = std::fs::metadata("/proc/self/ns/time").map(|it| it.ino());
        assert_eq!(here.time, time.ok());
    }

    #[test]
    fn the_numbers_here_are_ours() {
        assert_eq!(proc_is_ours(), Ok(true));
        assert_eq!(parse(b"12"), Some(12));
        assert_eq!(parse(b"12x"), None);
    }
}
