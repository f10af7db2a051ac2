//! Processes and groups as checked values, and the calls that make, name and signal them.

use core::fmt;
use core::ptr;

use linux_raw_sys::general as raw;

use crate::{BorrowedFd, Errno, OwnedFd, Signal};

/// A process that may be signalled: never 0, 1, or a negative number.
///
/// kill(2) gives those numbers other meanings (a group, everything, init); a value of this type
/// cannot have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(i32);

/// A process group that may be signalled: never 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(i32);

fn checked(number: u32) -> Option<i32> {
    i32::try_from(number).ok().filter(|&number| number > 1)
}

impl Pid {
    /// Checks a number; `None` for 0, 1 and what is no process id.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        checked(number).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.unsigned_abs()
    }
}

impl GroupId {
    /// Checks a number; `None` for 0, 1 and what is no group id.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        checked(number).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.unsigned_abs()
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Proof that this process has one thread and no C library.
///
/// A copy of a process has only the thread that asked for it. With others, their locks would
/// stay taken in the copy, and a C library keeps a thread's number that would be wrong in it.
/// Only the entry point of a freestanding program hands this out.
#[derive(Debug)]
pub struct SingleThread(());

impl SingleThread {
    /// Asserts it.
    ///
    /// # Safety
    /// The process has exactly one thread while the value lives, and what runs in a copy made by
    /// [`fork`] uses no C library.
    #[must_use]
    pub const unsafe fn assert() -> Self {
        Self(())
    }
}

/// Which side of a [`fork`] this is.
#[derive(Debug)]
pub enum Fork {
    /// The copy.
    Child,
    /// The original.
    Parent {
        /// The copy's number.
        child: Pid,
        /// A descriptor for it, where the kernel has them (Linux 5.2).
        pidfd: Option<OwnedFd>,
    },
}

/// Makes a copy of this process. Its end is told by SIGCHLD.
///
/// # Errors
/// As in clone(2): EAGAIN at the limit of processes, ENOMEM.
pub fn fork(_proof: &SingleThread) -> Result<Fork, Errno> {
    let mut pidfd: i32 = -1;
    let made = match clone3(&mut pidfd, None) {
        // Not there before Linux 5.3, and filters of containers answer the same.
        Err(Errno::ENOSYS) => clone(u64::from(raw::CLONE_PIDFD), &mut pidfd),
        other => other,
    };
    let made = match made {
        // No pidfds before Linux 5.2.
        Err(Errno::EINVAL) => clone(0, &mut pidfd),
        other => other,
    }?;
    Ok(forked(made, pidfd))
}

/// The same, with the child in the control group of version 2 whose directory this is, from its first
/// instruction on.
///
/// # Errors
/// As in clone3(2). ENOSYS, E2BIG and EINVAL before Linux 5.7, which has no such call: nothing was made, and a
/// child can be moved there instead. EACCES without the right to move processes there, EBUSY where the
/// group hands controllers to its children, EOPNOTSUPP where it is threaded, EAGAIN at its limit of processes,
/// ENODEV when it was removed.
pub fn fork_into(_proof: &SingleThread, group: BorrowedFd<'_>) -> Result<Fork, Errno> {
    #[cfg(feature = "lacking")]
    crate::lacking::clone_into()?;
    let mut pidfd: i32 = -1;
    let made = clone3(&mut pidfd, Some(group))?;
    Ok(forked(made, pidfd))
}

/// What a successful clone means here. `pidfd` is what it was given to fill.
fn forked(made: usize, pidfd: i32) -> Fork {
    let Some(child) = u32::try_from(made).ok().and_then(Pid::new) else {
        return Fork::Child;
    };
    // SAFETY: -1 was there before this very clone, so any other number is of the descriptor that it made for us.
    let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw(pidfd) });
    Fork::Parent { child, pidfd }
}

fn clone3(pidfd: &mut i32, group: Option<BorrowedFd<'_>>) -> Result<usize, Errno> {
    #[cfg(feature = "lacking")]
    crate::lacking::pidfd()?;
    // SAFETY: an all-zero `clone_args` is a valid value of a plain structure of integers.
    let mut arguments: raw::clone_args = unsafe { core::mem::zeroed() };
    arguments.flags = u64::from(raw::CLONE_PIDFD);
    if let Some(group) = group {
        arguments.flags |= raw::CLONE_INTO_CGROUP;
        arguments.cgroup = u64::from(group.raw().unsigned_abs());
    }
    arguments.pidfd = ptr::from_mut(pidfd).expose_provenance() as u64;
    arguments.exit_signal = u64::from(raw::SIGCHLD);
    // SAFETY: no memory is shared (no CLONE_VM), so the copy goes on with its own stack at this
    // very place; `fork` has the proof that no other thread is left behind. The kernel writes
    // one i32 through `pidfd`, which is borrowed for the call.
    unsafe { call!(clone3, &raw const arguments, size_of::<raw::clone_args>()) }
}

