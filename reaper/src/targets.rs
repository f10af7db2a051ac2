//! Who is signalled, and how that is safe.
//!
//! A number alone proves nothing: it may have been used again. There are three proofs, and a
//! [`Target`] cannot be made without one of them:
//!
//! - a child of ours that was not waited for keeps its number;
//! - a group of which such a child is a member keeps *its* number, and when its session was made
//!   inside the tree, all its members are ours: one call reaches them all, which no fork outruns.
//!   That the child is still a member is asked again before the call;
//! - anyone else is reached through a pidfd, after its start time and its parent were read again. Start times count
//!   hundredths of a second, in which a number can be given away; to somebody with a parent elsewhere.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use xioflow_facts::{Descendant, Hidden, Listing, Numbers, StatLine, Way, may_have_gone_round};
use xioflow_sys::{AsFd, Clock, Errno, GroupId, Pid, Signal};

use crate::reap::childless;
use crate::system::System;

/// Who we are, so that we are never among the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Helper {
    pub(crate) pid: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Above every number that a process can have here.
    pub(crate) pid_max: u32,
    /// When we began, of the clock that never goes back. Our number is a little older, our children's are not.
    pub(crate) begun: Duration,
}

/// Someone of the tree, with the proof that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A group with a member that is our unreaped child, in a session of the tree's own.
    Group {
        group: GroupId,
        /// That child: while it is in the group, the number means the group.
        witness: Pid,
    },
    /// Our unreaped child.
    Child(Pid),
    /// A process further down.
    Other { pid: Pid, seen: Seen },
}

/// What shows that a number still means the process that was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    start_ticks: u64,
    parent: u32,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It was sent.
    Delivered,
    /// There is nobody any more.
    Gone,
    /// The kernel refused it.
    Denied,
}

impl Helper {
    /// The group of a child of ours in that session, if it may be signalled as a whole.
    pub(crate) fn whole_group_of(&self, group: GroupId, session: u32) -> Option<GroupId> {
        self.whole_group(self.pid, group.number(), session)
    }

    fn whole_group(&self, parent: u32, group: u32, session: u32) -> Option<GroupId> {
        let is_held = parent == self.pid;
        let is_of_the_tree = session != self.session && group != self.group;
        if is_held && is_of_the_tree {
            GroupId::new(group)
        } else {
            None
        }
    }

    /// Our children, zombies among them. Where no list of them can be read, or somebody may be missing in it,
    /// the kernel is asked about every number that one of them can have: that needs no descriptor.
    pub(crate) fn children<S: System>(&self) -> Vec<u32> {
        S::children(self.pid).unwrap_or_else(|_| by_number::<S>(self.numbers_of_children::<S>()))
    }

    /// Every number that a child of ours can have.
    fn numbers_of_children<S: System>(&self) -> Numbers {
        let age = S::now(Clock::Monotonic).saturating_sub(self.begun);
        let is_early = !may_have_gone_round(self.pid_max, age);
        let given = is_early.then(|| self.given_since::<S>()).flatten();
        given.unwrap_or(Numbers::all(self.pid_max))
    }

    /// Some of our children, where it would take long to find all; none only if there is none.
    ///
    /// For one who kills them and comes back for the others: numbers mostly have not gone round, and then these
    /// are all.
    pub(crate) fn likely_children<S: System>(&self) -> Vec<u32> {
        let likely = || {
            let given = self.given_since::<S>();
            let found = given.map(by_number::<S>).unwrap_or_default();
            match found.is_empty() {
                true => by_number::<S>(Numbers::all(self.pid_max)),
                false => found,
            }
        };
        S::children(self.pid).unwrap_or_else(|_| likely())
    }

    fn given_since<S: System>(&self) -> Option<Numbers> {
        let last = S::last_pid()?;
        Some(Numbers::given(self.pid, last, self.pid_max))
    }

