//! Clocks.

use core::time::Duration;

use linux_raw_sys::general as raw;

/// Which clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Counts steadily while the machine is awake; for deadlines.
    Monotonic,
    /// Seconds since 1970; for people, never for decisions.
    Wall,
}

/// What the clock says.
#[must_use]
pub fn now(clock: Clock) -> Duration {
    let id = match clock {
        Clock::Monotonic => raw::CLOCK_MONOTONIC,
        Clock::Wall => raw::CLOCK_REALTIME,
    };
    let mut time = raw::__kernel_timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills one timespec, which is local and outlives the call.
    let answer = unsafe { call!(clock_gettime, id, &raw mut time) };
    debug_assert!(answer.is_ok(), "both clocks exist on every Linux");
    // A wall clock before 1970 reads as 1970.
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
