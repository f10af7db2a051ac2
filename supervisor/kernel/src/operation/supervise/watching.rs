//! What an operation uses, seen from its loop: when that is looked at, and that it is stopped for it. What there
//! is to see is the business of `operation/limits`.

use std::time::Instant;

use super::Supervision;
use crate::operation::gate::Gated;
use crate::operation::limits::Tree;
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

    /// Stops it where it uses too much.
    pub(super) fn watch_limits(&mut self, now: Instant) {
        if self.stop.is_none()
            && let Some(request) = self.watch.look(now)
        {
            self.ask_stop(request);
        }
    }
}
