//! A process that got away from its command, and whether it lives.
//!
//! Neighbours: `subreaper` makes some, `process_stat` reads `/proc`.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::process_stat::ProcessStat;

/// A process that got away from its command.
pub(super) struct Escapee {
    pid: u32,
    /// Null when `/proc` did not show it while it was known to live.
    start_ticks: Option<u64>,
    /// To end it if nobody else does; null without process descriptors.
    pidfd: Option<OwnedFd>,
}

impl Escapee {
    /// It has just said its pid and lives for a minute unless it is ended, so this is it.
    pub(super) fn of(pid: u32) -> Self {
        let stat = ProcessStat::read(pid).ok().flatten();
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self {
            pid,
            start_ticks: stat.map(|stat| stat.start_ticks),
            pidfd: raw.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
        }
    }

    /// `None` when that cannot be told.
    fn lives(&self) -> Option<bool> {
        let start_ticks = self.start_ticks?;
        let now = ProcessStat::read(self.pid).ok()?;
        Some(now.is_some_and(|now| now.start_ticks == start_ticks && now.runs()))
    }
}

impl Drop for Escapee {
    /// Ends it if the helper did not: a broken helper must not leave our trial behind.
    fn drop(&mut self) {
        if let Some(pidfd) = &self.pidfd {
            // It is gone already wherever the helper works.
            pidfd_send_signal(pidfd, Signal::KILL).ok();
        }
    }
}

/// How many of them live; `None` when that cannot be told of one.
pub(super) fn count_alive(escapees: &[Escapee]) -> Option<usize> {
    let lives: Option<Vec<bool>> = escapees.iter().map(Escapee::lives).collect();
    lives.map(|lives| lives.into_iter().filter(|lives| *lives).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::waiting_child::WaitingChild;

    fn escapee(child: &WaitingChild) -> Escapee {
        Escapee::of(u32::try_from(child.pid().as_raw_nonzero().get()).expect("a pid is positive"))
    }

    #[test]
    fn it_lives_until_it_ends_and_is_not_taken_for_another() {
        let child = WaitingChild::start().expect("a child");
        let mut escapee = escapee(&child);
        assert_eq!(escapee.lives(), Some(true));
        escapee.start_ticks = escapee.start_ticks.map(|ticks| ticks + 1);
        assert_eq!(
            escapee.lives(),
            Some(false),
            "another process with its number"
        );
        drop(child);
        assert_eq!(escapee.lives(), Some(false));
    }

    #[test]
    fn one_that_was_never_seen_is_unknown_and_makes_the_count_unknown() {
        let child = WaitingChild::start().expect("a child");
        let seen = escapee(&child);
        let unseen = Escapee {
            pid: seen.pid,
            start_ticks: None,
            pidfd: None,
        };
        assert_eq!(unseen.lives(), None);
        assert_eq!(count_alive(&[seen, unseen]), None);
    }

    #[test]
    fn dropping_ends_what_still_lives() {
        use std::os::unix::process::ExitStatusExt;

        let mut child = WaitingChild::start().expect("a child");
        let escapee = escapee(&child);
        if escapee.pidfd.is_none() {
            println!("skipped: this kernel has no process descriptors");
            return;
        }
        drop(escapee);
        let status = child.reap().expect("it ended");
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    }
}
