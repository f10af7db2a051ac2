//! What is different where the tree is in a PID namespace of its own: its init is not one of it, adopts in the
//! helper's place, and ends all of it at once.

use alloc::collections::BTreeSet;
use core::time::Duration;

use xioflow_facts::{CannotTell, Listing};
use xioflow_protocol::{Exit, Identity, PidNamespace};
use xioflow_sys::{AsFd, OwnedFd, end_of_status};

use super::{Tree, end_of_look};
use crate::namespace::{Heard, Namespace};
use crate::reap;
use crate::system::System;

impl<S: System> Tree<S> {
    /// The namespace, if the tree has one of its own.
    pub(crate) const fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// Whether the namespace is one that ends with the helper by now. A tree without one has not to wait.
    pub(crate) fn hear_init(&mut self) -> Heard {
        self.namespace
            .as_mut()
            .map_or(Heard::Ready, Namespace::hear)
    }

    /// The namespace as it is recorded.
    pub(crate) fn described_namespace(&self, helper: &Identity) -> Option<PidNamespace> {
        self.namespace()?.described::<S>(helper)
    }

    /// Everybody in the tree but those in these groups, as far as they are found by then.
    pub(super) fn members_outside(
        &self,
        groups: &BTreeSet<u32>,
        until: Duration,
    ) -> Result<Listing, CannotTell> {
        let init = self.init();
        let mut listing = S::descendants(self.helper.pid, init, groups, Some(until))?;
        self.helper.add_unlisted::<S>(&mut listing, groups);
        listing
            .processes
            .retain(|process| Some(process.pid) != init);
        // It is as little dumpable as the helper, so a /proc may hide it.
        listing.hidden.retain(|process| Some(process.pid) != init);
        Ok(listing)
    }

    /// Everybody in the tree, as far as they are found in the time of one look.
    pub(super) fn members(&self) -> Result<Listing, CannotTell> {
        self.members_outside(&BTreeSet::new(), end_of_look::<S>())
    }

    /// Everybody in the tree; where nobody of it is left and its init still is, that one: somebody who came in
    /// from outside keeps it, and nothing can be said of the tree.
    pub(super) fn left(&self) -> Result<Listing, CannotTell> {
        let mut listing = self.members()?;
        if listing.processes.is_empty() && listing.hidden.is_empty() {
            listing = S::descendants(self.helper.pid, None, &BTreeSet::new(), None)?;
        }
        Ok(listing)
    }

    pub(super) fn init(&self) -> Option<u32> {
        self.namespace().map(|namespace| namespace.init().number())
    }

    /// Lets the init leave by itself once it is the helper's only child. Before that there may be others who are not
    /// its own: the root, and whoever was made with the root's parent for its own (`CLONE_PARENT`).
    pub(crate) fn let_init_leave(&mut self) {
        let Some(namespace) = &mut self.namespace else {
            return;
        };
        if self.root_exit.is_none() || namespace.is_dismissed() {
            return;
        }
        if self.helper.children::<S>() == [namespace.init().number()] {
            namespace.dismiss();
        }
    }

    /// Holds on to one who outlived the root: nobody here waits for it, so its end is asked for afterwards.
    pub(super) fn hold(&self, pid: u32) -> Option<OwnedFd> {
        self.namespace().and_then(|_| S::pidfd_open(pid).ok())
    }
}

/// How a process ended that somebody else has waited for, where the kernel tells (Linux 6.15).
pub(super) fn end_by_pidfd<S: System>(pidfd: &OwnedFd) -> Option<Exit> {
    let status = S::pidfd_status(pidfd.as_fd()).ok().flatten()?;
    Some(reap::exit(end_of_status(status)))
}
