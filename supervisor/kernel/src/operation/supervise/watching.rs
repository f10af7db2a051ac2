//! What an operation uses, seen from its loop: when that is looked at, and that it is stopped for it. What there
//! is to see is the business of `operation/limits`.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use xioflow_journal::TerminationReason;

use super::Supervision;
use crate::operation::gate::Gated;
use crate::operation::group::HeldGroup;
use crate::operation::limits::{Tree, Used};
use crate::operation::namespace::HeldNamespace;

/// Where the tree of a command is to be looked for.
pub(super) fn tree_of(gated: &Gated) -> Option<Tree> {
    let hello = gated.link.greeting()?;
    Some(Tree {
        holder: hello.identity.as_ref()?.pid,
        init: gated.namespace.as_ref().map(HeldNamespace::init_pid),
    })
}

impl Supervision<'_> {
    /// When to look at what it uses: not while it is being ended.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.watch.look_at().filter(|_| self.stop.is_none())
    }

    /// What becomes readable when its control group has something to tell that it would be stopped for.
    pub(super) fn limit_events(&self) -> Option<BorrowedFd<'_>> {
        self.watch.events().filter(|_| self.stop.is_none())
    }

    /// Stops it where it uses too much; `told` says whether its control group has something to tell.
    pub(super) fn watch_limits(&mut self, told: bool) {
        if self.ending.is_some() || self.stop.is_some() {
            return;
        }
        let leaf = self.group.as_ref().map(HeldGroup::leaf);
        if let Some(request) = self.watch.look(Instant::now(), told, leaf) {
            self.ask_stop(request);
        }
    }

    /// The limit that it has reached by now, if it is one to be stopped for.
    pub(super) fn limit_reached(&mut self) -> Option<TerminationReason> {
        let leaf = self.group.as_ref().map(HeldGroup::leaf);
        self.watch.reason_to_stop(leaf)
    }

    /// What it has used in all.
    pub(super) fn end_watch(&mut self) -> Used {
        let leaf = self.group.as_ref().map(HeldGroup::leaf);
        std::mem::take(&mut self.watch).end(leaf)
    }
}
