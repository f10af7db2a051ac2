//! Deadlines as poll(2) wants them, and waits that are known by their length.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// The time until `deadline` for poll(2): none means to wait without end.
pub(crate) fn timespec_until(deadline: Option<Instant>) -> Option<Timespec> {
    deadline.map(|deadline| timespec(deadline.saturating_duration_since(Instant::now())))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// A descriptor that becomes readable once so much time has passed.
///
/// A poll(2) that was interrupted by SIGSTOP goes on, after SIGCONT, with what was left of its time:
/// its deadline moves by as long as the process stood still. This one does not. `None` if there can be
/// no timer (no memory, too many open files): the time of the poll is all there is then.
pub(crate) fn bell(after: Duration) -> Option<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok()?;
    let once = Itimerspec {
        it_interval: timespec(Duration::ZERO),
        // Zero would be never.
        it_value: timespec(after.max(Duration::from_nanos(1))),
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once).ok()?;
    Some(timer)
}

/// The earlier of two deadlines, where none is never.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// How long something is waited for, whatever else comes meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    until: Option<Instant>,
    length: Duration,
}

impl Patience {
    /// Begins to wait. A length that no clock reaches is a wait without end.
    pub(crate) fn new(length: Duration) -> Self {
        Self {
            until: Instant::now().checked_add(length),
            length,
        }
    }

    /// When it is over; none is never.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    /// How long was waited once it is over, in milliseconds.
    pub(crate) fn length_ms(&self) -> u64 {
        u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX)
    }
}