fn clone(extra: u64, pidfd: &mut i32) -> Result<usize, Errno> {
    let flags = extra | u64::from(raw::SIGCHLD);
    #[cfg(feature = "lacking")]
    crate::lacking::clone_flags(flags)?;
    // SAFETY: as in `clone3`. The third argument is where the kernel puts the pidfd on every
    // architecture; a null stack means the copy keeps this one; the rest is not asked for.
    unsafe {
        call!(
            clone,
            flags,
            ptr::null::<u8>(),
            ptr::from_mut(pidfd),
            0usize,
            0usize
        )
    }
}

/// Ends this process at once.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: takes no pointer and does not come back.
        let _never = unsafe { call!(exit_group, status) };
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "process and user ids have 32 bits"
)]
const fn id(returned: usize) -> u32 {
    returned as u32
}

/// This process.
#[must_use]
pub fn getpid() -> u32 {
    // SAFETY: takes no pointer; always succeeds.
    unsafe { call!(getpid) }.map_or(0, id)
}

/// The parent of this process; 0 when it is outside this pid namespace.
#[must_use]
pub fn getppid() -> u32 {
    // SAFETY: takes no pointer; always succeeds.
    unsafe { call!(getppid) }.map_or(0, id)
}

/// The real user of this process: who started it, whatever rights its program has.
#[must_use]
pub fn getuid() -> u32 {
    // SAFETY: takes no pointer; always succeeds.
    unsafe { call!(getuid) }.map_or(u32::MAX, id)
}

/// The real group of this process.
#[must_use]
pub fn getgid() -> u32 {
    // SAFETY: takes no pointer; always succeeds.
    unsafe { call!(getgid) }.map_or(u32::MAX, id)
}

/// The effective user of this process.
#[must_use]
pub fn geteuid() -> u32 {
    // SAFETY: takes no pointer; always succeeds.
    unsafe { call!(geteuid) }.map_or(u32::MAX, id)
}

/// The effective group of this process.
#[must_use]
pub fn getegid() -> u32 {
    // SAFETY: takes no pointer; always succeeds.
    unsafe { call!(getegid) }.map_or(u32::MAX, id)
}

/// Makes a session and a process group of its own for this process.
///
/// # Errors
/// EPERM when it leads a group already.
pub fn setsid() -> Result<(), Errno> {
    // SAFETY: takes no pointer.
    unsafe { call!(setsid) }.map(drop)
}

/// Sends a signal to one process by its number.
///
/// The caller knows that the number still means the process it thinks of: a child of its own
/// that was not waited for.
///
/// # Errors
/// ESRCH when there is none, EPERM when it is not ours to signal.
pub fn kill(pid: Pid, signal: Signal) -> Result<(), Errno> {
    // SAFETY: takes no pointer; `Pid` is above 1, so one process is meant.
    unsafe { call!(kill, pid.0, signal.number()) }.map(drop)
}

/// Sends a signal to every process of a group at once.
///
/// # Errors
/// ESRCH when the group is empty, EPERM when none of its processes may be signalled.
pub fn kill_group(group: GroupId, signal: Signal) -> Result<(), Errno> {
    // SAFETY: takes no pointer; `GroupId` is above 1, so its negation is neither 0 nor -1.
    unsafe { call!(kill, -group.0, signal.number()) }.map(drop)
}

/// Whether a process has this number, also one that has ended and was not waited for.
///
/// # Errors
/// ESRCH when there is none. EPERM means that there is one.
pub fn probe(pid: Pid) -> Result<(), Errno> {
    // SAFETY: takes no pointer; signal 0 checks and sends nothing.
    unsafe { call!(kill, pid.0, 0u32) }.map(drop)
}

/// The group of a process; `None` when there is none with this number.
///
/// One that has ended and was not waited for is still in its group.
#[must_use]
pub fn group_of(pid: Pid) -> Option<GroupId> {
    // SAFETY: takes no pointer; ESRCH is the only error for a number above 0.
    let group = unsafe { call!(getpgid, pid.0) }.map_or(0, id);
    // 0 for a group outside this pid namespace, too.
    GroupId::new(group)
}

/// The session of a process; `None` when there is none, or it is outside this pid namespace.
#[must_use]
pub fn session_of(pid: Pid) -> Option<u32> {
    // SAFETY: takes no pointer.
    let session = unsafe { call!(getsid, pid.0) }.map_or(0, id);
    (session != 0).then_some(session)
}

