//! How a tree is killed: whom a sweep reaches, when the dead are waited for, and what is done
//! about a tree that forks faster than it dies.
//!
//! Ending one's own children again and again ends a whole tree, because every orphan becomes our
//! child. Who leads a generation after the other is in a *fight*. There the dead are not waited for
//! while anybody lives: a zombie counts in every limit of processes (`RLIMIT_NPROC`, `pids.max`,
//! the numbers themselves), so no newcomer takes its place. And whoever lives further down is
//! killed where it stands. What is reached is decided as in `targets`.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use xioflow_protocol::Exit;
use xioflow_sys::{AsFd, Clock, GroupId, OwnedFd, Pid, Signal};

use super::crowd::{is_crowded, kill_everyone_below};
use super::{Tree, end_of_look};
use crate::authority;
use crate::reap::{Left, childless, harvest, has_ended, take, take_seen};
use crate::system::System;
use crate::targets::{Reached, Sent, Target, plan};

/// How many newcomers of one sweep are asked for their group. One answer may end a whole group at
/// once; asking thousands costs as much as killing them.
const GROUPS_ASKED_MAX: usize = 64;

/// How many generations that live are killed one after the other before it is a fight. Most
/// trees are flatter, and for those the look below would be the larger cost.
const GENERATIONS_MAX: u32 = 3;

/// How many dead are held at most. A tree without any limit of its number fills the system's; this
/// leaves room on the smallest (32768).
const HELD_MAX: usize = 16 * 1024;

/// After how many looks in vain the whole tree is listed, every thread of it: for those below a
/// parent that cannot die, and to learn whether all that are left refuse.
const LOOKS_IN_VAIN_MAX: u32 = 2;

/// What the killing part has done so far, so that thousands are not signalled again and again.
#[derive(Debug, Default)]
pub(super) struct Killing {
    /// Children that got SIGKILL and were not seen dead yet.
    dying: BTreeSet<u32>,
    /// Children that are dead and hold their places.
    held: BTreeSet<u32>,
    /// Those further down who got it in the last look below, and come up one by one.
    below: BTreeSet<u32>,
    /// How many children the last sweep found.
    found: usize,
    /// How many were waited for since.
    reaped: usize,
    /// How many sweeps have found newcomers that lived.
    generations: u32,
    /// Whether the tree forks faster than it dies.
    fights: bool,
    /// How often nothing had moved when it was looked.
    in_vain: u32,
}

/// What a round of waiting has brought.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// How the root ended, if that is news.
    pub(crate) root: Option<Exit>,
    /// Whether others have died, or newcomers are to be looked for.
    pub(crate) others: bool,
    /// What is left.
    pub(crate) left: Left,
}

impl Collected {
    fn note(&mut self, is_root: bool, exit: Exit) {
        match is_root {
            true => self.root = Some(exit),
            false => self.others = true,
        }
    }
}

impl<S: System> Tree<S> {
    /// Waits for those who have ended.
    pub(crate) fn collect(&mut self) -> Collected {
        let mut collected = Collected::default();
        collected.left = harvest::<S>(|pid, exit| collected.note(self.note_end(pid, exit), exit));
        collected
    }

    /// Waits for those who were killed, one by one: asking for anyone makes the system look
    /// through all that live, each time.
    pub(crate) fn collect_killed(&mut self) -> Collected {
        if self.namespace.is_some() {
            return self.collect();
        }
        let mut collected = Collected::default();
        for pid in self.killing.dying.iter().copied().collect::<Vec<_>>() {
            self.collect_one(pid, &mut collected);
        }
        let is_full = self.killing.held.len() >= HELD_MAX;
        if self.killing.dying.is_empty() || is_full {
            self.let_go(&mut collected);
        }
        if self.killing.dying.is_empty() {
            match childless::<S>() {
                true => collected.left = Left::Nothing,
                // Someone came up since the last sweep.
                false => collected.others = true,
            }
        }
        collected
    }

