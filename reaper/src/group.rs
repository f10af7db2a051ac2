//! The control group that a tree is in: everyone in it is killed by one write, and the system says when
//! nobody is left in it.
//!
//! Its files are opened before the helper is armoured; whoever asked for the launch has made it and removes it. A tree in a group is
//! still held as a tree (`tree`), because a member of the same user may be moved out of the group. So nothing is left
//! only when there is no child and the group is empty. Why: `docs/decisions/0039`.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;

use xioflow_protocol::{GroupEntry, LaunchFailure, Stage};
use xioflow_sys::{
    AsFd, BorrowedFd, Errno, Fork, OpenFlags, OwnedFd, Pid, Signal, SingleThread, fork, fork_into,
    openat, pread, write,
};

use crate::gate::Subject;
use crate::system::System;

/// `cgroup.events` has two short lines.
const EVENTS_LEN_MAX: usize = 128;

/// How much of the list of members is read at once.
const MEMBERS_LEN: usize = 4096;

/// A group, with the files that the helper needs of it.
#[derive(Debug)]
pub struct Group {
    directory: OwnedFd,
    events: OwnedFd,
    members: OwnedFd,
    /// None before Linux 5.14.
    kill: Option<OwnedFd>,
    /// None before Linux 5.2.
    freeze: Option<OwnedFd>,
}

impl Group {
    /// Opens the files of a group by its directory.
    ///
    /// # Errors
    /// A failure whose subject names the file: ENOENT and ENOTDIR where it is no control group of version
    /// 2, EACCES where it is somebody else's.
    pub(crate) fn open(directory: OwnedFd) -> Result<Self, LaunchFailure> {
        let file = |name, flags| {
            openat(directory.as_fd(), name, flags, 0).map_err(|errno| refused(name, errno))
        };
        let if_there = |name| match file(name, OpenFlags::WRITE) {
            Ok(file) => Ok(Some(file)),
            Err(failure) if failure.errno == Errno::ENOENT.raw() => Ok(None),
            Err(failure) => Err(failure),
        };
        let events = file(c"cgroup.events", OpenFlags::READ)?;
        let members = file(c"cgroup.procs", OpenFlags::READ_WRITE)?;
        let kill = if_there(c"cgroup.kill")?;
        let freeze = if_there(c"cgroup.freeze")?;
        Ok(Self {
            directory,
            events,
            members,
            kill,
            freeze,
        })
    }

    /// Forks; the child is in the group before it does anything of its own, unless the system has no such call. Then
    /// it is moved there, and has not come to its gate.
    ///
    /// # Errors
    /// A failure of the call or file that its subject names. A child that could not be moved finds its gate
    /// closed.
    pub(crate) fn fork(&self, proof: &SingleThread) -> Result<(Fork, GroupEntry), LaunchFailure> {
        match fork_into(proof, self.directory.as_fd()) {
            Ok(forked) => Ok((forked, GroupEntry::Cloned)),
            Err(Errno::ENOSYS | Errno::E2BIG | Errno::EINVAL) => self.fork_and_move(proof),
            Err(errno) => Err(refused(c"clone3", errno)),
        }
    }

    fn fork_and_move(&self, proof: &SingleThread) -> Result<(Fork, GroupEntry), LaunchFailure> {
        let forked = fork(proof).map_err(|errno| LaunchFailure {
            stage: Stage::Fork,
            errno: errno.raw(),
            subject: Vec::new().into(),
        })?;
        if let Fork::Parent { child, .. } = &forked {
            self.take_in(*child)
                .map_err(|errno| refused(c"cgroup.procs", errno))?;
        }
        Ok((forked, GroupEntry::Moved))
    }

    fn take_in(&self, child: Pid) -> Result<(), Errno> {
        let mut number = Subject::new();
        let _fits = write!(number, "{child}");
        write(self.members.as_fd(), number.as_bytes()).map(drop)
    }

    /// Readable, as something exceptional, when anybody came into the empty group or the last one left it.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Whether anybody lives in it, or in a group below it; `None` when that cannot be told. A group that was removed
    /// was empty.
    pub(crate) fn is_inhabited(&self) -> Option<bool> {
        let mut text = [0; EVENTS_LEN_MAX];
        match pread(self.events.as_fd(), &mut text, 0) {
            Ok(len) => populated(text.get(..len)?),
            Err(Errno::ENODEV) => Some(false),
            Err(_) => None,
        }
    }

