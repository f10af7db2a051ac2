//! Ends the pid namespaces whose helpers are gone, where the kernel has not: one SIGKILL to each init.
//! Whoever else is left without a helper is `stop`'s.

use std::mem;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use xioflow_killpoint as killpoint;
use xioflow_protocol::{ProcessNote, Survivor, SurvivorEnd, WhyAlive};

use super::facts::{Attempt, Init};
use super::stop::{KILL_PATIENCE, Stopped};
use super::unfinished::Unfinished;
use super::wait::{WATCHED_MAX, wait_for_all};
use crate::observe;
use crate::result::ProcessIdentity;

/// Kills the inits of those that have one that lives, and notes what came of it.
///
/// That should have happened when their helpers died. An init that is still there is most often being
/// ended, and waits for somebody in its namespace whom no signal ends.
pub(super) fn end_inits(unfinished: &mut [&mut Unfinished]) {
    let mut to_end: Vec<&mut Unfinished> = unfinished
        .iter_mut()
        .map(|it| &mut **it)
        .filter(|it| it.observed.init == Init::Lives)
        .collect();
    let until = Instant::now() + KILL_PATIENCE;
    for some in to_end.chunks_mut(WATCHED_MAX) {
        let refused: Vec<Option<WhyAlive>> = kill_all(some, until);
        for (it, why) in some.iter_mut().zip(refused) {
            note_end(it, why.unwrap_or(WhyAlive::Unknown));
        }
    }
}

/// Kills them and waits until all are gone or the time is over; says for each why it could not be killed.
fn kill_all(these: &[&mut Unfinished], until: Instant) -> Vec<Option<WhyAlive>> {
    let mut watched = Vec::new();
    let mut refused = Vec::new();
    for it in these {
        let held = it.init().and_then(|init| observe::hold(init).ok());
        refused.push(held.and_then(|pidfd| {
            let why = kill(&pidfd);
            watched.push(pidfd);
            why
        }));
    }
    wait_for_all(watched, until);
    refused
}

fn kill(init: &OwnedFd) -> Option<WhyAlive> {
    killpoint::pass(|| "recovery:before-signal");
    let sent = pidfd_send_signal(init, Signal::KILL);
    killpoint::pass(|| "recovery:after-signal");
    (sent == Err(Errno::PERM)).then_some(WhyAlive::Permission)
}

fn note_end(unfinished: &mut Unfinished, why: WhyAlive) {
    let Some(init) = unfinished.init().cloned() else {
        return;
    };
    unfinished.look();
    let is_gone = unfinished.observed.init == Init::Gone;
    unfinished.observed.attempt = match is_gone {
        true => Attempt::Confirmed,
        false => Attempt::Unconfirmed,
    };
    let stopped = Stopped {
        attempt: unfinished.observed.attempt,
        signalled: match why {
            WhyAlive::Permission => Vec::new(),
            WhyAlive::Uninterruptible | WhyAlive::Unknown => vec![init.pid],
        },
        left: match is_gone {
            true => Vec::new(),
            false => vec![left(&init, why)],
        },
        is_of_init: true,
        ..Stopped::NOTHING
    };
    let before = mem::replace(&mut unfinished.stopped, Stopped::NOTHING);
    unfinished.stopped = before.then(stopped);
}

fn left(init: &ProcessIdentity, why: WhyAlive) -> Survivor {
    let unnamed = || ProcessNote::new(init.pid, init.start_ticks, Vec::new(), None);
    Survivor {
        process: observe::process_note(init.pid).unwrap_or_else(unnamed),
        end: SurvivorEnd::Alive(why),
    }
}
