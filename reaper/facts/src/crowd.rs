//! How many want the processor.

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
    fn whoever_asks_is_running() {
        assert!(runnable().is_some_and(|runnable| runnable > 0));
    }
}
