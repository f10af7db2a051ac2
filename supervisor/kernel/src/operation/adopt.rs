//! The last net: what a dead helper held comes to this process, if it is a subreaper, and is ended
//! here.
//!
//! Only for programs that have no children of their own: every child that is no helper counts as
//! an orphan of one.

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
use crate::helper::strangers;
use crate::observe;

/// How long ending orphans may take altogether.
const PATIENCE: Duration = Duration::from_secs(5);

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
        survivors: Vec::new(),
        total: 0,
    };
    loop {
        let mut left = Vec::new();
        for pid in strangers()? {
            if let Some(why) = ended.try_end(pid, until) {
                left.push((pid, why));
            }
        }
        // What was below one that ended has come up by now.
        let empty = strangers()?.is_empty();
        if empty || Instant::now() >= until {
            for (pid, why) in left {
                ended.push(observe::process_note(pid), pid, SurvivorEnd::Alive(why));
            }
            return Some((ended.into_tree_end(), empty));
        }
    }
}

struct Ended {
    root: u32,
    exit: Option<Exit>,
    survivors: Vec<Survivor>,
    total: u32,
}

impl Ended {
    /// Kills and waits for one; says why if it is still there. It is our child and nobody else
    /// waits for it, so its number cannot mean another process meanwhile.
    fn try_end(&mut self, pid: u32, until: Instant) -> Option<WhyAlive> {
        let child = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        let note = observe::process_note(pid);
        let refused = kill_process(child, Signal::KILL) == Err(Errno::PERM);
        match wait_for(child, until) {
            Waited::Ended(exit) if pid == self.root => self.exit = self.exit.or(Some(exit)),
            Waited::Ended(exit) => self.push(note, pid, SurvivorEnd::Ended(exit)),
            Waited::GoneUnobserved => self.push(note, pid, SurvivorEnd::GoneUnobserved),
            Waited::Alive if refused => return Some(WhyAlive::Permission),
            Waited::Alive => return Some(WhyAlive::Unknown),
        }
        None
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
        }
    }
}

enum Waited {
    Ended(Exit),
    GoneUnobserved,
    Alive,
}

/// Waits for one child of ours until a deadline.
fn wait_for(child: Pid, until: Instant) -> Waited {
    if let Ok(pidfd) = pidfd_open(child, PidfdFlags::empty()) {
        let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
        // Interrupted or over: whether it has ended is asked next, without waiting.
        poll(&mut polled, timespec_until(Some(until)).as_ref()).ok();
    }
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
