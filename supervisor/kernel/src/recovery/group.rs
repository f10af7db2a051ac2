//! The control groups of unfinished operations: what a look at one comes to, and the end of those in it.
//!
//! A group is found by the id that is recorded with its path; one of the same name with another id is a stranger
//! and is left alone. Neighbours: `xioflow-cgroup` opens, ends and removes them, `sweep` has the ones of nobody.

use std::time::Instant;

use xioflow_cgroup::{Answer, Found, LeafPlace};
use xioflow_killpoint as killpoint;
use xioflow_protocol::{PROCESS_NOTES_MAX, ProcessNote, Survivor, SurvivorEnd, WhyAlive};

use super::facts::Leaf;
use super::stop::{KILL_PATIENCE, Stopped};
use super::unfinished::Unfinished;
use super::wait::WATCHED_MAX;
use crate::observe;
use crate::result::ProcessIdentity;

/// The place of the group that the tree of this process was given for its own.
pub(crate) fn place_of(root: &ProcessIdentity) -> Option<LeafPlace> {
    Some(LeafPlace {
        directory: root.cgroup_path.as_deref()?.into(),
        id: root.cgroup_id?,
        namespace: root.cgroup_namespace,
    })
}

/// How it is with the group of this process's tree.
pub(crate) fn look_at(root: &ProcessIdentity) -> Leaf {
    let found = place_of(root).map(|place| xioflow_cgroup::Leaf::open(&place));
    match found {
        Some(Ok(Found::Leaf(leaf))) => match leaf.populated() {
            Answer::Yes => Leaf::Populated,
            Answer::No => Leaf::Empty,
            Answer::CannotTell { .. } => Leaf::Untold,
        },
        Some(Ok(Found::Gone)) => Leaf::Removed,
        Some(Ok(Found::Stranger | Found::CannotTell { .. }) | Err(_)) | None => Leaf::Untold,
    }
}

/// The group itself, where it is there.
fn open(root: Option<&ProcessIdentity>) -> Option<xioflow_cgroup::Leaf> {
    let place = place_of(root?)?;
    match xioflow_cgroup::Leaf::open(&place) {
        Ok(Found::Leaf(leaf)) => Some(leaf),
        Ok(Found::Gone | Found::Stranger | Found::CannotTell { .. }) | Err(_) => None,
    }
}

/// Who is in the group of this process's tree, as far as they have a number here.
pub(crate) fn members(root: &ProcessIdentity) -> Vec<u32> {
    let leaf = open(Some(root));
    leaf.and_then(|leaf| leaf.processes().ok())
        .unwrap_or_default()
}

/// Removes the group of this process's tree, if nobody is in it. One that stays is found when the domain is next
/// opened.
pub(crate) fn remove(root: Option<&ProcessIdentity>) {
    if let Some(leaf) = open(root) {
        leaf.remove().ok();
    }
}

/// Removes the groups of those whose end is proven, and of their stop actions.
pub(super) fn remove_settled(all: &[Unfinished]) {
    let actions = all.iter().filter_map(|it| it.action.as_deref());
    let is_proven = |it: &&Unfinished| it.conclusion().frees_leases();
    for it in all.iter().chain(actions).filter(is_proven) {
        remove(it.root.as_ref());
    }
}

/// Ends all in the groups of those where somebody lives in it, and notes what came of it.
pub(super) fn end_leaves(unfinished: &mut [&mut Unfinished]) {
    let mut to_end: Vec<&mut Unfinished> = unfinished
        .iter_mut()
        .map(|it| &mut **it)
        .filter(|it| it.observed.leaf == Leaf::Populated)
        .collect();
    let until = Instant::now() + KILL_PATIENCE;
    for some in to_end.chunks_mut(WATCHED_MAX) {
        let ending: Vec<Option<Ending>> = some
            .iter()
            .map(|it| open(it.root.as_ref()).map(Ending::begin))
            .collect();
        for (it, ending) in some.iter_mut().zip(ending) {
            it.leaf_was_ended = true;
            if let Some(ending) = ending {
                (_, it.stopped) = ending.finish(until);
            }
            it.look();
        }
    }
}

/// The end of one group, which the kernel was told.
pub(super) struct Ending {
    leaf: xioflow_cgroup::Leaf,
    members: Vec<u32>,
    is_refused: bool,
}

impl Ending {
    /// One write ends all of them, also those who are frozen or whom another user owns.
    pub(super) fn begin(leaf: xioflow_cgroup::Leaf) -> Self {
        let members = leaf.processes().unwrap_or_default();
        killpoint::pass(|| "recovery:before-group-kill");
        let is_refused = leaf.kill().is_err();
        killpoint::pass(|| "recovery:after-group-kill");
        Self {
            leaf,
            members,
            is_refused,
        }
    }

    /// Waits until nobody is left or the time is over.
    pub(super) fn finish(self, until: Instant) -> (xioflow_cgroup::Leaf, Stopped) {
        let within = until.saturating_duration_since(Instant::now());
        let is_over = self.leaf.wait_empty(within).unwrap_or(false);
        let left = match is_over {
            true => Vec::new(),
            false => self.leaf.processes().unwrap_or_default(),
        };
        let why = match self.is_refused {
            true => WhyAlive::Permission,
            false => WhyAlive::Unknown,
        };
        let mut signalled = match self.is_refused {
            true => Vec::new(),
            false => self.members,
        };
        signalled.truncate(PROCESS_NOTES_MAX);
        let stopped = Stopped {
            signalled,
            left: left
                .into_iter()
                .take(PROCESS_NOTES_MAX)
                .map(|pid| survivor(pid, why))
                .collect(),
            is_of_group: !is_over,
            ..Stopped::NOTHING
        };
        (self.leaf, stopped)
    }
}

fn survivor(pid: u32, why: WhyAlive) -> Survivor {
    let start_ticks = observe::look_at(pid).map_or(0, |met| met.start_ticks);
    let unnamed = || ProcessNote::new(pid, start_ticks, Vec::new(), None);
    Survivor {
        process: observe::process_note(pid).unwrap_or_else(unnamed),
        end: SurvivorEnd::Alive(why),
    }
}
