//! Ends what is left of commands whose helper and supervisor are both gone.
//!
//! Only who is identified gets a signal, and only through a descriptor that was checked after it was
//! opened. The command is identified by its record. While it, or anybody found through it, still has
//! the session or the group of its number, that number cannot be another's (the kernel gives
//! none away that a session or a group has), so whoever else is in them belongs to it, and so do the
//! children of those. Once nobody is left who was identified, the numbers alone say nothing.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use xioflow_killpoint as killpoint;
use xioflow_protocol::{PROCESS_NOTES_MAX, ProcessNote, Survivor, SurvivorEnd, WhyAlive};

use super::facts::{Attempt, Liveness};
use super::wait::{WATCHED_MAX, wait_for_all};
use crate::observe::{self, Met, Scan};
use crate::result::ProcessIdentity;

/// How long they have after SIGTERM.
const GRACE: Duration = Duration::from_millis(2000);

/// How long they may take to end after SIGKILL, which only the kernel can delay.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// What came of the attempt to end one command.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) attempt: Attempt,
    /// Who got a signal, the first [`PROCESS_NOTES_MAX`].
    pub(crate) signalled: Vec<u32>,
    /// Who is left, likewise.
    pub(crate) left: Vec<Survivor>,
    /// Whether it was made on the init of the tree's pid namespace, which stands for all of it.
    pub(crate) is_of_init: bool,
    /// Whether who is left is in the tree's control group.
    pub(crate) is_of_group: bool,
}

impl Stopped {
    /// There was no attempt.
    pub(crate) const NOTHING: Self = Self {
        attempt: Attempt::NotTried,
        signalled: Vec::new(),
        left: Vec::new(),
        is_of_init: false,
        is_of_group: false,
    };

    /// What came of another attempt on the same command, after this one.
    pub(super) fn then(mut self, next: Self) -> Self {
        self.signalled.extend(next.signalled);
        self.signalled.truncate(PROCESS_NOTES_MAX);
        self.left.extend(next.left);
        self.left.truncate(PROCESS_NOTES_MAX);
        Self {
            attempt: next.attempt,
            is_of_init: self.is_of_init || next.is_of_init,
            is_of_group: self.is_of_group || next.is_of_group,
            ..self
        }
    }
}

/// Ends all of these commands at once: SIGTERM, a grace that they share, SIGKILL.
pub(super) fn stop_all(roots: &[&ProcessIdentity]) -> Vec<Stopped> {
    let mut trees: Vec<Tree> = roots.iter().map(|&root| Tree::new(root)).collect();
    if !trees.is_empty() {
        end_within(&mut trees, Signal::TERM, GRACE);
        end_within(&mut trees, Signal::KILL, KILL_PATIENCE);
    }
    trees.into_iter().map(Tree::finish).collect()
}

/// Sends a signal to everybody who is found, until nobody is left or the time is over.
fn end_within(trees: &mut [Tree], signal: Signal, patience: Duration) {
    let until = Instant::now() + patience;
    loop {
        let scan = observe::scan();
        let mut watched = Vec::new();
        let mut progress = false;
        for tree in &mut *trees {
            progress |= tree.signal(&scan, signal, &mut watched);
        }
        // The look at the end of the time is made, and what it finds is what is left.
        if Instant::now() >= until || watched.is_empty() && !progress {
            return;
        }
        wait_for_all(watched, until);
    }
}

/// A process that was identified. Its number and its start mean it for as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    pid: u32,
    start_ticks: u64,
}

impl Member {
    fn of(met: &Met) -> Self {
        Self {
            pid: met.pid,
            start_ticks: met.start_ticks,
        }
    }

    fn is_there(self) -> bool {
        let met = observe::look_at(self.pid);
        met.is_some_and(|met| Self::of(&met) == self && !met.has_ended)
    }
}

/// A command without a holder.
struct Tree<'a> {
    root: &'a ProcessIdentity,
    /// Everybody who was identified, whether still there or not.
    members: BTreeSet<Member>,
    /// Who got which signal last.
    told: BTreeSet<(Member, i32)>,
    signalled: Vec<u32>,
    left: Vec<Survivor>,
    found_any: bool,
    /// Whether the last look can have missed nobody.
    saw_all: bool,
}

impl<'a> Tree<'a> {
    fn new(root: &'a ProcessIdentity) -> Self {
        Self {
            root,
            members: BTreeSet::new(),
            told: BTreeSet::new(),
            signalled: Vec::new(),
            left: Vec::new(),
            found_any: false,
            saw_all: false,
        }
    }

    /// Signals everybody who lives and has not had this signal yet, and adds to `watched` who is to be
    /// waited for. Says whether anybody was signalled.
    fn signal(&mut self, scan: &Scan, signal: Signal, watched: &mut Vec<OwnedFd>) -> bool {
        self.left.clear();
        self.saw_all = scan.is_complete;
        let mut progress = false;
        for (met, pidfd) in self.identified(scan) {
            self.found_any = true;
            let member = Member::of(&met);
            let sent = match pidfd {
                // This process may itself have been started by the command. It does not end itself.
                _ if met.pid == std::process::id() => Err(WhyAlive::Unknown),
                None => Err(WhyAlive::Unknown),
                Some(pidfd) => {
                    let sent = self.send(member, &pidfd, signal, &mut progress);
                    if watched.len() < WATCHED_MAX {
                        watched.push(pidfd);
                    }
                    sent
                }
            };
            let why = match sent {
                Err(why) => why,
                Ok(()) if met.is_uninterruptible => WhyAlive::Uninterruptible,
                Ok(()) => WhyAlive::Unknown,
            };
            self.note_left(&met, why);
        }
        progress
    }

