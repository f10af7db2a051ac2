//! The control group of one operation: a leaf that is made before its launch, and removed when nobody is
//! in it any more. What the helper does with it is the helper's.
//!
//! Neighbours: `groups` makes leaves, `launch` gives it to the helper, `supervise` ends it where the
//! helper cannot.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use xioflow_cgroup::{Controllers, Leaf, LeafPlace, Limits, RemoveError};
use xioflow_journal::Change;
use xioflow_killpoint as killpoint;

use crate::domain::Inner;
use crate::driver::GroupUse;
use crate::error::ExecuteError;
use crate::groups::HostMoved;
use crate::result::ProcessIdentity;

/// How long the kernel may take to end everybody in a group. It takes milliseconds, unless somebody is in
/// uninterruptible sleep.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How long somebody who is on the way out may keep a group from being removed.
const REMOVE_PATIENCE: Duration = Duration::from_millis(500);

/// How often the removal is tried. What keeps it is gone after one wait, or is there to stay.
const REMOVE_ATTEMPTS: u32 = 3;

impl Inner {
    /// Has the delegated root hand controllers down. Where the processes in it have to be moved for that, the journal
    /// says so before and after.
    ///
    /// # Errors
    /// [`ExecuteError::GroupRefused`]; [`ExecuteError::Commit`] where that could not be said, and nothing was moved.
    pub(crate) fn hand_down(&self, wanted: Controllers) -> Result<Option<HostMoved>, ExecuteError> {
        if wanted.is_empty() {
            return Ok(None);
        }
        if let Some(root) = self.groups.must_move(wanted) {
            let group = root.display().to_string();
            let controllers = wanted.to_string();
            let change = Change::NoteHostMoving { group, controllers };
            self.journal.commit(vec![change])?;
        }
        killpoint::pass(|| "group:before-host-moved");
        let moved = self.groups.hand_down(wanted);
        killpoint::pass(|| "group:host-moved");
        let moved = moved.map_err(ExecuteError::GroupRefused)?;
        if let Some(moved) = &moved {
            self.journal.commit(vec![Change::NoteHostMoved {
                group: moved.to.display().to_string(),
                processes: moved.processes,
            }])?;
        }
        Ok(moved)
    }
}

/// A leaf that belongs to one operation. It is removed when this is dropped, unless somebody lives in it.
#[derive(Debug)]
pub(super) struct HeldGroup {
    leaf: Leaf,
    /// Whether somebody may be left in it: then it stays for whoever finds them.
    stays: bool,
    /// What had to be moved for it.
    moved: Option<HostMoved>,
}

impl HeldGroup {
    /// Makes one as the driver asks for it, and as limits need it.
    ///
    /// # Errors
    /// [`ExecuteError::GroupRefused`] where the operation must have one and none can be had.
    pub(super) fn make(
        inner: &Inner,
        driver: GroupUse,
        limits: &Limits,
    ) -> Result<Option<Self>, ExecuteError> {
        let is_required = !Self::may_do_without(driver, limits);
        let is_offered = || driver == GroupUse::WhereThereIs && inner.groups.are_offered();
        if !is_required && !is_offered() {
            return Ok(None);
        }
        let moved = inner.hand_down(limits.controllers())?;
        killpoint::pass(|| "group:before-make");
        let made = inner.groups.leaf(limits);
        killpoint::pass(|| "group:made");
        match made {
            Ok(leaf) => Ok(Some(Self {
                leaf,
                stays: false,
                moved,
            })),
            Err(_) if !is_required => Ok(None),
            Err(refused) => Err(ExecuteError::GroupRefused(refused)),
        }
    }

    /// Whether an operation may run without one.
    pub(super) fn may_do_without(driver: GroupUse, limits: &Limits) -> bool {
        driver != GroupUse::Required && limits.controllers().is_empty()
    }

    pub(super) fn leaf(&self) -> &Leaf {
        &self.leaf
    }

    /// What had to be moved to have it, once.
    pub(super) fn take_moved(&mut self) -> Option<HostMoved> {
        self.moved.take()
    }

    /// Ends everybody in it. True if the kernel says that nobody is left.
    pub(super) fn end(&self) -> bool {
        killpoint::pass(|| "group:before-kill");
        let ended = self
            .leaf
            .kill()
            .and_then(|()| self.leaf.wait_empty(END_PATIENCE));
        killpoint::pass(|| "group:killed");
        ended.unwrap_or(false)
    }

    /// Parts from it: it is removed, or stays with whoever may be in it.
    pub(super) fn part(mut self, may_hold_somebody: bool) {
        self.stays = may_hold_somebody;
    }

    /// Removes it. One that cannot be removed stays, and is found when the domain is next opened.
    fn remove(&self) {
        killpoint::pass(|| "group:before-remove");
        for _ in 0..REMOVE_ATTEMPTS {
            match self.leaf.remove() {
                Err(RemoveError::Populated { .. }) => {
                    if !self.leaf.wait_empty(REMOVE_PATIENCE).unwrap_or(false) {
                        break;
                    }
                }
                Ok(_) | Err(_) => break,
            }
        }
        killpoint::pass(|| "group:removed");
    }
}

impl AsFd for HeldGroup {
    /// Its directory.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.leaf.directory_fd()
    }
}

impl Drop for HeldGroup {
    fn drop(&mut self) {
        if !self.stays {
            self.remove();
        }
    }
}

impl ProcessIdentity {
    /// Adds where the tree of this process is. A path that is no text is left out with all the rest: written
    /// otherwise it would name a place where nothing is, and that would be taken for an end.
    pub(super) fn in_group(mut self, place: Option<&LeafPlace>) -> Self {
        let path = place.and_then(|place| place.directory.to_str());
        if let (Some(place), Some(path)) = (place, path) {
            self.cgroup_path = Some(path.to_owned());
            self.cgroup_id = Some(place.id);
            self.cgroup_namespace = place.namespace;
        }
        self
    }
}
