//! What is known of the tree: its root, who outlived it, and how all of them ended.
//!
//! Carries out what the ladder asks for: finds, names and signals; the last part of it, SIGKILL, is
//! in `killing`. Whom a signal may reach is decided in `targets`; children are waited for in `reap`.

mod crowd;
mod enclosed;
mod grouped;
mod killing;

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::time::Duration;

use xioflow_facts::{Descendant, Hidden, Listing, ProcessState, Stat, StatLine};
use xioflow_protocol::{
    Exit, Identity, PROCESS_NOTES_MAX, ProcessNote, Survivor, SurvivorEnd, TreeEnd, Usage, WhyAlive,
};
use xioflow_sys::{AsFd, Clock, GroupId, OwnedFd, Pid, Signal};

use self::crowd::is_crowded;
pub(crate) use self::crowd::raise_descriptor_limit;
use self::enclosed::end_by_pidfd;
pub(crate) use self::killing::Collected;
use self::killing::Killing;
use crate::authority;
use crate::group::Group;
use crate::namespace::Namespace;
use crate::system::System;
use crate::targets::{Helper, Reached, Seen, Sent, Target, plan};

/// How long one look for the members of a tree may take. Those that fork and end without pause, or keep the
/// helper from the processor, could be looked at for ever, and meanwhile nobody is waited for or answered.
const LOOK_LONGEST: Duration = Duration::from_secs(1);

fn end_of_look<S: System>() -> Duration {
    S::now(Clock::Monotonic) + LOOK_LONGEST
}

/// One who outlived the root.
#[derive(Debug)]
struct Outliver {
    process: ProcessNote,
    end: Option<Exit>,
    /// Asked for the end of one that is waited for out of sight, in a namespace.
    pidfd: Option<OwnedFd>,
}

impl Outliver {
    fn end<S: System>(&self) -> Option<Exit> {
        self.end.or_else(|| end_by_pidfd::<S>(self.pidfd.as_ref()?))
    }

    /// What became of one that is in no listing. That alone does not say that it is gone: a listing may
    /// have left it out.
    fn fate_unlisted<S: System>(&self) -> SurvivorEnd {
        let mut line = StatLine::new();
        match S::stat(self.process.pid, &mut line) {
            Ok(None) => SurvivorEnd::GoneUnobserved,
            Ok(Some(stat)) if stat.start_ticks != self.process.start_ticks => {
                SurvivorEnd::GoneUnobserved
            }
            Ok(Some(_)) | Err(_) => SurvivorEnd::Alive(WhyAlive::Unknown),
        }
    }
}

/// The tree below the helper.
#[derive(Debug)]
pub(crate) struct Tree<S> {
    system: PhantomData<S>,
    helper: Helper,
    root: Pid,
    /// Known when the root has come to its gate.
    root_identity: Option<Identity>,
    /// Holds the number of the root's group also after the root was waited for.
    root_pidfd: Option<OwnedFd>,
    root_exit: Option<Exit>,
    namespace: Option<Namespace>,
    group: Option<Group>,
    outlivers: Vec<Outliver>,
    outlivers_total: u32,
    /// How many of those could only be counted.
    hidden_total: u32,
    last_signal: Option<i32>,
    /// Whether hundreds wanted the processor before the last signal: those who die of one want it, too.
    is_crowded: bool,
    killing: Killing,
}

impl<S: System> Tree<S> {
    pub(crate) fn new(
        helper: Helper,
        root: Pid,
        root_pidfd: Option<OwnedFd>,
        namespace: Option<Namespace>,
        group: Option<Group>,
    ) -> Self {
        Self {
            system: PhantomData,
            helper,
            root,
            root_identity: None,
            root_pidfd,
            root_exit: None,
            namespace,
            group,
            outlivers: Vec::new(),
            outlivers_total: 0,
            hidden_total: 0,
            last_signal: None,
            is_crowded: false,
            killing: Killing::default(),
        }
    }