/// Opens a descriptor for a process.
///
/// # Errors
/// As in pidfd_open(2): ESRCH, ENOSYS before Linux 5.3.
pub fn pidfd_open(pid: u32) -> Result<OwnedFd, Errno> {
    #[cfg(feature = "lacking")]
    crate::lacking::pidfd()?;
    // SAFETY: takes no pointer; the descriptor that comes back is new.
    unsafe {
        let returned = call!(pidfd_open, pid, 0u32)?;
        Ok(OwnedFd::from_call(returned))
    }
}

/// Sends a signal to the process of a pidfd, whatever became of its number.
///
/// # Errors
/// ESRCH when it is gone, EPERM, ENOSYS before Linux 5.1.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
    #[cfg(feature = "lacking")]
    crate::lacking::pidfd()?;
    // SAFETY: no siginfo is given; the descriptor is borrowed for the call.
    unsafe {
        call!(
            pidfd_send_signal,
            pidfd,
            signal.number(),
            ptr::null::<u8>(),
            0u32
        )
    }
    .map(drop)
}

/// `PIDFD_SIGNAL_PROCESS_GROUP` of pidfd_send_signal(2).
const SIGNAL_PROCESS_GROUP: u32 = 1 << 2;

/// Sends a signal to the group that the process of a pidfd leads or has led.
///
/// The group cannot be mistaken for a later one with the same number: the descriptor keeps hold
/// of the number itself.
///
/// # Errors
/// ESRCH when the group is empty; EINVAL before Linux 6.9; EPERM.
pub fn pidfd_signal_group(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
    #[cfg(feature = "lacking")]
    crate::lacking::pidfd()?;
    // SAFETY: no siginfo is given; the descriptor is borrowed for the call.
    unsafe {
        call!(
            pidfd_send_signal,
            pidfd,
            signal.number(),
            ptr::null::<u8>(),
            SIGNAL_PROCESS_GROUP
        )
    }
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AsFd;

    #[test]
    fn numbers_with_another_meaning_are_no_targets() {
        for number in [0, 1, u32::MAX, 1 << 31] {
            assert_eq!(Pid::new(number), None);
            assert_eq!(GroupId::new(number), None);
        }
        assert_eq!(Pid::new(2).map(Pid::number), Some(2));
    }

    #[test]
    fn a_process_knows_itself_and_its_parent() {
        assert_eq!(getpid(), std::process::id());
        assert_eq!(getppid(), std::os::unix::process::parent_id());
        assert_ne!(geteuid(), u32::MAX);
    }

    #[test]
    fn a_process_is_in_its_group_until_it_was_waited_for() {
        let mut child = std::os::unix::process::CommandExt::process_group(
            &mut std::process::Command::new("sleep"),
            0,
        )
        .arg("60")
        .spawn()
        .expect("sleep runs");
        let pid = Pid::new(child.id()).expect("a child");
        assert_eq!(group_of(pid), GroupId::new(child.id()));
        child.kill().expect("killed");
        assert_eq!(group_of(pid), GroupId::new(child.id()));
        child.wait().expect("waited for");
        assert_eq!(group_of(pid), None);
    }

    #[test]
    fn a_session_has_the_number_of_its_leader() {
        let mut leader = std::process::Command::new("setsid")
            .args(["sh", "-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("setsid runs");
        let output = leader.stdout.take().expect("a pipe");
        let mut member = std::string::String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut member)
            .expect("the member's number");
        let member = member.trim().parse().expect("a number");
        let sessions = [leader.id(), member].map(|pid| Pid::new(pid).and_then(session_of));
        kill(Pid::new(member).expect("a pid"), Signal::KILL).expect("killed");
        leader.wait().expect("waited for");
        assert_eq!(sessions, [Some(leader.id()); 2]);
    }

    #[test]
    fn nobody_has_no_session() {
        let mut child = std::process::Command::new("true").spawn().expect("it runs");
        child.wait().expect("waited for");
        assert_eq!(Pid::new(child.id()).and_then(session_of), None);
    }

    #[test]
    fn a_pidfd_reaches_its_process() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep runs");
        let pidfd = pidfd_open(child.id()).expect("pidfd opens");
        pidfd_signal(pidfd.as_fd(), Signal::KILL).expect("signal is sent");
        let status = child.wait().expect("sleep ends");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
        assert_eq!(pidfd_signal(pidfd.as_fd(), Signal::KILL), Err(Errno::ESRCH));
    }
}