    fn send(
        &mut self,
        member: Member,
        pidfd: &OwnedFd,
        signal: Signal,
        progress: &mut bool,
    ) -> Result<(), WhyAlive> {
        if self.told.contains(&(member, signal.as_raw())) {
            return Ok(());
        }
        killpoint::pass(|| "recovery:before-signal");
        let sent = pidfd_send_signal(pidfd, signal);
        killpoint::pass(|| "recovery:after-signal");
        match sent {
            Ok(()) => {
                *progress = true;
                self.told.insert((member, signal.as_raw()));
                // One that was stopped must run to take notice.
                pidfd_send_signal(pidfd, Signal::CONT).ok();
                if self.signalled.len() < PROCESS_NOTES_MAX && !self.signalled.contains(&member.pid)
                {
                    self.signalled.push(member.pid);
                }
                Ok(())
            }
            // It has ended meanwhile.
            Err(Errno::SRCH) => Ok(()),
            Err(Errno::PERM) => Err(WhyAlive::Permission),
            Err(_) => Err(WhyAlive::Unknown),
        }
    }

    fn note_left(&mut self, met: &Met, why: WhyAlive) {
        if self.left.len() < PROCESS_NOTES_MAX {
            let unnamed = || ProcessNote::new(met.pid, met.start_ticks, Vec::new(), None);
            self.left.push(Survivor {
                process: observe::process_note(met.pid).unwrap_or_else(unnamed),
                end: SurvivorEnd::Alive(why),
            });
        }
    }

    /// Everybody of the command who lives, each with a descriptor that means it.
    fn identified(&mut self, scan: &Scan) -> Vec<(Met, Option<OwnedFd>)> {
        let candidates = self.candidates(scan);
        let pidfds: Vec<_> = candidates.iter().map(|met| open(met.pid)).collect();
        // Looked at again after the descriptors were opened: each means the one that was met.
        let again = candidates.iter().map(|met| {
            observe::look_at(met.pid)
                .filter(|again| Member::of(again) == Member::of(met) && !again.has_ended)
        });
        let again: Vec<_> = again.collect();
        let is_pinned = self.is_pinned();
        let lives: BTreeSet<u32> = candidates
            .iter()
            .filter(|met| Member::of(met).is_there())
            .map(|met| met.pid)
            .collect();
        let mut accepted = BTreeSet::new();
        let mut grows = true;
        while std::mem::take(&mut grows) {
            for met in again.iter().flatten() {
                let is_ours = self.members.contains(&Member::of(met))
                    || is_pinned && self.has_number(met)
                    // A parent that was there before and after had its number all the while.
                    || accepted.contains(&met.parent) && lives.contains(&met.parent);
                grows |= is_ours && accepted.insert(met.pid);
            }
        }
        let mut held = Vec::new();
        for (met, pidfd) in again.into_iter().zip(pidfds) {
            if let Some(met) = met.filter(|met| accepted.contains(&met.pid)) {
                self.members.insert(Member::of(&met));
                held.push((met, pidfd));
            }
        }
        held
    }

    /// Whether a process is in the session or the group of the command's number.
    fn has_number(&self, met: &Met) -> bool {
        met.session == self.root.pid || met.group == self.root.pid
    }

    /// Who may be of the command: those of its session and its group, and those below them.
    fn candidates(&self, scan: &Scan) -> Vec<Met> {
        let of = |met: &&Met| self.members.contains(&Member::of(met)) || self.has_number(met);
        let mut ours: BTreeSet<u32> = scan.processes.iter().filter(of).map(|it| it.pid).collect();
        loop {
            let before = ours.len();
            // What this process has started itself, an idle helper for one, is not of the command.
            let not_ours = |met: &&Met| met.parent != std::process::id();
            let below = scan
                .processes
                .iter()
                .filter(|met| ours.contains(&met.parent))
                .filter(not_ours);
            let below: Vec<u32> = below.map(|met| met.pid).collect();
            ours.extend(below);
            if ours.len() == before {
                break;
            }
        }
        let lives = |met: &&Met| ours.contains(&met.pid) && !met.has_ended;
        scan.processes.iter().filter(lives).copied().collect()
    }

    /// Whether the number of the command still is its own.
    fn is_pinned(&self) -> bool {
        let has_number = |member: &Member| {
            let met = observe::look_at(member.pid);
            met.is_some_and(|met| Member::of(&met) == *member && self.has_number(&met))
        };
        matches!(
            observe::liveness(self.root),
            Liveness::Alive | Liveness::Unreaped
        ) || self.members.iter().any(has_number)
    }

    fn finish(self) -> Stopped {
        let lives = |survivor: &Survivor| {
            let process = &survivor.process;
            Member {
                pid: process.pid,
                start_ticks: process.start_ticks,
            }
            .is_there()
        };
        let left: Vec<Survivor> = self.left.into_iter().filter(lives).collect();
        let attempt = match (self.found_any, left.is_empty() && self.saw_all) {
            (false, _) => Attempt::NothingFound,
            (true, true) => Attempt::Confirmed,
            (true, false) => Attempt::Unconfirmed,
        };
        Stopped {
            attempt,
            signalled: self.signalled,
            left,
            ..Stopped::NOTHING
        }
    }
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;
