//! What is different where the tree is in a control group as well: one write kills everyone in it, and it may hold
//! guests, who were moved in and descend from nobody of the tree.

use xioflow_facts::Descendant;

use super::Tree;
use crate::group::Group;
use crate::system::System;

impl<S: System> Tree<S> {
    /// The group, if the tree has one of its own.
    pub(crate) const fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Whether somebody is in the group. To be asked when there is no child: then it is a guest.
    ///
    /// What cannot be told keeps nobody: that there is no child is a proof of its own.
    pub(crate) fn has_guests(&self) -> bool {
        self.group().and_then(Group::is_inhabited) == Some(true)
    }

    /// What is said of the group at the end.
    pub(super) fn is_group_empty(&self) -> Option<bool> {
        self.group()?.is_inhabited().map(|inhabited| !inhabited)
    }

    /// Kills everyone in the group; says whether there was one to write to.
    pub(super) fn kill_group_members(&self) -> bool {
        self.group().is_some_and(Group::kill::<S>)
    }

    /// Whether somebody is in the group to whom the kernel's own SIGKILL is on its way. That asks nobody for a
    /// permission, so one of another user who refuses ours ends all the same.
    pub(super) fn is_group_dying(&self) -> bool {
        self.group().is_some_and(Group::ends_at_once) && self.has_guests()
    }

    /// Has everyone in the group run again.
    pub(super) fn thaw(&self) {
        if let Some(group) = self.group() {
            group.thaw();
        }
    }

    /// Notes those in the group that are not in this listing of the tree.
    pub(super) fn note_guests(&mut self, listing: &[Descendant]) {
        let members = self.group().map(Group::members).unwrap_or_default();
        for pid in members {
            let is_known = listing.iter().any(|process| process.pid == pid)
                || self.outlivers.iter().any(|it| it.process.pid == pid);
            if !is_known {
                // Whose number it is now can be asked of the group alone, and it has just said so.
                self.note_if(pid, |_| true);
            }
        }
    }
}