    /// Adds our own children to a listing of those outside of some groups, where a scan shows some of all
    /// processes only.
    pub(crate) fn add_unlisted<S: System>(&self, listing: &mut Listing, groups: &BTreeSet<u32>) {
        if listing.way != Way::Scan || listing.complete {
            return;
        }
        let is_outside =
            |pid: &Pid| !S::group_of(*pid).is_some_and(|it| groups.contains(&it.number()));
        let shown = listing.processes.iter().map(|it| it.pid);
        let known: BTreeSet<_> = shown
            .chain(listing.hidden.iter().map(|it| it.pid))
            .collect();
        // By number only without a list: that is millions of calls, and this is asked for several times.
        let ours = self.children::<S>().into_iter();
        let hidden = ours.filter(|pid| !known.contains(pid));
        let hidden = hidden.filter_map(Pid::new).filter(is_outside);
        let parent = self.pid;
        listing.hidden.extend(hidden.map(|pid| Hidden {
            pid: pid.number(),
            parent,
        }));
    }

    /// One that `/proc` does not show, if it is our child: then its number is certainly its own.
    pub(crate) fn hidden_target(&self, process: &Hidden) -> Option<Target> {
        let pid = Pid::new(process.pid).filter(|_| process.parent == self.pid)?;
        Some(Target::Child(pid))
    }

    /// A single process, unless it is ourselves.
    pub(crate) fn target(&self, process: &Descendant) -> Option<Target> {
        let pid = Pid::new(process.pid).filter(|pid| pid.number() != self.pid)?;
        Some(match process.parent == self.pid {
            true => Target::Child(pid),
            false => Target::Other {
                pid,
                seen: Seen::of(process),
            },
        })
    }
}

/// Chooses targets so that every living process of a listing is reached exactly once.
pub(crate) fn plan(helper: Helper, listing: &[Descendant]) -> Vec<Target> {
    let living = || listing.iter().filter(|process| !process.has_ended());
    let inhabited: BTreeSet<_> = living()
        .filter_map(|process| GroupId::new(process.group))
        .collect();
    // A child that has ended, and was not waited for, still holds the number of its group.
    // Of several the first is the witness.
    let whole: BTreeMap<_, _> = listing
        .iter()
        .rev()
        .filter_map(|p| {
            let group = helper.whole_group(p.parent, p.group, p.session)?;
            let witness = Pid::new(p.pid).filter(|pid| pid.number() != helper.pid)?;
            Some((group, witness))
        })
        .filter(|(group, _)| inhabited.contains(group))
        .collect();
    let singly = living()
        .filter(|process| !GroupId::new(process.group).is_some_and(|g| whole.contains_key(&g)))
        .filter_map(|process| helper.target(process));
    whole
        .iter()
        .map(|(&group, &witness)| Target::Group { group, witness })
        .chain(singly)
        .collect()
}

/// Who got a signal already, so that nobody gets it twice.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    groups: BTreeSet<u32>,
    processes: BTreeSet<u32>,
}

impl Reached {
    /// Notes a target.
    pub(crate) fn add(&mut self, target: &Target) {
        match target {
            Target::Group { group, .. } => self.groups.insert(group.number()),
            Target::Child(pid) | Target::Other { pid, .. } => self.processes.insert(pid.number()),
        };
    }

    /// Whether a process was among the targets. One that has left its group since may have been
    /// reached there or not: then twice is better than never.
    pub(crate) fn has(&self, process: &Descendant) -> bool {
        self.groups.contains(&process.group) || self.processes.contains(&process.pid)
    }

    /// Whether this very process was a target of its own.
    pub(crate) fn has_target(&self, target: &Target) -> bool {
        match target {
            Target::Group { group, .. } => self.groups.contains(&group.number()),
            Target::Child(pid) | Target::Other { pid, .. } => {
                self.processes.contains(&pid.number())
            }
        }
    }

    /// The groups that were reached as a whole.
    pub(crate) const fn groups(&self) -> &BTreeSet<u32> {
        &self.groups
    }
}

