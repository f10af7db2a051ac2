//! Which children of this process are helpers.
//!
//! A process that adopts orphans must never take one of its helpers for one, whichever domain of
//! the process started it. So helpers are started and listed under one lock.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observe;

static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn lock() -> MutexGuard<'static, BTreeSet<u32>> {
    // Numbers are inserted and removed whole.
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a helper and notes it.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut started = lock();
    let child = command.spawn()?;
    started.insert(child.id());
    Ok(child)
}

/// Forgets a helper that was waited for: its number may mean another process from now on.
pub(super) fn collected(child: &Child) {
    lock().remove(&child.id());
}

/// The children of this process that are no helpers; `None` if they cannot be listed.
pub(crate) fn strangers() -> Option<Vec<u32>> {
    let started = lock();
    let children = observe::own_children()?;
    Some(
        children
            .into_iter()
            .filter(|pid| !started.contains(pid))
            .collect(),
    )
}
