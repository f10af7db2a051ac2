//! Wall clock for people and records, as text and as milliseconds. No decision rests on it;
//! deadlines are `Instant`s.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(
        u64::try_from(up.tv_sec).ok()?,
        u32::try_from(up.tv_nsec).ok()?,
    );
    SystemTime::now().checked_sub(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_started_before_now_and_after_boot() {
        let started = start_text(0).expect("the clock is set");
        assert!(started < now_text(), "boot at {started}");
        assert!(start_text(100) > start_text(0));
    }
}
