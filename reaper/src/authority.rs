//! The one right that a packaged helper may have: to signal processes of other users (`CAP_KILL`).
//!
//! It is not in force. Where the kernel has refused a signal, it is put in force for one more call, through the
//! pidfd of a process that is our unreaped child at that moment: whoever is further down comes to us when
//! its parent has ended. Groups are never signalled with it. So it reaches nobody but members of the tree,
//! whatever a supervisor asks for and a tree does with its groups and numbers.

use core::sync::atomic::{AtomicBool, Ordering};

use xioflow_facts::StatLine;
use xioflow_sys::{
    AsFd, BorrowedFd, Capabilities, Errno, Pid, Signal, capget, capset, getuid, peer_user,
};

use crate::armour::capability;
use crate::system::System;

/// Whether the file of the program gave it the right. A process is asked only by itself.
static HELD: AtomicBool = AtomicBool::new(false);

/// Keeps the right and nothing else of what the program's file gave it (`secure`, see [`xioflow_sys::Entry`]),
/// and takes it out of force.
///
/// # Errors
/// As in capset(2): then it would run with more than it may.
pub(crate) fn keep_only(secure: bool) -> Result<(), Errno> {
    if !secure {
        return Ok(());
    }
    let kept = capget()?.permitted & capability::KILL;
    capset(Capabilities {
        effective: 0,
        permitted: kept,
        inheritable: 0,
    })?;
    HELD.store(kept != 0, Ordering::Relaxed);
    Ok(())
}

/// Whether the helper has the right.
pub(crate) fn is_held() -> bool {
    HELD.load(Ordering::Relaxed)
}

/// Notes that it is lost: in a user namespace of its own the helper has rights there and none outside. Those the
/// child needs, and gives up by itself.
pub(crate) fn lost() {
    HELD.store(false, Ordering::Relaxed);
}

/// Takes the right from a child, before anything else is done in it.
///
/// # Errors
/// As in capset(2).
pub(crate) fn renounce() -> Result<(), Errno> {
    match HELD.swap(false, Ordering::Relaxed) {
        true => capset(Capabilities::default()),
        false => Ok(()),
    }
}

/// Says who made the control socket, where that is not whom a helper with rights serves: `None` is its own
/// real user, or a helper that has no more rights than who started it has anyway.
///
/// # Errors
/// The user, or `None` where the system does not say.
pub(crate) fn serves(control: BorrowedFd<'_>) -> Result<(), Option<u32>> {
    let has_rights = is_held() || capget().map_or(true, |sets| sets.permitted != 0);
    match peer_user(control) {
        _ if !has_rights => Ok(()),
        Ok(user) if user == getuid() => Ok(()),
        other => Err(other.ok()),
    }
}

/// Sends signals, with the right in force, to a child that has refused them. Says whether the first was sent.
pub(crate) fn overrule<S: System>(child: Pid, signals: &[Signal]) -> bool {
    if !S::has_authority() || S::probe(child) != Err(Errno::EPERM) {
        return false;
    }
    // Where there are no such descriptors, nothing is proof enough.
    let Ok(pidfd) = S::pidfd_open(child.number()) else {
        return false;
    };
    // Asked after the descriptor was opened: what it means is what was asked about, or has ended.
    if !is_our_child::<S>(child) || S::put_authority_in_force(true).is_err() {
        return false;
    }
    let mut sent = signals
        .iter()
        .map(|&signal| S::pidfd_signal(pidfd.as_fd(), signal).is_ok());
    let first = sent.next().unwrap_or(false);
    sent.for_each(drop);
    // Lowering is always allowed.
    let _lowered = S::put_authority_in_force(false);
    first
}

fn is_our_child<S: System>(pid: Pid) -> bool {
    let mut line = StatLine::new();
    let stat = S::stat(pid.number(), &mut line);
    matches!(stat, Ok(Some(stat)) if stat.parent == S::getpid())
}

/// Puts the right in force, or out of it.
///
/// # Errors
/// As in capset(2).
pub(crate) fn put_in_force(on: bool) -> Result<(), Errno> {
    capset(Capabilities {
        effective: if on { capability::KILL } else { 0 },
        permitted: capability::KILL,
        inheritable: 0,
    })
}
