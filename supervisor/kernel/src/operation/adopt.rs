//! The last net: what a dead helper held comes to this process, if it is a subreaper, and is ended
//! here.
//!
//! Only for programs that have no children of their own: every child that is no helper counts as
//! an orphan of one.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, child_subreaper, kill_process,
    pidfd_open, waitid,
};
use xioflow_protocol::{
    Exit, PROCESS_NOTES_MAX, ProcessNote, Survivor, SurvivorEnd, TreeEnd, Usage, WhyAlive,
};

use crate::deadline::timespec_until;
use crate::helper::{is_init, strangers};
use crate::observe;

/// How long ending orphans may take altogether.
const PATIENCE: Duration = Duration::from_secs(5);

/// Processes that are watched at once: a process has 1024 descriptors by default, and needs others.
const WATCHED_MAX: usize = 256;

/// Ends every orphan that has come to this process, and those that come up while it does.
///
/// `None` if nothing can be said of them: they cannot be listed, or this process is no subreaper any
/// more (the host may have changed that), so that they went to another one.
pub(super) fn end_orphans(root: u32, seen_exit: Option<Exit>) -> Option<(TreeEnd, bool)> {
    child_subreaper().ok()??;
    let until = Instant::now() + PATIENCE;
    let mut ended = Ended {
        root,
        exit: seen_exit,
        met: BTreeMap::new(),
        survivors: Vec::new(),
        total: 0,
    };
    loop {
        let here = strangers()?;
        here.iter().for_each(|pid| ended.kill(*pid));
        let some_ended = here.iter().filter(|pid| ended.collect(**pid)).count() > 0;
        // What was below one that ended has come up by now.
        let left = strangers()?;
        if left.is_empty() || Instant::now() >= until {
            left.iter().for_each(|pid| ended.leave(*pid));
            return Some((ended.into_tree_end(), left.is_empty()));
        }
        // All of them at once: the init of a namespace ends only after the command was waited for.
        if !some_ended {
            wait_for_any(&left, until);
        }
    }
}

/// An orphan that was killed.
struct Met {
    note: Option<ProcessNote>,
    /// Whether it may not be signalled.
    refused: bool,
}

struct Ended {
    root: u32,
    exit: Option<Exit>,
    /// Those that were killed and not waited for yet.
    met: BTreeMap<u32, Met>,
    survivors: Vec<Survivor>,
    total: u32,
}

impl Ended {
    /// Kills one, once. It is our child and nobody else waits for it, so its number cannot mean
    /// another process before it was waited for.
    fn kill(&mut self, pid: u32) {
        let Some(child) = as_pid(pid) else { return };
        self.met.entry(pid).or_insert_with(|| Met {
            note: observe::process_note(pid),
            refused: kill_process(child, Signal::KILL) == Err(Errno::PERM),
        });
    }

    /// Waits for one, if it has ended; says whether it had.
    fn collect(&mut self, pid: u32) -> bool {
        let end = match as_pid(pid).map(collect) {
            None | Some(Waited::Alive) => return false,
            Some(Waited::Ended(exit)) => SurvivorEnd::Ended(exit),
            Some(Waited::GoneUnobserved) => SurvivorEnd::GoneUnobserved,
        };
        let note = self.met.remove(&pid).and_then(|met| met.note);
        match end {
            SurvivorEnd::Ended(exit) if pid == self.root => self.exit = self.exit.or(Some(exit)),
            // The helper's own, and no process of the tree.
            _ if is_init(pid) => {}
            end => self.push(note, pid, end),
        }
        true
    }

    /// Notes one that could not be ended.
    fn leave(&mut self, pid: u32) {
        let met = self.met.remove(&pid);
        let why = match &met {
            Some(met) if met.refused => WhyAlive::Permission,
            _ => WhyAlive::Unknown,
        };
        let note = met.and_then(|met| met.note);
        self.push(note, pid, SurvivorEnd::Alive(why));
    }

    fn push(&mut self, note: Option<ProcessNote>, pid: u32, end: SurvivorEnd) {
        self.total += 1;
        if self.survivors.len() < PROCESS_NOTES_MAX {
            let process = note.unwrap_or_else(|| ProcessNote::new(pid, 0, Vec::new(), None));
            self.survivors.push(Survivor { process, end });
        }
    }

    fn into_tree_end(self) -> TreeEnd {
        TreeEnd {
            exit: self.exit,
            survivors: self.survivors,
            survivors_total: self.total,
            usage: Usage::default(),
            last_signal: Some(Signal::KILL.as_raw()),
            group_empty: None,
        }
    }
}

enum Waited {
    Ended(Exit),
    GoneUnobserved,
    Alive,
}

/// Waits until one of these children of ours has ended, or the time is over.
fn wait_for_any(children: &[u32], until: Instant) {
    let open = |pid: &u32| pidfd_open(as_pid(*pid)?, PidfdFlags::empty()).ok();
    let pidfds: Vec<OwnedFd> = children.iter().filter_map(open).take(WATCHED_MAX).collect();
    let mut polled: Vec<PollFd<'_>> = pidfds
        .iter()
        .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
        .collect();
    // Interrupted or over: whether one has ended is asked next, without waiting.
    poll(&mut polled, timespec_until(Some(until)).as_ref()).ok();
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Waits for one child of ours, if it has ended.
fn collect(child: Pid) -> Waited {
    match waitid(
        WaitId::Pid(child),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
    ) {
        Ok(None) => Waited::Alive,
        Ok(Some(status)) => exit_of(&status).map_or(Waited::GoneUnobserved, Waited::Ended),
        // ECHILD: somebody else has waited for it.
        Err(_) => Waited::GoneUnobserved,
    }
}

fn exit_of(status: &WaitIdStatus) -> Option<Exit> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Exit::Exited { code }),
        (None, Some(signal)) => Some(Exit::Signaled {
            signal,
            core: status.dumped(),
        }),
        (None, None) => None,
    }
}
