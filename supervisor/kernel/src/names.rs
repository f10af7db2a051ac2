//! Names for numbers: signals and errors, spelled as in the man pages; and new ids.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::signal::Signal;

/// First real-time signal that programs may use under glibc.
const SIGRTMIN: i32 = 34;

/// The name of a signal, such as `SIGKILL`.
#[must_use]
pub fn signal_name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) if number >= SIGRTMIN => format!("SIGRTMIN+{}", number - SIGRTMIN),
        Err(_) => format!("SIG{number}"),
    }
}

/// The number of a signal with this name, as [`signal_name`] writes it.
#[must_use]
pub fn signal_number(name: &str) -> Option<i32> {
    (1..=64).find(|number| signal_name(*number) == name)
}

/// The name of an error number, such as `ENOENT`.
#[must_use]
pub fn errno_name(number: i32) -> String {
    match Errno::from_raw(number) {
        Errno::UnknownErrno => format!("errno {number}"),
        known => format!("{known:?}"),
    }
}

/// What an error number means, in words.
#[must_use]
pub fn errno_text(number: i32) -> &'static str {
    Errno::from_raw(number).desc()
}

/// A new id: sorted by time, unique beyond doubt in one domain.
pub(crate) fn new_id(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(
        "{prefix}-{:x}-{:x}-{count:x}",
        crate::clock::now_ms(),
        process_nonce()
    )
}

/// A number that no other process of this boot has: two supervisors may make ids in one
/// millisecond.
fn process_nonce() -> u64 {
    static NONCE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *NONCE.get_or_init(|| {
        use std::hash::{BuildHasher, Hasher};
        // RandomState is seeded by the system's random numbers.
        let mut hasher = std::hash::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.finish() & 0xFFFF_FFFF
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_man_pages() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(36), "SIGRTMIN+2");
        assert_eq!(signal_number("SIGTERM"), Some(15));
        assert_eq!(signal_number("SIGNONE"), None);
        assert_eq!(errno_name(2), "ENOENT");
        assert_eq!(errno_name(4095), "errno 4095");
    }

    #[test]
    fn ids_differ() {
        assert_ne!(new_id("op"), new_id("op"));
    }
}
