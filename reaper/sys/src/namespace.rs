//! Namespaces of this process and of the children it makes (namespaces(7)), and what is mounted in them.

use core::ffi::CStr;
use core::ptr;

use linux_raw_sys::general as raw;
use linux_raw_sys::prctl;

use crate::{BorrowedFd, Errno, Signal, capget};

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceKind {
    /// Of users and capabilities. This process enters it.
    User,
    /// Of process ids. The next children of this process are in it, and the very next is its init.
    Pid,
    /// Of mounts. This process enters it.
    Mount,
}

/// Makes a namespace, see unshare(2).
///
/// # Errors
/// EPERM without `CAP_SYS_ADMIN`, which a user namespace does not need but a filter or a setting may
/// forbid as well; ENOSPC at a limit of `/proc/sys/user`; EINVAL where the kernel has none of the kind.
pub fn unshare(kind: NamespaceKind) -> Result<(), Errno> {
    let flag = match kind {
        NamespaceKind::User => raw::CLONE_NEWUSER,
        NamespaceKind::Pid => raw::CLONE_NEWPID,
        NamespaceKind::Mount => raw::CLONE_NEWNS,
    };
    // SAFETY: takes no pointer; none of these flags changes memory or descriptors.
    unsafe { call!(unshare, flag) }.map(drop)
}

/// Whether this process may make PID and mount namespaces as it is (`CAP_SYS_ADMIN`).
///
/// # Errors
/// As in capget(2).
pub fn may_make_namespaces() -> Result<bool, Errno> {
    Ok(capget()?.effective & (1 << raw::CAP_SYS_ADMIN) != 0)
}

/// From now on, mounts below `path` come from outside and none of this namespace goes there.
///
/// # Errors
/// As in mount(2); EINVAL where `path` is no mount point.
pub fn receive_mounts_only(path: &CStr) -> Result<(), Errno> {
    mount(ptr::null(), path, ptr::null(), raw::MS_REC | raw::MS_SLAVE)
}

/// Mounts the `/proc` of this process's PID namespace.
///
/// # Errors
/// As in mount(2); EPERM in a user namespace where no other `/proc` is wholly visible.
pub fn mount_proc(path: &CStr) -> Result<(), Errno> {
    let flags = raw::MS_NOSUID | raw::MS_NODEV | raw::MS_NOEXEC;
    let name = c"proc".as_ptr().cast();
    mount(name, path, name, flags)
}

fn mount(source: *const u8, target: &CStr, kind: *const u8, flags: u32) -> Result<(), Errno> {
    let data = ptr::null::<u8>();
    // SAFETY: the strings are NUL-terminated or null, which the flags that come here allow, only read,
    // and borrowed or static for the call; no data is given.
    unsafe { call!(mount, source, target.as_ptr(), kind, flags, data) }.map(drop)
}

/// Lets this process get a signal when its parent ends, until it executes a program that gives it
/// other rights. A parent that has ended already is not noticed.
///
/// # Errors
/// None that a valid signal can cause.
pub fn set_parent_death_signal(signal: Signal) -> Result<(), Errno> {
    let number = signal.number();
    // SAFETY: this option takes a number, no pointer.
    unsafe {
        call!(
            prctl,
            prctl::PR_SET_PDEATHSIG,
            number,
            0usize,
            0usize,
            0usize
        )
    }
    .map(drop)
}

/// Takes every capability out of the bounding set of this process and of those it makes: no program
/// that they execute gets any.
///
/// # Errors
/// EPERM without `CAP_SETPCAP`.
pub fn empty_bounding_set() -> Result<(), Errno> {
    for capability in 0..u64::BITS {
        let option = prctl::PR_CAPBSET_DROP;
        // SAFETY: this option takes a number, no pointer.
        match unsafe { call!(prctl, option, capability, 0usize, 0usize, 0usize) } {
            Ok(_) => {}
            // There are no more.
            Err(Errno::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// What a pidfd says of its process; `struct pidfd_info` in its first form.
#[derive(Debug, Default)]
#[repr(C)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// Process, thread group and parent; then real, effective, saved and file system ids.
    ids: [u32; 11],
    exit_code: i32,
}

/// `_IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info)`: the request of [`pidfd_status`] and [`pidfd_parent`].
pub const PIDFD_GET_INFO: u32 = 0xC040_FF0B;
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// The status of a process that somebody has waited for, as wait(2) encodes it; `None` before that.
///
/// # Errors
/// ENOTTY before Linux 6.13, EINVAL or ESRCH before 6.15, which has it first.
pub fn pidfd_status(pidfd: BorrowedFd<'_>) -> Result<Option<i32>, Errno> {
    const { assert!(size_of::<PidfdInfo>() == 64) };
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the request carries the size of the structure, which is local; the kernel fills no more.
    unsafe { call!(ioctl, pidfd, PIDFD_GET_INFO, &raw mut info) }?;
    Ok((info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code))
}

/// The parent of the process of a pidfd, by its number; until the process was waited for.
///
/// # Errors
/// ESRCH when it was; ENOTTY before Linux 6.13.
pub fn pidfd_parent(pidfd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut info = PidfdInfo::default();
    // SAFETY: the request carries the size of the structure, which is local; the kernel fills no more.
    unsafe { call!(ioctl, pidfd, PIDFD_GET_INFO, &raw mut info) }?;
    Ok(info.ids[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsFd, pidfd_open};

    #[test]
    fn a_pidfd_knows_the_parent_until_its_process_was_waited_for() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep runs");
        let pidfd = pidfd_open(child.id()).expect("pidfd opens");
        let parent = pidfd_parent(pidfd.as_fd());
        child.kill().expect("killed");
        child.wait().expect("waited for");
        // Before Linux 6.13 there is no such question.
        if parent != Err(Errno::ENOTTY) {
            assert_eq!(parent, Ok(crate::getpid()));
            assert_eq!(pidfd_parent(pidfd.as_fd()), Err(Errno::ESRCH));
        }
    }

    #[test]
    fn a_pidfd_tells_the_end_of_who_was_waited_for() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read line; exit 7"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let pidfd = pidfd_open(child.id()).expect("pidfd opens");
        let before = pidfd_status(pidfd.as_fd());
        drop(child.stdin.take());
        child.wait().expect("waited for");
        match pidfd_status(pidfd.as_fd()) {
            Ok(status) => {
                assert_eq!(before, Ok(None));
                assert_eq!(status, Some(7 << 8));
            }
            // Before Linux 6.15.
            Err(errno) => assert!(matches!(errno.raw(), 25 | 22 | 3), "{errno:?}"),
        }
    }

    #[test]
    fn what_needs_privilege_is_refused_without() {
        if !may_make_namespaces().expect("readable") {
            assert_eq!(unshare(NamespaceKind::Pid), Err(Errno::EPERM));
            assert_eq!(empty_bounding_set(), Err(Errno::EPERM));
        }
    }
}