    pub(crate) const fn root(&self) -> Option<&Identity> {
        self.root_identity.as_ref()
    }

    /// Notes who the root is.
    pub(crate) fn identified(&mut self, root: Identity) {
        self.root_identity = Some(root);
    }

    /// Notes the end of a child that has not been waited for yet; says whether it was the root.
    pub(crate) fn note_end(&mut self, pid: u32, exit: Exit) -> bool {
        self.note_reaped();
        let is_root = self.root_exit.is_none() && pid == self.root.number();
        if is_root {
            self.root_exit = Some(exit);
        } else {
            self.note_outliver_end(pid, exit);
        }
        is_root
    }

    /// Whether one who outlived the root, and whose end is not known, had this number.
    fn is_named(&self, pid: u32) -> bool {
        let is_open = |outliver: &Outliver| outliver.process.pid == pid && outliver.end.is_none();
        self.outlivers.iter().any(is_open)
    }

    /// The number alone could be that of a later process: the start time tells.
    fn note_outliver_end(&mut self, pid: u32, exit: Exit) {
        let is_open =
            |outliver: &&mut Outliver| outliver.process.pid == pid && outliver.end.is_none();
        let Some(outliver) = self.outlivers.iter_mut().find(is_open) else {
            return;
        };
        let mut line = StatLine::new();
        if let Ok(Some(stat)) = S::stat(pid, &mut line)
            && stat.start_ticks == outliver.process.start_ticks
        {
            outliver.end = Some(exit);
        }
    }

    /// Finds and notes everyone who is there after the settle time.
    pub(crate) fn name_survivors(&mut self) -> (Vec<ProcessNote>, u32) {
        match self.members() {
            Ok(Listing {
                processes, hidden, ..
            }) => {
                for process in processes.iter().filter(|process| !process.has_ended()) {
                    self.note_outliver(process);
                }
                self.count_hidden(&hidden);
                self.note_guests(&processes);
            }
            // There is at least the one for whose sake waitid(2) did not answer ECHILD.
            Err(_) => {
                let ours = u32::try_from(self.helper.children::<S>().len()).unwrap_or(u32::MAX);
                self.outlivers_total = self.outlivers_total.max(ours.max(1));
            }
        }
        let notes = self
            .outlivers
            .iter()
            .map(|outliver| outliver.process.clone())
            .collect();
        (notes, self.outlivers_total)
    }

    /// Those that `/proc` does not show are counted, and not named: nothing but their number is known.
    fn count_hidden(&mut self, hidden: &[Hidden]) {
        let hidden = u32::try_from(hidden.len()).unwrap_or(u32::MAX);
        let more = hidden.saturating_sub(self.hidden_total);
        self.hidden_total += more;
        self.outlivers_total = self.outlivers_total.saturating_add(more);
    }

    fn note_outliver(&mut self, listed: &Descendant) {
        self.note_if(listed.pid, |pid| Seen::of(listed).is_still::<S>(pid));
    }

    /// Notes a process. Asked after the look whether it is still who was meant: by then its number may have been
    /// somebody else's, who is not to be named.
    fn note_if(&mut self, pid: u32, is_meant: impl FnOnce(Pid) -> bool) {
        if self.outlivers.len() >= PROCESS_NOTES_MAX {
            self.outlivers_total += 1;
            return;
        }
        // Before the look, so that what is read is of the same process or of none.
        let pidfd = self.hold(pid);
        let note = S::note(pid).ok().flatten();
        let (Some(note), Some(true)) = (note, Pid::new(pid).map(is_meant)) else {
            return;
        };
        let process = ProcessNote::new(pid, note.start_ticks, note.command, note.uid);
        self.outlivers_total += 1;
        self.outlivers.push(Outliver {
            process,
            end: None,
            pidfd,
        });
    }

