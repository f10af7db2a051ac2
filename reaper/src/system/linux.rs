//! The real system: each function is the call or the look that the trait names, and nothing else.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use xioflow_facts::{CannotTell, Listing, Note, Numbers, Stat, StatLine};
use xioflow_protocol::{Armour, LaunchFailure};
use xioflow_sys::{
    BorrowedFd, Capabilities, ChildUsage, Clock, Ended, Errno, GroupId, OwnedFd, Pid, PollFd,
    Signal, SignalFd, SingleThread, capset, default_disposition,
};

use super::System;
use crate::launch::{Command, Standard};
use crate::spawn::Spawned;
use crate::tree::raise_descriptor_limit;
use crate::{armour, authority, spawn};

/// This machine.
#[derive(Debug)]
pub(crate) enum Linux {}

impl System for Linux {
    type Proof = SingleThread;

    fn now(clock: Clock) -> Duration {
        xioflow_sys::now(clock)
    }

    fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
        xioflow_sys::ppoll(fds, timeout)
    }

    fn next_signal(signals: &SignalFd) -> Option<Signal> {
        signals.next().ok().flatten().map(|it| it.signal)
    }

    fn reset_dispositions() {
        for signal in Signal::all() {
            // The C library's own two are refused by some sandboxes; they are never ignored.
            let _reset = default_disposition(signal);
        }
    }

    fn spawn(
        proof: &SingleThread,
        command: &Command,
        standard: &Standard,
    ) -> Result<Spawned, LaunchFailure> {
        spawn::spawn(proof, command, standard)
    }

    fn put_on_armour(holders: BorrowedFd<'_>) -> Armour {
        raise_descriptor_limit();
        armour::put_on(holders)
    }

    fn getpid() -> u32 {
        xioflow_sys::getpid()
    }

    fn peek_any() -> Result<Option<Ended>, Errno> {
        xioflow_sys::peek_any()
    }

    fn peek(child: Pid) -> Result<Option<Ended>, Errno> {
        xioflow_sys::peek(child)
    }

    fn reap(child: Pid) -> Result<Option<Ended>, Errno> {
        xioflow_sys::reap(child)
    }

    fn children_usage() -> ChildUsage {
        xioflow_sys::children_usage()
    }

    fn stat(pid: u32, line: &mut StatLine) -> Result<Option<Stat<'_>>, CannotTell> {
        xioflow_facts::read_stat(pid, line)
    }

    fn note(pid: u32) -> Result<Option<Note>, CannotTell> {
        xioflow_facts::process_note(pid)
    }

    fn children(parent: u32) -> Result<Vec<u32>, CannotTell> {
        xioflow_facts::children(parent)
    }

    fn children_by_number(numbers: Numbers) -> Vec<u32> {
        xioflow_facts::children_by_number(numbers)
    }

    fn last_pid() -> Option<u32> {
        xioflow_facts::last_pid()
    }

    fn descendants(
        root: u32,
        adopter: Option<u32>,
        groups: &BTreeSet<u32>,
        until: Option<Duration>,
    ) -> Result<Listing, CannotTell> {
        xioflow_facts::descendants_adopted(root, adopter, groups, until)
    }

    fn each_process(take: impl FnMut(u32)) -> Result<(), CannotTell> {
        xioflow_facts::each_process(take)
    }

    fn runnable() -> Option<u32> {
        xioflow_facts::runnable()
    }

    fn group_of(pid: Pid) -> Option<GroupId> {
        xioflow_sys::group_of(pid)
    }

    fn session_of(pid: Pid) -> Option<u32> {
        xioflow_sys::session_of(pid)
    }

    fn kill(pid: Pid, signal: Signal) -> Result<(), Errno> {
        xioflow_sys::kill(pid, signal)
    }

    fn kill_group(group: GroupId, signal: Signal) -> Result<(), Errno> {
        xioflow_sys::kill_group(group, signal)
    }

    fn probe(pid: Pid) -> Result<(), Errno> {
        xioflow_sys::probe(pid)
    }

    fn pidfd_open(pid: u32) -> Result<OwnedFd, Errno> {
        xioflow_sys::pidfd_open(pid)
    }

    fn pidfd_copy(pidfd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        xioflow_sys::duplicate_above(pidfd, 3)
    }

    fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
        xioflow_sys::pidfd_signal(pidfd, signal)
    }

    fn pidfd_signal_group(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
        xioflow_sys::pidfd_signal_group(pidfd, signal)
    }

    fn pidfd_parent(pidfd: BorrowedFd<'_>) -> Result<u32, Errno> {
        xioflow_sys::pidfd_parent(pidfd)
    }

    fn pidfd_status(pidfd: BorrowedFd<'_>) -> Result<Option<i32>, Errno> {
        xioflow_sys::pidfd_status(pidfd)
    }

    fn pidfd_inode(pidfd: BorrowedFd<'_>) -> Option<u64> {
        xioflow_facts::pidfd_inode(pidfd)
    }

    fn set_real_time() -> Result<(), Errno> {
        xioflow_sys::set_real_time()
    }

    fn set_ordinary() -> Result<(), Errno> {
        xioflow_sys::set_ordinary()
    }

    fn has_authority() -> bool {
        authority::is_held()
    }

    fn put_authority_in_force(on: bool) -> Result<(), Errno> {
        authority::put_in_force(on)
    }

    fn drop_capabilities() -> Result<(), Errno> {
        capset(Capabilities::default())
    }
}
