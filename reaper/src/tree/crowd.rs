//! What is done where hundreds want the processor, and the helper has little of it: whoever forks
//! without end has to be reached at the least cost for each.
//!
//! A tree of a thousand that run, each in a session of its own, leaves an ordinary helper a
//! five-hundredth of a processor. So nothing is read about anybody: a number is turned into a pidfd, the pidfd
//! is asked for the parent, and whoever descends from a child of ours is killed by it.

use alloc::collections::{BTreeMap, BTreeSet};

use xioflow_sys::{AsFd, OwnedFd, Signal, getrlimit, setrlimit};

use crate::system::System;

/// So many at once want the processor that the helper is kept from its work. More than any build has.
const CROWD: u32 = 100;

/// `RLIMIT_NOFILE` of getrlimit(2).
const RLIMIT_NOFILE: u32 = 7;

/// Whether that is so. Also because of others: then what follows is slower than it had to be, and
/// as right.
pub(super) fn is_crowded<S: System>() -> bool {
    S::runnable().is_some_and(|runnable| runnable > CROWD)
}

/// Makes room for a descriptor of everyone who is found. The command has been made by then, and has
/// the limit that it was given; the helper may not change one any more once it is armoured.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(RLIMIT_NOFILE) {
        // Where it is refused, whoever has no room is found by a later look.
        let _raised = setrlimit(RLIMIT_NOFILE, hard, hard);
    }
}

/// Sends SIGKILL to everyone below our children, and says who that was. `is_ours` says whether a number
/// is that of a child that was not waited for, and so cannot mean anybody else while this runs.
///
/// `None` where pidfds cannot be asked for a parent, or the system cannot be looked through.
///
/// Who is found has a parent whose number was certain when it was named: it is ours, or its
/// pidfd shows after that that it was not waited for.
pub(super) fn kill_everyone_below<S: System>(
    helper: u32,
    is_ours: impl Fn(u32) -> bool,
) -> Option<BTreeSet<u32>> {
    let own = S::pidfd_open(helper).ok()?;
    S::pidfd_parent(own.as_fd()).ok()?;
    let mut found: BTreeMap<u32, OwnedFd> = BTreeMap::new();
    // Parents mostly have the lower number; where it is the other way round, the next look finds them.
    let looked = S::each_process(|pid| {
        if pid != helper && !is_ours(pid) {
            kill_if_below::<S>(pid, helper, &is_ours, &mut found);
        }
    });
    looked.ok()?;
    Some(found.into_keys().collect())
}

fn kill_if_below<S: System>(
    pid: u32,
    helper: u32,
    is_ours: impl Fn(u32) -> bool,
    found: &mut BTreeMap<u32, OwnedFd>,
) {
    let Ok(pidfd) = S::pidfd_open(pid) else {
        return;
    };
    let Ok(parent) = S::pidfd_parent(pidfd.as_fd()) else {
        return;
    };
    let was_found = || {
        let known = found.get(&parent);
        known.is_some_and(|known| S::pidfd_parent(known.as_fd()).is_ok())
    };
    if parent == helper || is_ours(parent) || was_found() {
        // EPERM: those who refuse are told apart when nothing else moves.
        let _sent = S::pidfd_signal(pidfd.as_fd(), Signal::KILL);
        found.insert(pid, pidfd);
    }
}