    /// Kills everyone in it, and in groups below it, newborns included. Says whether the system took it.
    pub(crate) fn kill<S: System>(&self) -> bool {
        match &self.kill {
            Some(kill) => write(kill.as_fd(), b"1").is_ok(),
            None => self.kill_listed::<S>(),
        }
    }

    /// The same, one by one, of those in the group itself: those in groups below it are the tree's.
    ///
    /// A number that was given to somebody else since it was listed is told by a second list: whoever is in
    /// it was a member after the pidfd was opened.
    fn kill_listed<S: System>(&self) -> bool {
        let held: Vec<_> = self
            .members()
            .into_iter()
            .filter_map(|pid| Some((pid, S::pidfd_open(pid).ok()?)))
            .collect();
        let still = self.members();
        let mut reached = false;
        for (pid, pidfd) in held {
            if still.contains(&pid) {
                reached |= S::pidfd_signal(pidfd.as_fd(), Signal::KILL).is_ok();
            }
        }
        reached
    }

    /// Whether the kernel ends all of it by itself (`cgroup.kill`), whoever they belong to.
    pub(crate) const fn ends_at_once(&self) -> bool {
        self.kill.is_some()
    }

    /// Lets it run again, where somebody has frozen it: whoever stands still heeds no signal but SIGKILL.
    pub(crate) fn thaw(&self) {
        if let Some(freeze) = &self.freeze {
            // Refused where the group is gone: then nobody stands still in it.
            let _thawed = write(freeze.as_fd(), b"0");
        }
    }

    /// The numbers of those in it, as far as they have one in our PID namespace. Those in groups below it are not
    /// among them.
    pub(crate) fn members(&self) -> Vec<u32> {
        let (mut members, mut text, mut at) = (Members::default(), [0; MEMBERS_LEN], 0);
        while let Ok(len @ 1..) = pread(self.members.as_fd(), &mut text, at) {
            text.iter().take(len).for_each(|&byte| members.take(byte));
            at += len as u64;
        }
        members.all
    }
}

/// Reads numbers, one a line, whose lines may come in pieces.
#[derive(Debug, Default)]
struct Members {
    all: Vec<u32>,
    number: u32,
}

impl Members {
    fn take(&mut self, byte: u8) {
        match byte {
            b'0'..=b'9' => {
                let digit = u32::from(byte - b'0');
                self.number = self.number.saturating_mul(10).saturating_add(digit);
            }
            // 0 stands for a process of another PID namespace.
            _ => match core::mem::take(&mut self.number) {
                0 => {}
                number => self.all.push(number),
            },
        }
    }
}

/// What `cgroup.events` says of the members.
fn populated(text: &[u8]) -> Option<bool> {
    let mut lines = text.split(|&byte| byte == b'\n');
    match lines.find_map(|line| line.strip_prefix(b"populated "))? {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

fn refused(what: &CStr, errno: Errno) -> LaunchFailure {
    LaunchFailure {
        stage: Stage::Group,
        errno: errno.raw(),
        subject: what.to_bytes().to_vec().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_members() {
        assert_eq!(populated(b"populated 0\nfrozen 0\n"), Some(false));
        assert_eq!(populated(b"frozen 0\npopulated 1\n"), Some(true));
        assert_eq!(populated(b"frozen 0\n"), None);
        assert_eq!(populated(b"populated 2\n"), None);
        assert_eq!(populated(b""), None);
    }

    #[test]
    fn members_may_come_in_pieces_and_from_elsewhere() {
        let mut members = Members::default();
        for byte in b"12\n0\n345\n4294967295\n" {
            members.take(*byte);
        }
        assert_eq!(members.all, [12, 345, u32::MAX]);
    }

    #[test]
    fn a_folder_that_is_no_group_is_refused_by_the_file_that_it_lacks() {
        let folder = openat(xioflow_sys::CWD, c"/", OpenFlags::DIRECTORY, 0).expect("a folder");
        let failure = Group::open(folder).expect_err("no group");
        assert_eq!(failure.stage, Stage::Group);
        assert_eq!(failure.errno, Errno::ENOENT.raw());
        assert_eq!(*failure.subject, *b"cgroup.events");
    }
}
