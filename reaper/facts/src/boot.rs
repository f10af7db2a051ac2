//! Which boot this is, and when a process started on the wall clock.

use alloc::vec::Vec;
use core::str;

use crate::CannotTell;
use crate::path::proc_path;
use crate::read::{read_short, read_whole};

/// Clock ticks in a second as `/proc` counts them (`USER_HZ`); 100 on every architecture we know.
const TICKS_PER_SECOND: u64 = 100;

/// The id of this boot: `/proc/sys/kernel/random/boot_id` without its dashes.
///
/// # Errors
/// [`CannotTell`] when the file cannot be read or is no UUID.
pub fn boot_id() -> Result<[u8; 16], CannotTell> {
    let path = proc_path!("/proc/sys/kernel/random/boot_id");
    let mut text = [0; 64];
    let text = read_short(&path, &mut text).map_err(CannotTell::unreadable(path))?;
    parse_uuid(text).ok_or(CannotTell::Malformed { path })
}

fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut id = [0; 16];
    let mut digits = text.trim_ascii().iter().filter(|&&byte| byte != b'-');
    let mut digit = || {
        char::from(*digits.next()?)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    for byte in &mut id {
        *byte = digit()? << 4 | digit()?;
    }
    digits.next().is_none().then_some(id)
}

/// When the machine was started: seconds since 1970, `btime` of `/proc/stat`.
///
/// It moves when the wall clock is set. For people, never for decisions.
///
/// # Errors
/// [`CannotTell`] when the file cannot be read or has no such line.
pub fn boot_time_s() -> Result<u64, CannotTell> {
    let path = proc_path!("/proc/stat");
    let mut text = Vec::new();
    read_whole(&path, &mut text).map_err(CannotTell::unreadable(path))?;
    parse_boot_time(&text).ok_or(CannotTell::Malformed { path })
}

fn parse_boot_time(text: &[u8]) -> Option<u64> {
    let value = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"btime "))?;
    str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
}

/// When a process started, as milliseconds since 1970, from its start time in ticks after boot.
///
/// # Errors
/// [`CannotTell`] when the boot time cannot be had.
pub fn started_at_ms(start_ticks: u64) -> Result<u64, CannotTell> {
    let ticks_ms = start_ticks.saturating_mul(1000 / TICKS_PER_SECOND);
    Ok(boot_time_s()?.saturating_mul(1000).saturating_add(ticks_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_sixteen_bytes() {
        let id = parse_uuid(b"01234567-89ab-cdef-0123-456789abcdef\n").expect("a uuid");
        assert_eq!(id[..4], [0x01, 0x23, 0x45, 0x67]);
        assert_eq!(id[15], 0xef);
        for wrong in [
            &b""[..],
            b"0123",
            b"01234567-89ab-cdef-0123-456789abcdef0",
            b"zz",
        ] {
            assert_eq!(parse_uuid(wrong), None);
        }
    }

    #[test]
    fn this_boot_has_an_id_that_stays() {
        let id = boot_id().expect("readable");
        assert_ne!(id, [0; 16]);
        assert_eq!(boot_id(), Ok(id));
    }

    #[test]
    fn the_boot_time_is_one_line_among_others() {
        assert_eq!(
            parse_boot_time(b"cpu 1 2\nbtime 1700000000\nprocesses 3\n"),
            Some(1_700_000_000)
        );
        assert_eq!(parse_boot_time(b"cpu 1 2\n"), None);
        assert_eq!(parse_boot_time(b"btime soon\n"), None);
    }

    #[test]
    fn this_process_started_between_boot_and_now() {
        let mut line = crate::StatLine::new();
        let stat = crate::read_stat(std::process::id(), &mut line)
            .expect("readable")
            .expect("us");
        let started = started_at_ms(stat.start_ticks).expect("known");
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("now");
        assert!(started >= boot_time_s().expect("known") * 1000);
        assert!(u128::from(started) <= now.as_millis() + 1000);
    }
}