    /// Sends a signal to every process of the tree, and SIGCONT after it so that those who are
    /// stopped can act on it. Says how many processes and groups it went to.
    ///
    /// The root's group comes first: one call reaches most of a tree before anybody is looked for. The
    /// others are looked for, and if there are any, looked for again: between the look and its
    /// signals a process may have left the group that was to reach it, or have been born outside.
    pub(crate) fn signal(&mut self, signal: Signal) -> u32 {
        let delivered = self.send(&[signal, Signal::CONT]);
        self.thaw();
        if delivered > 0 {
            self.last_signal = Some(signal.number());
        }
        delivered
    }

    /// Stops or continues every process of the tree, as a shell does with its jobs. It is no step
    /// towards the tree's end.
    pub(crate) fn job_control(&mut self, signal: Signal) {
        self.send(&[signal]);
    }

    fn send(&mut self, signals: &[Signal]) -> u32 {
        self.is_crowded = is_crowded::<S>();
        let mut reached = Reached::default();
        let mut delivered = send_all::<S>(&self.root_group(), signals, &mut reached);
        let until = end_of_look::<S>();
        for _look in 0..2 {
            let others = self.targets(&reached, until);
            if others.is_empty() {
                break;
            }
            delivered += send_all::<S>(&others, signals, &mut reached);
        }
        delivered + self.overrule(signals)
    }

    /// Reaches those of our children who refuse, also in a group that others of which did not. Says how many.
    fn overrule(&self, signals: &[Signal]) -> u32 {
        if !S::has_authority() {
            return 0;
        }
        let children = self.helper.children::<S>().into_iter().filter_map(Pid::new);
        let overruled = children.filter(|&pid| authority::overrule::<S>(pid, signals));
        u32::try_from(overruled.count()).unwrap_or(u32::MAX)
    }

    /// The group of the root, while the root lives: its number is then certainly its group's, and
    /// a signal to it does reach somebody.
    fn root_group(&self) -> Vec<Target> {
        match (self.root_exit, S::peek(self.root)) {
            (None, Ok(None)) => GroupId::new(self.root.number())
                .map(|group| Target::Group {
                    group,
                    witness: self.root,
                })
                .into_iter()
                .collect(),
            (Some(_), _) | (None, _) => Vec::new(),
        }
    }

    /// Everyone in the tree but those who were reached, as far as they are found by then.
    fn targets(&self, reached: &Reached, until: Duration) -> Vec<Target> {
        match self.members_outside(reached.groups(), until) {
            Ok(listing) => {
                let missed: Vec<_> = listing
                    .processes
                    .into_iter()
                    .filter(|p| !reached.has(p))
                    .collect();
                let hidden = listing.hidden.iter();
                let hidden = hidden.filter_map(|process| self.helper.hidden_target(process));
                let mut targets = plan(self.helper, &missed);
                targets.extend(hidden.filter(|target| !reached.has_target(target)));
                targets
            }
            // Who is further down cannot be told; our own children can.
            Err(_) => self.children_outside(reached),
        }
    }

    fn children_outside(&self, reached: &Reached) -> Vec<Target> {
        let children = self.helper.children::<S>().into_iter().filter_map(Pid::new);
        let in_tree = children.filter(|pid| Some(pid.number()) != self.init());
        let targets = in_tree.filter(|&pid| {
            let group = S::group_of(pid);
            !group.is_some_and(|group| reached.groups().contains(&group.number()))
        });
        let targets = targets.map(Target::Child);
        targets
            .filter(|target| !reached.has_target(target))
            .collect()
    }

    /// The account of a tree of which nothing is left.
    pub(crate) fn end_empty(&self) -> TreeEnd {
        self.end(|outliver| match outliver.end::<S>() {
            Some(exit) => SurvivorEnd::Ended(exit),
            None => SurvivorEnd::GoneUnobserved,
        })
    }

