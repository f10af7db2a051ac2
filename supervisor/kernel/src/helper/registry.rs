//! Which children of this process are helpers, and those among them that nobody waits for yet.
//!
//! A process that adopts orphans must never take one of its helpers for one, whichever domain of
//! the process started it. So helpers are started and listed under one lock. One that may still
//! hold a tree can outlive its domain, so it is kept here and not there.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observe;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    started: BTreeSet::new(),
    left: Vec::new(),
    inits: BTreeSet::new(),
});

struct Registry {
    /// Every helper that was not waited for.
    started: BTreeSet<u32>,
    /// Those of them that end when they are ready to.
    left: Vec<Child>,
    /// The inits of namespaces that helpers have made for their trees.
    inits: BTreeSet<u32>,
}

impl Registry {
    /// Waits for those that have exited, so that a long-lived host collects no zombies.
    fn collect(&mut self) {
        let started = &mut self.started;
        self.left.retain_mut(|child| {
            // An error means that somebody else has waited for it.
            let lives = matches!(child.try_wait(), Ok(None));
            if !lives {
                started.remove(&child.id());
            }
            lives
        });
    }
}

fn lock() -> MutexGuard<'static, Registry> {
    // Numbers and children are inserted and removed whole.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a helper and notes it.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut registry = lock();
    registry.collect();
    let child = command.spawn()?;
    registry.started.insert(child.id());
    Ok(child)
}

/// Forgets a helper that was waited for: its number may mean another process from now on.
pub(super) fn collected(child: &Child) {
    lock().started.remove(&child.id());
}

/// Leaves a helper to itself. It is waited for once it has exited, when another one is started,
/// left, or done.
pub(super) fn leave(child: Child) {
    let mut registry = lock();
    registry.left.push(child);
    registry.collect();
}

/// Waits for helpers that were left to themselves and have exited.
pub(super) fn collect_left() {
    lock().collect();
}

/// Notes the init of a tree's namespace, a process of its helper.
pub(crate) fn note_init(pid: u32) {
    lock().inits.insert(pid);
}

/// Forgets it again.
pub(crate) fn forget_init(pid: u32) {
    lock().inits.remove(&pid);
}

/// Whether this is the init of a tree's namespace: no process of the tree, though it comes to this process
/// when its helper dies.
pub(crate) fn is_init(pid: u32) -> bool {
    lock().inits.contains(&pid)
}

/// The children of this process that are no helpers; `None` if they cannot be listed.
pub(crate) fn strangers() -> Option<Vec<u32>> {
    let registry = lock();
    let children = observe::own_children()?;
    Some(
        children
            .into_iter()
            .filter(|pid| !registry.started.contains(pid))
            .collect(),
    )
}
