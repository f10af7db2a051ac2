//! Ranges as people write them: `FROM-TO`, or `FROM-` for all the rest.

use std::ops::Range;

/// Parses bytes `FROM-TO`, counted from 0; the byte at TO is not part of them, so that the gap of a
/// result can be written as it stands there.
pub(crate) fn parse_bytes(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = ends(text).ok_or("write FROM-TO, such as 0-4096, or FROM-")?;
    let to = to.unwrap_or(u64::MAX);
    if from < to {
        Ok(from..to)
    } else {
        Err(format!("{text} holds no byte: TO is not part of it"))
    }
}

/// The first and the last of some lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Parses lines `A-B`, counted from 1, both part of them; `A` is one line.
pub(crate) fn parse_lines(text: &str) -> Result<Lines, String> {
    let single = text.parse().ok().map(|line| (line, Some(line)));
    let (first, last) = single
        .or_else(|| ends(text))
        .ok_or("write A-B, such as 100-110, or A-, or A")?;
    let last = last.unwrap_or(u64::MAX);
    match first {
        0 => Err("lines are counted from 1".to_owned()),
        _ if last < first => Err(format!("{text} ends before it begins")),
        _ => Ok(Lines { first, last }),
    }
}

fn ends(text: &str) -> Option<(u64, Option<u64>)> {
    let (from, to) = text.split_once('-')?;
    let to = match to {
        "" => None,
        to => Some(to.parse().ok()?),
    };
    Some((from.parse().ok()?, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_end_before_their_end() {
        assert_eq!(parse_bytes("0-4096"), Ok(0..4096));
        assert_eq!(parse_bytes("7-"), Ok(7..u64::MAX));
        for bad in ["", "-", "-5", "5", "5-5", "6-5", "a-b", "1-2-3", "0x1-2"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_begin_with_one_and_hold_both_ends() {
        let lines = |first, last| Ok(Lines { first, last });
        assert_eq!(parse_lines("3-5"), lines(3, 5));
        assert_eq!(parse_lines("3-3"), lines(3, 3));
        assert_eq!(parse_lines("3"), lines(3, 3));
        assert_eq!(parse_lines("3-"), lines(3, u64::MAX));
        for bad in ["", "0", "0-3", "5-3", "-3", "a", "1-2-3"] {
            assert!(parse_lines(bad).is_err(), "{bad}");
        }
    }
}