    /// The account of a tree that could not be ended, with everyone who is left and why.
    pub(crate) fn end_remaining(&mut self) -> TreeEnd {
        let left = match self.left() {
            Ok(listing) => {
                self.count_hidden(&listing.hidden);
                let left = self.who_is_left(&listing.processes);
                self.note_guests(&listing.processes);
                Some(left)
            }
            Err(_) => None,
        };
        self.end(|outliver| match (outliver.end::<S>(), &left) {
            (Some(exit), _) => SurvivorEnd::Ended(exit),
            (None, Some(left)) => left
                .iter()
                .find(|(pid, ticks, _)| {
                    *pid == outliver.process.pid && *ticks == outliver.process.start_ticks
                })
                .map_or_else(|| outliver.fate_unlisted::<S>(), |&(_, _, end)| end),
            // Nothing says that it is gone.
            (None, None) => SurvivorEnd::Alive(WhyAlive::Unknown),
        })
    }

    /// Why each process is still there; those not yet named are noted.
    fn who_is_left(&mut self, listing: &[Descendant]) -> Vec<(u32, u64, SurvivorEnd)> {
        let mut left = Vec::new();
        for process in listing {
            let end = if process.has_ended() {
                SurvivorEnd::Unreaped
            } else {
                SurvivorEnd::Alive(self.why(process))
            };
            left.push((process.pid, process.start_ticks, end));
            let is_named = self.outlivers.iter().any(|outliver| {
                outliver.process.pid == process.pid
                    && outliver.process.start_ticks == process.start_ticks
            });
            if !is_named {
                self.note_outliver(process);
            }
        }
        left
    }

    fn why(&self, process: &Descendant) -> WhyAlive {
        if process.state == ProcessState::Uninterruptible {
            return WhyAlive::Uninterruptible;
        }
        match self
            .helper
            .target(process)
            .map(|target| target.send::<S>(Signal::KILL))
        {
            Some(Sent::Denied) => WhyAlive::Permission,
            Some(Sent::Delivered | Sent::Gone) | None => WhyAlive::Unknown,
        }
    }

    fn end(&self, fate: impl Fn(&Outliver) -> SurvivorEnd) -> TreeEnd {
        let survivor = |outliver: &Outliver| Survivor {
            process: outliver.process.clone(),
            end: fate(outliver),
        };
        let used = S::children_usage();
        TreeEnd {
            exit: self.root_exit,
            survivors: self.outlivers.iter().map(survivor).collect(),
            survivors_total: self.outlivers_total,
            usage: Usage {
                user_us: used.user_us,
                system_us: used.system_us,
                max_rss_kib: used.max_rss_kib,
            },
            last_signal: self.last_signal,
            group_empty: self.is_group_empty(),
        }
    }
}

fn send_all<S: System>(targets: &[Target], signals: &[Signal], reached: &mut Reached) -> u32 {
    let mut delivered = 0;
    for target in targets {
        reached.add(target);
        if target.send_each::<S>(signals) == Sent::Delivered {
            delivered += 1;
        }
    }
    delivered
}

/// Says who the child at the gate is; the helper's boot is its boot.
pub(crate) fn identify<S: System>(
    child: Pid,
    helper: &Identity,
    pidfd: Option<&OwnedFd>,
) -> Option<Identity> {
    let mut line = StatLine::new();
    let stat: Stat<'_> = S::stat(child.number(), &mut line).ok().flatten()?;
    Some(Identity {
        pid: child.number(),
        start_ticks: stat.start_ticks,
        boot_id: helper.boot_id,
        pidfd_inode: pidfd.and_then(|pidfd| S::pidfd_inode(pidfd.as_fd())),
    })
}

/// Whether a child died without having executed its program; `None` when that cannot be told.
pub(crate) fn never_executed<S: System>(child: Pid) -> Option<bool> {
    let mut line = StatLine::new();
    let stat = S::stat(child.number(), &mut line).ok().flatten()?;
    Some(stat.is_unexecuted_copy())
}
