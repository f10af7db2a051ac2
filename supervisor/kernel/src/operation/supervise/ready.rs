//! The one place where an operation sleeps: on its helper, its pipes, its mailbox and the clock.

use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};

use super::Supervision;
use crate::deadline::timespec_until;

/// What is waited for.
enum Source {
    Control,
    Link,
    Root,
    Bell,
    Limits,
    Pipe(usize),
}

/// What of it has something to say.
#[derive(Default)]
pub(super) struct Ready {
    pub(super) control: bool,
    pub(super) link: bool,
    pub(super) root: bool,
    pub(super) limits: bool,
    pub(super) pipes: [bool; 2],
}

impl Supervision<'_> {
    /// Sleeps until something happens, or until `due`.
    pub(super) fn wait(&self, due: Option<Instant>) -> Ready {
        let mut polled = Vec::with_capacity(5);
        let mut sources = Vec::with_capacity(5);
        let mut watch = |source, fd, flags| {
            sources.push(source);
            polled.push(PollFd::from_borrowed_fd(fd, flags));
        };
        watch(Source::Control, self.control.as_fd(), PollFlags::IN);
        if self.ending.is_none() {
            let writing = self.link.wants_to_write();
            let wanted = if writing {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            watch(Source::Link, self.link.as_fd(), wanted);
            if let (true, Some(pidfd)) = (self.root_watched, &self.root_pidfd) {
                watch(Source::Root, pidfd.as_fd(), PollFlags::IN);
            }
            if let Some(events) = self.limit_events() {
                watch(Source::Limits, events, PollFlags::IN);
            }
        }
        if let (Some(_), None, Some(bell)) = (self.timeout_at, &self.ending, &self.timeout_bell) {
            watch(Source::Bell, bell.as_fd(), PollFlags::IN);
        }
        for (at, drain) in self.drains.iter().enumerate() {
            if let Some(pipe) = drain.pipe()
                && !drain.is_held_up(self.feeds)
            {
                watch(Source::Pipe(at), pipe, PollFlags::IN);
            }
        }
        // Interrupted, or refused for lack of memory: every descriptor is looked at, none blocks.
        let failed = poll(&mut polled, timespec_until(due).as_ref()).is_err();
        let mut ready = Ready {
            link: self.more_replies,
            ..Ready::default()
        };
        for (source, polled) in sources.into_iter().zip(&polled) {
            if polled.revents().is_empty() && !failed {
                continue;
            }
            match source {
                Source::Control => ready.control = true,
                Source::Link => ready.link = true,
                // A failed poll says nothing of it, and there is nothing to read.
                Source::Root => ready.root = !failed,
                Source::Limits => ready.limits = true,
                // The clock is looked at in every turn.
                Source::Bell => {}
                Source::Pipe(at) => ready.pipes[at] = true,
            }
        }
        ready
    }
}