    fn collect_one(&mut self, pid: u32, collected: &mut Collected) {
        let Some(child) = Pid::new(pid) else { return };
        if !self.killing.fights {
            if let Some((is_root, exit)) = self.take(child) {
                self.killing.dying.remove(&pid);
                collected.note(is_root, exit);
            }
        } else if has_ended::<S>(child) {
            self.killing.dying.remove(&pid);
            self.killing.held.insert(pid);
            self.killing.in_vain = 0;
            collected.others = true;
        }
    }

    /// Waits for the dead that were held.
    fn let_go(&mut self, collected: &mut Collected) {
        for pid in core::mem::take(&mut self.killing.held) {
            if let Some((is_root, exit)) = Pid::new(pid).and_then(|pid| self.take(pid)) {
                collected.note(is_root, exit);
            }
        }
    }

    /// Takes the status of one child, if it has ended; says whether it was the root, and how it
    /// ended. The number of one that has a name is looked up before it is free.
    fn take(&mut self, child: Pid) -> Option<(bool, Exit)> {
        if !self.is_named(child.number()) {
            let exit = take::<S>(child)?;
            return Some((self.note_end(child.number(), exit), exit));
        }
        let mut noted = None;
        take_seen::<S>(child, |exit| {
            noted = Some((self.note_end(child.number(), exit), exit));
        });
        noted
    }

    /// Begins to kill. Says how many processes and groups it began with.
    pub(crate) fn kill(&mut self) -> u32 {
        if self.last_signal.is_none() {
            self.is_crowded = is_crowded::<S>();
        }
        self.last_signal = Some(Signal::KILL.number());
        self.killing = Killing::default();
        // Who is in it and no descendant of ours is reached by nothing else.
        let grouped = u32::from(self.kill_group_members());
        if let Some(namespace) = &self.namespace {
            return grouped + u32::from(namespace.kill::<S>());
        }
        let reached = grouped + u32::from(self.kill_root_group()) + self.sweep_likely();
        if self.is_crowded {
            self.begin_fight();
            self.fight();
        }
        reached
    }

    /// One call for the group that most of a tree is in, before anyone in it can fork again.
    fn kill_root_group(&self) -> bool {
        let by_number = || match (self.root_exit, GroupId::new(self.root.number())) {
            // The root leads its group and was not waited for, so the number is its group's.
            (None, Some(group)) => S::kill_group(group, Signal::KILL).is_ok(),
            (Some(_), _) | (None, None) => false,
        };
        match &self.root_pidfd {
            Some(pidfd) if S::pidfd_signal_group(pidfd.as_fd(), Signal::KILL).is_ok() => true,
            Some(_) | None => by_number(),
        }
    }

    /// Kills the children that came up since the last sweep, once enough of those are gone; in a fight
    /// everyone, at once.
    pub(crate) fn sweep(&mut self) {
        if self.namespace.is_some() {
            // The kernel is at it. Only where nothing moves any more is it helped, one by one.
            return;
        }
        let killing = &self.killing;
        if !killing.fights && killing.reaped * 2 < killing.found {
            return;
        }
        let generations = self.killing.generations;
        self.sweep_likely();
        if !self.killing.fights && self.killing.generations > GENERATIONS_MAX {
            self.begin_fight();
            self.fight();
        } else if self.killing.fights && self.killing.generations > generations {
            // Someone lives who was not reached below.
            self.fight();
        }
    }

    fn begin_fight(&mut self) {
        // Those who fork want the processor as well. Without the privilege the helper has its turn
        // among them, so what is done for each of them must be little.
        let _raised = S::set_real_time();
        self.killing.fights = true;
    }

    /// Whoever is not found is, once these are gone or nothing moves.
    fn sweep_likely(&mut self) -> u32 {
        let found = self.helper.likely_children::<S>();
        self.sweep_children(found)
    }