impl Target {
    /// Sends a signal.
    pub(crate) fn send<S: System>(&self, signal: Signal) -> Sent {
        self.send_each::<S>(&[signal])
    }

    /// Sends signals one after the other, and says what became of the first.
    pub(crate) fn send_each<S: System>(&self, signals: &[Signal]) -> Sent {
        let outcome = match *self {
            // Before each: it may have made or joined another group since it was listed, or been the last to
            // hold this one's number.
            Self::Group { group, witness } => each(signals, |signal| match S::group_of(witness) {
                Some(now) if now == group => S::kill_group(group, signal),
                Some(_) | None => Err(Errno::ESRCH),
            }),
            Self::Child(pid) => each(signals, |signal| S::kill(pid, signal)),
            Self::Other { pid, seen } => send_verified::<S>(pid, seen, signals),
        };
        match outcome {
            Ok(()) => Sent::Delivered,
            Err(Errno::EPERM) => Sent::Denied,
            Err(_) => Sent::Gone,
        }
    }
}

impl Seen {
    pub(crate) fn of(process: &Descendant) -> Self {
        Self {
            start_ticks: process.start_ticks,
            parent: process.parent,
        }
    }

    /// Whether the number means that process now. One that has lost its parent meanwhile has come to us, or to a
    /// subreaper in the tree: then it is found there by the next look.
    pub(crate) fn is_still<S: System>(self, pid: Pid) -> bool {
        let mut line = StatLine::new();
        let stat = S::stat(pid.number(), &mut line);
        let is_kin = |parent| parent == self.parent || parent == S::getpid();
        matches!(stat, Ok(Some(stat)) if stat.start_ticks == self.start_ticks && is_kin(stat.parent))
    }
}

/// That there is no child at all is one call; to ask about millions of numbers takes a second.
fn by_number<S: System>(numbers: Numbers) -> Vec<u32> {
    match childless::<S>() {
        true => Vec::new(),
        false => S::children_by_number(numbers),
    }
}

/// Opens a pidfd, makes sure that it is the process that was meant, and signals through it.
///
/// Where there are none, the moment between the look and the call is all that is left open.
fn send_verified<S: System>(pid: Pid, seen: Seen, signals: &[Signal]) -> Result<(), Errno> {
    // Looked at again before each: the first may have ended it, and given its number away.
    let by_number = || {
        each(signals, |signal| match seen.is_still::<S>(pid) {
            true => S::kill(pid, signal),
            false => Err(Errno::ESRCH),
        })
    };
    match S::pidfd_open(pid.number()) {
        Ok(pidfd) if seen.is_still::<S>(pid) => {
            match each(signals, |signal| S::pidfd_signal(pidfd.as_fd(), signal)) {
                Err(errno) if is_no_call(errno) => by_number(),
                sent => sent,
            }
        }
        Err(errno) if is_no_call(errno) || errno == Errno::EMFILE => by_number(),
        Ok(_) | Err(_) => Err(Errno::ESRCH),
    }
}

/// Whether there is no such call: kernels without it say ENOSYS, and filters of containers also EPERM. Of one
/// that may not be signalled, kill(2) says so once more.
fn is_no_call(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSYS | Errno::EPERM)
}

