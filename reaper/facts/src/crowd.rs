//! How many processors there are, and how many want one.

use alloc::vec::Vec;
use core::str;

use crate::path::proc_path;
use crate::read::read_whole;

/// How many threads of the whole system are running or waiting for a processor, from `/proc/loadavg`;
/// `None` when that cannot be told.
#[must_use]
pub fn runnable() -> Option<u32> {
    let mut text = Vec::new();
    read_whole(&proc_path!("/proc/loadavg"), &mut text).ok()?;
    parse(&text)
}

/// How many processors the system has in use now, from `/proc/stat`; `None` when that cannot be told.
#[must_use]
pub fn processors() -> Option<u32> {
    let mut text = Vec::new();
    read_whole(&proc_path!("/proc/stat"), &mut text).ok()?;
    count_processors(&text)
}

/// A line `cpuN` for each that is on, see proc_stat(5).
fn count_processors(text: &[u8]) -> Option<u32> {
    let lines = text.split(|&byte| byte == b'\n');
    let of_one = |line: &&[u8]| {
        line.strip_prefix(b"cpu")
            .is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
    };
    let count = u32::try_from(lines.filter(of_one).count()).ok()?;
    (count > 0).then_some(count)
}

/// The fourth word is `runnable/all`, see proc_loadavg(5).
fn parse(text: &[u8]) -> Option<u32> {
    let word = str::from_utf8(text).ok()?.split_ascii_whitespace().nth(3)?;
    word.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_word_counts() {
        assert_eq!(parse(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        for none in [
            &b""[..],
            b"0.20 0.18 0.12",
            b"0.20 0.18 0.12 3 80",
            b"a b c d/e",
        ] {
            assert_eq!(parse(none), None);
        }
    }

    #[test]
    fn processors_are_lines() {
        let text = b"cpu  1 2\ncpu0 1 2\ncpu13 1 2\nintr 7\n";
        assert_eq!(count_processors(text), Some(2));
        assert_eq!(count_processors(b"cpu  1 2\n"), None);
        assert!(processors().is_some_and(|count| count > 0));
    }

    #[test]
    fn whoever_asks_is_running() {
        assert!(runnable().is_some_and(|runnable| runnable > 0));
    }
}
