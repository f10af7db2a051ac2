//! Waits for processes to end: all of them within one time, on their descriptors.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};

use crate::deadline::timespec_until;
use crate::observe;
use crate::result::ProcessIdentity;

/// How long helpers may still take to end their trees, all together. The ladder of one is shorter, and
/// they work side by side.
pub(super) const HOLDER_PATIENCE: Duration = Duration::from_secs(15);

/// Descriptors that are watched at once; a process has 1024 by default, and needs others.
pub(super) const WATCHED_MAX: usize = 256;

/// Waits until each of these processes has ended, or the time is over.
pub(super) fn wait_for_all(mut pidfds: Vec<OwnedFd>, until: Instant) {
    while !pidfds.is_empty() {
        let mut polled: Vec<_> = pidfds
            .iter()
            .map(|pidfd| PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN))
            .collect();
        // An interrupted wait only looks again.
        let ready = poll(&mut polled, timespec_until(Some(until)).as_ref());
        let ended: Vec<bool> = polled.iter().map(|it| !it.revents().is_empty()).collect();
        drop(polled);
        let mut ended = ended.into_iter();
        pidfds.retain(|_| !ended.next().unwrap_or(false));
        if ready == Ok(0) || Instant::now() >= until {
            return;
        }
    }
}

/// Gives helpers that live the rest of the time to end their trees and to write their last words.
///
/// One that was stopped, by the command that it holds for instance, is continued first. One that runs takes
/// no notice.
pub(super) fn wait_for_holders(holders: &[&ProcessIdentity], until: Instant) {
    for some in holders.chunks(WATCHED_MAX) {
        let pidfds: Vec<OwnedFd> = some
            .iter()
            .filter_map(|it| observe::hold(it).ok())
            .collect();
        for pidfd in &pidfds {
            // It has ended, or cannot be signalled: both come out at the look that follows.
            pidfd_send_signal(pidfd, Signal::CONT).ok();
        }
        wait_for_all(pidfds, until);
    }
}

/// How long the kernel may take to end namespaces whose helpers are gone, all together. It takes
/// milliseconds, unless somebody in one cannot be ended, or is not waited for.
const INIT_PATIENCE: Duration = Duration::from_secs(2);

/// Waits for the end of inits whose helpers are gone.
pub(super) fn wait_for_inits(inits: &[&ProcessIdentity]) {
    let until = Instant::now() + INIT_PATIENCE;
    for some in inits.chunks(WATCHED_MAX) {
        let pidfds = some.iter().filter_map(|it| observe::hold(it).ok());
        wait_for_all(pidfds.collect(), until);
    }
}