/// Stops at the first signal that cannot be sent: who is gone or denies one needs no second.
fn each(
    signals: &[Signal],
    mut send: impl FnMut(Signal) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut signals = signals.iter().copied();
    let first = signals.next().map_or(Ok(()), &mut send);
    if first.is_ok() {
        // The first may have ended it.
        let _rest = signals.try_for_each(send);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Linux;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};
    use xioflow_facts::{PID_MAX_LIMIT, ProcessState, identity};

    const HELPER: Helper = Helper {
        pid: 100,
        group: 100,
        session: 100,
        pid_max: 200,
        begun: Duration::ZERO,
    };

    #[test]
    fn all_numbers_are_asked_only_once_they_can_have_gone_round() {
        let helper = |begun| Helper {
            pid: std::process::id(),
            pid_max: PID_MAX_LIMIT,
            begun,
            ..HELPER
        };
        let all = Numbers::all(PID_MAX_LIMIT);
        let young = helper(xioflow_sys::now(Clock::Monotonic)).numbers_of_children::<Linux>();
        assert_ne!(young, all);
        assert!(young.contains(std::process::id()));
        // This machine has run for longer than it takes.
        let old = helper(Duration::ZERO).numbers_of_children::<Linux>();
        assert_eq!(old, all);
    }

    fn process(pid: u32, parent: u32, group: u32, session: u32) -> Descendant {
        let state = ProcessState::Sleeping;
        Descendant {
            pid,
            parent,
            group,
            session,
            start_ticks: 0,
            state,
            threads: 1,
        }
    }

    fn zombie(pid: u32, parent: u32, group: u32, session: u32) -> Descendant {
        Descendant {
            state: ProcessState::Zombie,
            ..process(pid, parent, group, session)
        }
    }

    /// A group that its own leader holds, or another child.
    fn group_of_child(number: u32, witness: u32) -> Target {
        Target::Group {
            group: GroupId::new(number).expect("a group"),
            witness: Pid::new(witness).expect("a process"),
        }
    }

    fn group(number: u32) -> Target {
        group_of_child(number, number)
    }

    fn child(number: u32) -> Target {
        Target::Child(Pid::new(number).expect("a process"))
    }

    fn other(number: u32) -> Target {
        // Nobody else in these trees has a descendant that is signalled alone.
        other_of(number, 200)
    }

    fn other_of(number: u32, parent: u32) -> Target {
        Target::Other {
            pid: Pid::new(number).expect("a process"),
            seen: Seen {
                start_ticks: 0,
                parent,
            },
        }
    }

    #[test]
    fn a_group_held_by_a_child_is_reached_at_once() {
        let tree = [
            process(200, 100, 200, 200),
            process(201, 200, 200, 200),
            process(202, 201, 200, 200),
        ];
        assert_eq!(plan(HELPER, &tree), [group(200)]);
    }

    #[test]
    fn who_is_in_no_held_group_is_reached_alone() {
        let tree = [
            process(200, 100, 200, 200),
            // Below the root, in a session of its own: its number is held by nobody.
            process(300, 200, 300, 300),
            // Adopted, in a session of its own: held.
            process(400, 100, 400, 400),
            process(401, 400, 400, 400),
        ];
        assert_eq!(plan(HELPER, &tree), [group(200), group(400), other(300)]);
    }

    #[test]
    fn a_group_of_the_helper_s_own_session_is_never_reached_as_a_whole() {
        // A child before its setsid, and one that joined a group outside.
        let tree = [process(200, 100, 100, 100), process(201, 100, 77, 100)];
        assert_eq!(plan(HELPER, &tree), [child(200), child(201)]);
    }

    #[test]
    fn a_dead_leader_holds_its_group_while_it_was_not_waited_for() {
        let tree = [zombie(200, 100, 200, 200), process(201, 100, 200, 200)];
        assert_eq!(plan(HELPER, &tree), [group(200)]);
        assert_eq!(plan(HELPER, &tree[..1]), [], "nobody lives there");
    }

    #[test]
    fn who_got_a_signal_is_not_among_the_missed() {
        let mut reached = Reached::default();
        reached.add(&group(200));
        reached.add(&other(300));
        for (target, was_reached) in [(group(200), true), (child(300), true), (child(200), false)] {
            assert_eq!(reached.has_target(&target), was_reached, "{target:?}");
        }
        assert!(reached.has(&process(201, 200, 200, 200)));
        assert!(reached.has(&process(300, 200, 300, 300)));
        // It left the group meanwhile: whether the signal came first cannot be told.
        assert!(!reached.has(&process(201, 200, 201, 201)));
    }

    #[test]
    fn a_process_with_another_start_time_or_parent_is_not_signalled() {
        // Its parent is a shell, so that we are not.
        let script = "sleep 60 & echo $!; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell runs");
        let mut told = std::string::String::new();
        let stdout = shell.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut told)
            .expect("the sleeper's number");
        let number = told.trim().parse().expect("a number");
        let pid = Pid::new(number).expect("a process");
        let who = identity(number).expect("readable").expect("alive");
        let meant = |start_ticks, parent| Target::Other {
            pid,
            seen: Seen {
                start_ticks,
                parent,
            },
        };
        let later = meant(who.start_ticks + 1, shell.id());
        let elsewhere = meant(who.start_ticks, shell.id() + 1);
        for stranger in [later, elsewhere] {
            assert_eq!(stranger.send::<Linux>(Signal::KILL), Sent::Gone);
            assert!(
                shell.try_wait().expect("ours").is_none(),
                "its sleeper was not meant"
            );
        }
        let itself = meant(who.start_ticks, shell.id());
        assert_eq!(itself.send::<Linux>(Signal::KILL), Sent::Delivered);
        shell.wait().expect("ours");
        assert_eq!(itself.send::<Linux>(Signal::KILL), Sent::Gone);
    }

    #[test]
    fn a_group_that_its_witness_has_left_is_not_signalled() {
        use std::os::unix::process::CommandExt;
        let mut sleeper = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sleep runs");
        let leader = sleeper.id();
        // This process is in another group.
        let left = group_of_child(leader, std::process::id());
        assert_eq!(left.send::<Linux>(Signal::KILL), Sent::Gone);
        assert!(
            sleeper.try_wait().expect("ours").is_none(),
            "it was not meant"
        );
        assert_eq!(group(leader).send::<Linux>(Signal::KILL), Sent::Delivered);
        sleeper.wait().expect("ours");
    }

    fn trees() -> impl Strategy<Value = Vec<Descendant>> {
        // Small numbers, so that 0, 1, the helper and shared groups come up often.
        let numbers = (0u32..8, 98u32..104, 0u32..4, 98u32..104, any::<bool>());
        proptest::collection::vec(numbers, 0..20).prop_map(|all| {
            all.into_iter()
                .enumerate()
                .map(|(at, (pid, parent, group, session, lives))| {
                    let pid = if pid < 3 {
                        pid
                    } else {
                        98 + u32::try_from(at).expect("few")
                    };
                    let group = [0, 1, 100, 98 + group][usize::try_from(group).expect("few")];
                    let made = if lives { process } else { zombie };
                    made(pid, parent, group, session)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn no_target_is_the_helper_or_the_world(tree in trees()) {
            for target in plan(HELPER, &tree) {
                match target {
                    Target::Group { group, witness } => {
                        prop_assert!(group.number() > 1 && group.number() != HELPER.group);
                        prop_assert!(witness.number() > 1 && witness.number() != HELPER.pid);
                        prop_assert!(tree.iter().any(|p| p.group == group.number()
                            && p.parent == HELPER.pid && p.session != HELPER.session));
                    }
                    Target::Child(pid) | Target::Other { pid, .. } => {
                        prop_assert!(pid.number() > 1 && pid.number() != HELPER.pid);
                    }
                }
            }
        }

        #[test]
        fn everyone_who_lives_is_reached_exactly_once(tree in trees()) {
            let targets = plan(HELPER, &tree);
            for process in tree.iter().filter(|p| !p.has_ended()) {
                if Pid::new(process.pid).is_none() || process.pid == HELPER.pid {
                    continue;
                }
                let ways = targets.iter().filter(|target| match target {
                    Target::Group { group, .. } => group.number() == process.group,
                    Target::Child(pid) | Target::Other { pid, .. } => pid.number() == process.pid,
                });
                let same = tree.iter().filter(|p| p.pid == process.pid && !p.has_ended());
                if same.count() == 1 {
                    prop_assert_eq!(ways.count(), 1, "{:?} in {:?}", process, targets);
                }
            }
        }
    }
}
