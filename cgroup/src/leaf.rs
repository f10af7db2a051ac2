//! The group of one operation: limits go in, facts come out, one write ends it.
//!
//! Neighbours: `domain` makes it; `events`, `counters` and `usage` say what happened in it;
//! `removal` takes it away.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::answer::Answer;
use crate::counters::Counters;
use crate::directory::Directory;
use crate::error::GroupError;
use crate::events::Events;
use crate::hand_down;
use crate::kill;
use crate::limits::Limits;
use crate::nested;
use crate::place::LeafPlace;
use crate::removal::{self, RemoveError, Removed};
use crate::state::{self, GroupState};
use crate::usage::Usage;
use crate::view::View;
use crate::wait;

/// What a group that was removed amounts to.
const GONE: GroupState = GroupState {
    populated: false,
    frozen: Some(false),
};

/// The group of one operation. Dropping it leaves the group as it is.
#[derive(Debug)]
pub struct Leaf {
    domain: Arc<Directory>,
    directory: Directory,
    name: OsString,
    place: LeafPlace,
    view: View,
}

impl Leaf {
    pub(crate) fn new(
        domain: Arc<Directory>,
        directory: Directory,
        name: OsString,
        view: View,
    ) -> Result<Self, GroupError> {
        let place = LeafPlace {
            directory: directory.path().to_owned(),
            id: directory.id()?,
            namespace: view.namespace,
        };
        Ok(Self {
            domain,
            directory,
            name,
            place,
            view,
        })
    }

    /// Where it is: what has to be recorded to find it again.
    #[must_use]
    pub const fn place(&self) -> &LeafPlace {
        &self.place
    }

    /// Its directory, opened to read and close-on-exec: what clone3(2) takes as `cgroup`.
    #[must_use]
    pub fn directory_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Sets limits. What is null in them stays as it is.
    ///
    /// On return the kernel enforces every one of them. After an error those before the refused one
    /// are set.
    ///
    /// # Errors
    /// [`GroupError::Limit`] for one that cannot be meant; [`GroupError::NotHandedDown`] when the
    /// root has to be prepared first; [`GroupError::Write`] with the file and the value that the
    /// kernel refused.
    pub fn set(&self, limits: &Limits) -> Result<(), GroupError> {
        limits.check()?;
        hand_down::enable(&self.domain, limits.controllers())?;
        for setting in limits.settings() {
            match self.directory.write(setting.file, &setting.value) {
                Err(error) if setting.optional && error.is_absence() => {}
                answer => answer?,
            }
        }
        Ok(())
    }

    /// Writes to files that need no controller.
    pub(crate) fn guard(&self, settings: &[(&str, &str)]) -> Result<(), GroupError> {
        let mut settings = settings.iter();
        settings.try_for_each(|(file, value)| self.directory.write(file, value))
    }

    /// What its processes used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::observe(&self.directory)
    }

    /// What its limits did so far. They count from the making of the leaf.
    ///
    /// # Errors
    /// [`GroupError::Read`] when a file that is there cannot be read.
    pub fn counters(&self) -> Result<Counters, GroupError> {
        Counters::observe(&self.directory, self.view.options)
    }

    /// A descriptor that becomes readable when the group empties, freezes, or meets a limit.
    ///
    /// # Errors
    /// [`GroupError::Read`] or [`GroupError::System`], as when no more descriptors are to be had.
    pub fn events(&self) -> Result<Events, GroupError> {
        Events::watch(&self.directory)
    }

    /// Orders the end of every process in it and below it; those forked meanwhile end too.
    ///
    /// Returns when the kernel has accepted it; [`Self::wait_empty`] tells when they are gone. Before
    /// Linux 5.14 it freezes the group, signals each and waits for most of them.
    ///
    /// # Errors
    /// [`GroupError::Write`] when the kernel refuses. A group that is gone has nobody to end.
    pub fn kill(&self) -> Result<(), GroupError> {
        kill::kill(&self.directory)
    }

    /// Freezes all its processes, or thaws them. [`Self::wait_frozen`] tells when all of them are.
    ///
    /// # Errors
    /// [`GroupError::Write`] when the kernel refuses, ENOENT before Linux 5.2.
    pub fn freeze(&self, frozen: bool) -> Result<(), GroupError> {
        let value = match frozen {
            true => "1",
            false => "0",
        };
        self.directory.write("cgroup.freeze", value)
    }

    /// Whether every process in it is frozen now.
    #[must_use]
    pub fn is_frozen(&self) -> Answer {
        let state = wait::state_now(&self.directory);
        state::answer(state.map(|state| state.unwrap_or(GONE).frozen))
    }

    /// Whether it, or a group below it, holds a process that has not ended. A group that is gone
    /// holds none.
    #[must_use]
    pub fn populated(&self) -> Answer {
        let state = wait::state_now(&self.directory);
        state::answer(state.map(|state| Some(state.unwrap_or(GONE).populated)))
    }

    /// Waits until it holds no process any more; false when it still does after that time.
    ///
    /// # Errors
    /// [`GroupError`] when its state cannot be read, which is not the same as not empty.
    pub fn wait_empty(&self, within: Duration) -> Result<bool, GroupError> {
        wait::wait_for(&self.directory, within, GONE, |state| !state.populated)
    }

    /// Waits until it is frozen, or thawed; false when it is not after that time.
    ///
    /// # Errors
    /// [`GroupError`] when its state cannot be read.
    pub fn wait_frozen(&self, frozen: bool, within: Duration) -> Result<bool, GroupError> {
        let gone = GroupState {
            frozen: Some(frozen),
            ..GONE
        };
        wait::wait_for(&self.directory, within, gone, |state| {
            state.frozen == Some(frozen)
        })
    }

    /// The numbers of the processes in it and below it, as the caller's pid namespace has them. One
    /// that is outside that namespace has none and is left out: only [`Self::populated`] is proof.
    ///
    /// # Errors
    /// [`GroupError::Read`]; [`GroupError::TooManyGroups`].
    pub fn processes(&self) -> Result<Vec<u32>, GroupError> {
        nested::processes(&self.directory)
    }

    /// Removes it, and the groups that were made in it. Nothing that lives is harmed: a group with a
    /// process is not removed.
    ///
    /// # Errors
    /// [`RemoveError`]; what was removed before stays removed, and it can be tried again.
    pub fn remove(&self) -> Result<Removed, RemoveError> {
        removal::remove_leaf(&self.domain, &self.name, &self.directory)
    }
}
