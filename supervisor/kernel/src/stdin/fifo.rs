//! The wait for the first writer of a FIFO, which open(2) would do where nothing could end it.
//!
//! poll(2) reports a FIFO once something was written or a writer has gone. A writer that is there
//! and silent is what it does not show, so that is asked for with tee(2), each time somebody has
//! opened the FIFO: a command and its writer may each wait for the other to speak first.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};

use super::NotOpened;
use crate::control::Control;
use crate::deadline::{bell, timespec_until};

/// Waits until the FIFO has, or has had, a writer.
pub(super) fn wait_for_writer(
    fifo: &OwnedFd,
    path: &Path,
    control: &Control,
    until: Option<Instant>,
) -> Result<(), NotOpened> {
    // Before the first look, so that no writer comes in between.
    let opened = watch_opening(path);
    let scratch = pipe_with(PipeFlags::CLOEXEC)?;
    let bell = until.and_then(|until| bell(until.saturating_duration_since(Instant::now())));
    let wakers = [opened.as_ref(), bell.as_ref()];
    loop {
        control.clear_wake();
        if control.stop_wish().is_some() {
            return Err(NotOpened::Cancelled);
        }
        if let Some(opened) = &opened {
            forget(opened);
        }
        if has_writer(fifo, &scratch.1)? {
            // Other wishes than to stop are still in the mailbox, for whoever reads it next.
            control.nudge();
            return Ok(());
        }
        if until.is_some_and(|until| until <= Instant::now()) {
            return Err(NotOpened::TimedOut);
        }
        sleep(fifo, control, wakers, until)?;
    }
}

/// A descriptor that is readable when somebody has opened the FIFO. Without one (inotify has
/// limits of its own) a silent writer is noticed when it first writes or leaves.
fn watch_opening(path: &Path) -> Option<OwnedFd> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
    inotify::add_watch(&watch, path, WatchFlags::OPEN).ok()?;
    Some(watch)
}

fn forget(opened: &OwnedFd) {
    let mut events = [0; 4096];
    while rustix::io::read(opened, &mut events).is_ok_and(|len| len > 0) {}
}

fn has_writer(fifo: &OwnedFd, scratch: &OwnedFd) -> Result<bool, NotOpened> {
    // tee(2) takes nothing out of the FIFO.
    match tee(fifo, scratch, 1, SpliceFlags::NONBLOCK) {
        // One is there and has written nothing yet.
        Err(Errno::AGAIN) => Ok(true),
        Ok(1..) => Ok(true),
        // None is there; one that came and went has left a hang-up.
        Ok(0) => {
            let mut polled = [PollFd::new(fifo, PollFlags::IN)];
            poll(&mut polled, Some(&NOT_AT_ALL))?;
            Ok(!polled[0].revents().is_empty())
        }
        Err(errno) => Err(errno.into()),
    }
}

const NOT_AT_ALL: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

fn sleep(
    fifo: &OwnedFd,
    control: &Control,
    wakers: [Option<&OwnedFd>; 2],
    until: Option<Instant>,
) -> Result<(), NotOpened> {
    let wakers = wakers.into_iter().flatten().map(AsFd::as_fd);
    let watched = [fifo.as_fd(), control.as_fd()].into_iter().chain(wakers);
    let mut polled: Vec<_> = watched
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, timespec_until(until).as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
