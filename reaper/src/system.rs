//! What the loop, the operation, the ladder's driver and the tree need of the system: one trait.
//!
//! They are written for any [`System`]. The helper is built for [`Linux`] alone (`linux` beside this file):
//! its functions have no receiver and no state, so what is called is the system call itself. The tests
//! have a simulated one (`tests/simulation`), in which time, numbers and every process are values.
//!
//! Sockets and the folder of the last word are not behind it: a simulation has real ones, at whose other
//! end it sits itself. Why the line is drawn here is in `docs/decisions/0045`.

mod linux;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use xioflow_facts::{CannotTell, Listing, Note, Numbers, Stat, StatLine};
use xioflow_protocol::{Armour, LaunchFailure};
use xioflow_sys::{
    BorrowedFd, ChildUsage, Clock, Ended, Errno, GroupId, OwnedFd, Pid, PollFd, Signal, SignalFd,
};

pub(crate) use self::linux::Linux;
use crate::launch::{Command, Standard};
use crate::spawn::Spawned;

/// A system that holds processes. Each function is one question or one act; what follows from the answers
/// is decided by the caller. Errors are those of the call it stands for.
pub trait System: fmt::Debug + 'static {
    /// What shows that this process may fork.
    type Proof: fmt::Debug;

    /// The time of a clock.
    fn now(clock: Clock) -> Duration;

    /// Waits until one of the descriptors is ready, or for so long; `None` waits for ever.
    ///
    /// # Errors
    /// As in ppoll(2).
    fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno>;

    /// Takes the next signal that the helper itself was sent.
    fn next_signal(signals: &SignalFd) -> Option<Signal>;

    /// Gives every signal the disposition that the command is to have.
    fn reset_dispositions();

    /// Makes the command's first process, which prepares itself and waits at its gate; and the namespace before
    /// it, where it is to have one.
    ///
    /// # Errors
    /// A failure of the fork itself. What fails in the child is heard at the gate.
    fn spawn(
        proof: &Self::Proof,
        command: &Command,
        standard: &Standard,
    ) -> Result<Spawned, LaunchFailure>;

    /// Takes from the helper what it needs no more, once the command is made.
    fn put_on_armour(holders: BorrowedFd<'_>) -> Armour;

    /// The helper's own number.
    fn getpid() -> u32;

    /// A child that has ended, if there is one, without waiting for it.
    ///
    /// # Errors
    /// ECHILD when there is no child at all.
    fn peek_any() -> Result<Option<Ended>, Errno>;

    /// Whether and how this child has ended.
    ///
    /// # Errors
    /// ECHILD when it is no child.
    fn peek(child: Pid) -> Result<Option<Ended>, Errno>;

    /// Waits for a child that has ended; from then on its number is free.
    ///
    /// # Errors
    /// As [`System::peek`].
    fn reap(child: Pid) -> Result<Option<Ended>, Errno>;

    /// What all children that were waited for have used.
    fn children_usage() -> ChildUsage;

    /// The line of a process; `None` when there is no such process.
    ///
    /// # Errors
    /// When that cannot be told.
    fn stat(pid: u32, line: &mut StatLine) -> Result<Option<Stat<'_>>, CannotTell>;

    /// What is noted of a process; `None` as above.
    ///
    /// # Errors
    /// As [`System::stat`].
    fn note(pid: u32) -> Result<Option<Note>, CannotTell>;

    /// The children of the helper, zombies among them.
    ///
    /// # Errors
    /// When they cannot be listed, or somebody may be missing.
    fn children(parent: u32) -> Result<Vec<u32>, CannotTell>;

    /// The same by asking about each of these numbers.
    fn children_by_number(numbers: Numbers) -> Vec<u32>;

    /// The number that was given last; `None` when that is not told.
    fn last_pid() -> Option<u32>;

    /// Everyone who descends from `root`, as `xioflow_facts::descendants_adopted` finds them.
    ///
    /// # Errors
    /// When `root` cannot be looked into.
    fn descendants(
        root: u32,
        adopter: Option<u32>,
        groups: &BTreeSet<u32>,
        until: Option<Duration>,
    ) -> Result<Listing, CannotTell>;

    /// Calls `take` with the number of every process there is.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn each_process(take: impl FnMut(u32)) -> Result<(), CannotTell>;

    /// How many want the processor; `None` when that is not told.
    fn runnable() -> Option<u32>;

    /// The group of a process.
    fn group_of(pid: Pid) -> Option<GroupId>;

    /// The session of a process.
    fn session_of(pid: Pid) -> Option<u32>;

    /// Signals a process by its number.
    ///
    /// # Errors
    /// As in kill(2).
    fn kill(pid: Pid, signal: Signal) -> Result<(), Errno>;

    /// Signals a group by its number.
    ///
    /// # Errors
    /// As in kill(2).
    fn kill_group(group: GroupId, signal: Signal) -> Result<(), Errno>;

    /// Whether a process could be signalled.
    ///
    /// # Errors
    /// As in kill(2).
    fn probe(pid: Pid) -> Result<(), Errno>;

    /// A descriptor that means this process for ever.
    ///
    /// # Errors
    /// As in pidfd_open(2).
    fn pidfd_open(pid: u32) -> Result<OwnedFd, Errno>;

    /// Another descriptor of the same process.
    ///
    /// # Errors
    /// As in fcntl(2).
    fn pidfd_copy(pidfd: BorrowedFd<'_>) -> Result<OwnedFd, Errno>;

    /// Signals the process of a descriptor.
    ///
    /// # Errors
    /// As in pidfd_send_signal(2).
    fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno>;

    /// Signals the group that the process of a descriptor leads or has led.
    ///
    /// # Errors
    /// As in pidfd_send_signal(2).
    fn pidfd_signal_group(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno>;

    /// The parent of the process of a descriptor.
    ///
    /// # Errors
    /// ESRCH when it was waited for; others where the kernel does not tell.
    fn pidfd_parent(pidfd: BorrowedFd<'_>) -> Result<u32, Errno>;

    /// How the process of a descriptor ended, as a status of wait(2); `None` while that is not known.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    fn pidfd_status(pidfd: BorrowedFd<'_>) -> Result<Option<i32>, Errno>;

    /// The number that no other process of this boot has.
    fn pidfd_inode(pidfd: BorrowedFd<'_>) -> Option<u64>;

    /// Takes the processor before all others.
    ///
    /// # Errors
    /// Where that is not allowed.
    fn set_real_time() -> Result<(), Errno>;

    /// Takes the processor in turn.
    ///
    /// # Errors
    /// As [`System::set_real_time`].
    fn set_ordinary() -> Result<(), Errno>;

    /// Whether the helper may signal processes of other users.
    fn has_authority() -> bool;

    /// Puts that right in force, or out of it.
    ///
    /// # Errors
    /// As in capset(2).
    fn put_authority_in_force(on: bool) -> Result<(), Errno>;

    /// Gives up what came with a user namespace.
    ///
    /// # Errors
    /// As in capset(2).
    fn drop_capabilities() -> Result<(), Errno>;
}
