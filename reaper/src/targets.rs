//! Who is signalled, and how that is safe.
//!
//! A number alone proves nothing: it may have been used again. There are three proofs, and a
//! [`Target`] cannot be made without one of them:
//!
//! - a child of ours that was not waited for keeps its number;
//! - a group of which such a child is a member keeps *its* number, and when its session was made
//!   inside the tree, all its members are ours: one call reaches them all, which no fork outruns;
//! - anyone else is reached through a pidfd, after its start time was read again.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use xioflow_facts::{Descendant, Stat, StatLine, read_stat};
use xioflow_sys::{AsFd, Errno, GroupId, Pid, Signal, kill, kill_group, pidfd_open, pidfd_signal};

/// Who we are, so that we are never among the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Helper {
    pub(crate) pid: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
}

/// Someone of the tree, with the proof that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A group with a member that is our unreaped child, in a session of the tree's own.
    Group(GroupId),
    /// Our unreaped child.
    Child(Pid),
    /// A process further down, by number and start time.
    Other { pid: Pid, start_ticks: u64 },
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It was sent.
    Delivered,
    /// There is nobody any more.
    Gone,
    /// The kernel refused it.
    Denied,
}

impl Helper {
    /// The group of a child of ours, if it may be signalled as a whole.
    pub(crate) fn whole_group_of(&self, child: &Stat<'_>) -> Option<GroupId> {
        self.whole_group(child.parent, child.group, child.session)
    }

    fn whole_group(&self, parent: u32, group: u32, session: u32) -> Option<GroupId> {
        let is_held = parent == self.pid;
        let is_of_the_tree = session != self.session && group != self.group;
        if is_held && is_of_the_tree {
            GroupId::new(group)
        } else {
            None
        }
    }

    /// A single process, unless it is ourselves.
    pub(crate) fn target(&self, process: &Descendant) -> Option<Target> {
        let pid = Pid::new(process.pid).filter(|pid| pid.number() != self.pid)?;
        Some(match process.parent == self.pid {
            true => Target::Child(pid),
            false => Target::Other {
                pid,
                start_ticks: process.start_ticks,
            },
        })
    }
}

/// Chooses targets so that every living process of a listing is reached exactly once.
pub(crate) fn plan(helper: Helper, listing: &[Descendant]) -> Vec<Target> {
    let living = || listing.iter().filter(|process| !process.state.has_ended());
    let inhabited: BTreeSet<_> = living()
        .filter_map(|process| GroupId::new(process.group))
        .collect();
    // A child that has ended, and was not waited for, still holds the number of its group.
    let whole: BTreeSet<_> = listing
        .iter()
        .filter_map(|p| helper.whole_group(p.parent, p.group, p.session))
        .filter(|group| inhabited.contains(group))
        .collect();
    let singly = living()
        .filter(|process| !GroupId::new(process.group).is_some_and(|g| whole.contains(&g)))
        .filter_map(|process| helper.target(process));
    whole
        .iter()
        .copied()
        .map(Target::Group)
        .chain(singly)
        .collect()
}

impl Target {
    /// Sends a signal.
    pub(crate) fn send(self, signal: Signal) -> Sent {
        let outcome = match self {
            Self::Group(group) => kill_group(group, signal),
            Self::Child(pid) => kill(pid, signal),
            Self::Other { pid, start_ticks } => send_verified(pid, start_ticks, signal),
        };
        match outcome {
            Ok(()) => Sent::Delivered,
            Err(Errno::EPERM) => Sent::Denied,
            Err(_) => Sent::Gone,
        }
    }
}

/// Opens a pidfd, makes sure that it is the process that was meant, and signals through it.
fn send_verified(pid: Pid, start_ticks: u64, signal: Signal) -> Result<(), Errno> {
    match pidfd_open(pid.number()) {
        Ok(pidfd) if is_still(pid, start_ticks) => pidfd_signal(pidfd.as_fd(), signal),
        // Before Linux 5.3. The moment between the look and the call is all that is left open.
        Err(Errno::ENOSYS) if is_still(pid, start_ticks) => kill(pid, signal),
        Ok(_) | Err(_) => Err(Errno::ESRCH),
    }
}

fn is_still(pid: Pid, start_ticks: u64) -> bool {
    let mut line = StatLine::new();
    let stat = read_stat(pid.number(), &mut line);
    matches!(stat, Ok(Some(stat)) if stat.start_ticks == start_ticks)
}
