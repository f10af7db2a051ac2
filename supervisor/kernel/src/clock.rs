//! Clocks, one for each purpose. Wall clock for people and records, as text and as milliseconds:
//! no decision rests on it. Deadlines are `Instant`s, which stand still while the machine sleeps;
//! that it slept, or that nobody was there to look at a deadline, is noted in [`Gaps`].

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Clock ticks a second in `/proc`: fixed at 100 on every architecture we run on (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// This instant, RFC 3339 with milliseconds.
pub(crate) fn now_text() -> String {
    text(SystemTime::now())
}

/// An instant, RFC 3339 with milliseconds.
pub(crate) fn text(instant: SystemTime) -> String {
    humantime::format_rfc3339_millis(instant).to_string()
}

/// This instant in milliseconds since 1970; 0 if the clock is set before that.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// When a process started that did so `ticks` after boot; null if the clock is set before 1970.
pub(crate) fn start_text(ticks: u64) -> Option<String> {
    static BOOT: OnceLock<Option<SystemTime>> = OnceLock::new();
    let boot = (*BOOT.get_or_init(boot_instant))?;
    let since_boot = Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND));
    boot.checked_add(since_boot).map(text)
}

fn boot_instant() -> Option<SystemTime> {
    SystemTime::now().checked_sub(read(ClockId::Boottime)?)
}

fn read(clock: ClockId) -> Option<Duration> {
    let read = clock_gettime(clock);
    Some(Duration::new(
        u64::try_from(read.tv_sec).ok()?,
        u32::try_from(read.tv_nsec).ok()?,
    ))
}

/// Gaps shorter than this are those of every busy machine.
const GAP_MIN: Duration = Duration::from_secs(1);

/// Time in which a supervisor should have looked and did not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gaps {
    slept_at_begin: Option<Duration>,
    slept: Option<Duration>,
    late: Duration,
}

impl Gaps {
    /// Begins to look.
    pub(crate) fn begin() -> Self {
        Self {
            slept_at_begin: slept(),
            slept: None,
            late: Duration::ZERO,
        }
    }

    /// Something was due at this time, and it is looked at now.
    pub(crate) fn note(&mut self, due: Option<Instant>, now: Instant) {
        let late = due.map(|due| now.saturating_duration_since(due));
        self.late = self.late.max(late.unwrap_or_default());
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.slept = slept();
    }

    /// By how much the worst look was late, in milliseconds, if that is a gap.
    pub(crate) fn late_ms(&self) -> Option<u64> {
        gap_ms(self.late)
    }

    /// How long the machine slept from beginning to end, in milliseconds, if that is a gap.
    pub(crate) fn suspended_ms(&self) -> Option<u64> {
        gap_ms(self.slept?.checked_sub(self.slept_at_begin?)?)
    }
}

fn gap_ms(gap: Duration) -> Option<u64> {
    let gap = (gap >= GAP_MIN).then_some(gap)?;
    u64::try_from(gap.as_millis()).ok()
}

/// How long the machine has slept since it was booted: what one clock counts and the other does
/// not (clock_gettime(2)). The order of the two makes that never too much.
fn slept() -> Option<Duration> {
    let with_sleep = read(ClockId::Boottime)?;
    Some(with_sleep.saturating_sub(read(ClockId::Monotonic)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_lateness_counts_from_a_second_on() {
        let mut gaps = Gaps::begin();
        let due = Instant::now();
        gaps.note(None, due);
        gaps.note(Some(due), due + Duration::from_millis(999));
        gaps.end();
        assert_eq!(gaps.late_ms(), None);
        gaps.note(Some(due), due + Duration::from_millis(1500));
        gaps.note(Some(due + GAP_MIN), due);
        assert_eq!(gaps.late_ms(), Some(1500));
        assert_eq!(gaps.suspended_ms(), None, "this machine is awake");
    }

    #[test]
    fn a_process_started_before_now_and_after_boot() {
        let started = start_text(0).expect("the clock is set");
        assert!(started < now_text(), "boot at {started}");
        assert!(start_text(100) > start_text(0));
    }
}