    /// The last of the list came last, and is the likeliest to move on.
    fn sweep_children(&mut self, found: Vec<u32>) -> u32 {
        self.killing.found = found.len();
        self.killing.reaped = 0;
        let mut groups = BTreeSet::new();
        let (mut reached, mut asked, mut lived) = (0, 0, false);
        for pid in found.into_iter().rev().filter_map(Pid::new) {
            let is_held = self.killing.held.contains(&pid.number());
            if is_held || !self.killing.dying.insert(pid.number()) {
                continue;
            }
            let killed = S::kill(pid, Signal::KILL).is_ok();
            reached += u32::from(killed || authority::overrule::<S>(pid, &[Signal::KILL]));
            if self.killing.below.contains(&pid.number()) {
                continue;
            }
            if asked < GROUPS_ASKED_MAX {
                asked += 1;
                lived |= !has_ended::<S>(pid);
                reached += u32::from(self.kill_group_of(pid, &mut groups));
            }
        }
        self.killing.generations += u32::from(lived);
        reached
    }

    fn kill_group_of(&self, child: Pid, done: &mut BTreeSet<GroupId>) -> bool {
        let (Some(group), Some(session)) = (S::group_of(child), S::session_of(child)) else {
            return false;
        };
        match self.helper.whole_group_of(group, session) {
            Some(group) if done.insert(group) => S::kill_group(group, Signal::KILL).is_ok(),
            Some(_) | None => false,
        }
    }

    fn fight(&mut self) {
        let killing = &self.killing;
        let is_ours = |pid| killing.dying.contains(&pid) || killing.held.contains(&pid);
        match kill_everyone_below::<S>(self.helper.pid, is_ours) {
            Some(below) => self.killing.below = below,
            None => drop(self.kill_listed()),
        }
    }

    /// Kills everything that descends from the helper, also below a parent that does not die,
    /// because nothing moved for a while.
    /// Says whether there is somebody and everybody refuses: they belong to another user.
    pub(crate) fn sweep_deep(&mut self) -> bool {
        // Somebody may have been moved in since.
        self.kill_group_members();
        if self.namespace.is_some() {
            return self.kill_listed() && !self.is_group_dying();
        }
        if !self.killing.fights {
            self.begin_fight();
        }
        self.sweep_children(self.helper.children::<S>());
        self.fight();
        self.killing.in_vain += 1;
        let is_due = self.killing.in_vain >= LOOKS_IN_VAIN_MAX;
        is_due && self.kill_listed() && !self.is_group_dying()
    }

    /// Kills everyone who is found by name and start time. Says whether all of them refuse.
    fn kill_listed(&self) -> bool {
        let until = end_of_look::<S>();
        // Of a look that was cut short nothing follows about those it has not come to.
        let mut is_whole = true;
        let targets = match self.members_outside(&BTreeSet::new(), until) {
            Ok(listing) => {
                is_whole = S::now(Clock::Monotonic) < until;
                let hidden = listing.hidden.iter();
                let mut targets = plan(self.helper, &listing.processes);
                targets.extend(hidden.filter_map(|process| self.helper.hidden_target(process)));
                targets
            }
            Err(_) => self.children_outside(&Reached::default()),
        };
        let refuse = |target: &Target| target.send::<S>(Signal::KILL) == Sent::Denied;
        // Every one of them is sent it, whatever the others do.
        let refusing = targets.iter().filter(|&target| refuse(target)).count();
        let all_refuse = refusing > 0 && refusing == targets.len();
        self.overrule(&[Signal::KILL]) == 0 && all_refuse && is_whole
    }

    /// Stops killing. The dead that hold their places are waited for; says how the root ended, if
    /// it was among them.
    pub(crate) fn give_up(&mut self) -> Option<Exit> {
        let mut collected = Collected::default();
        self.let_go(&mut collected);
        collected.root
    }

    /// Someone whose death means that about half of those who were killed are dead.
    pub(crate) fn harbinger(&self) -> Option<OwnedFd> {
        let dying = &self.killing.dying;
        let pid = dying.iter().nth(dying.len() / 2)?;
        S::pidfd_open(*pid).ok()
    }

    /// Notes that a child was waited for.
    pub(super) fn note_reaped(&mut self) {
        self.killing.reaped += 1;
        self.killing.in_vain = 0;
    }
}
