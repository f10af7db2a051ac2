//! Deadlines as poll(2) wants them.

use std::time::{Duration, Instant};

use rustix::event::Timespec;

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

/// The earlier of two deadlines, where none is never.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
