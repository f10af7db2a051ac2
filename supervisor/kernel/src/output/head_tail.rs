//! Keeps the beginning and the end of a stream within a limit. Pure.

use std::collections::VecDeque;

/// Below this limit there is no room for a marker; only the beginning is kept then.
const MARKED_LIMIT_MIN: usize = 80;

/// The beginning gets three of four bytes.
const HEAD_SHARE: (usize, usize) = (3, 4);

/// Head and tail of a stream.
#[derive(Debug)]
pub(crate) struct HeadTail {
    limit: usize,
    head_max: usize,
    tail_max: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// What is kept of a stream, as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The bytes; with a marker in the middle when some are missing.
    pub(crate) bytes: Vec<u8>,
    /// Whether some are missing.
    pub(crate) truncated: bool,
}

impl HeadTail {
    /// Makes one that keeps at most `limit` bytes, marker included.
    pub(crate) fn new(limit: usize) -> Self {
        let head_max = if limit < MARKED_LIMIT_MIN {
            limit
        } else {
            limit / HEAD_SHARE.1 * HEAD_SHARE.0
        };
        Self {
            limit,
            head_max,
            tail_max: limit - head_max,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (to_head, rest) = bytes.split_at(bytes.len().min(self.head_max - self.head.len()));
        self.head.extend_from_slice(to_head);
        let tail_max = self.tail_max;
        // Only the last bytes of a long piece can be part of the tail.
        let rest = &rest[rest.len().saturating_sub(tail_max)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(tail_max);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// How many bytes of a stream of `len` bytes are not needed once the first ones are in: the
    /// offset to go on at. For reading a stored stream without reading all of it.
    pub(crate) fn resume_at(&self, len: u64) -> u64 {
        len.saturating_sub(self.tail_max as u64).max(self.total)
    }

    /// Counts bytes that nobody looked at. What comes after them is no part of the beginning, and
    /// what came before them is no part of the end.
    pub(crate) fn skip(&mut self, count: u64) {
        if count > 0 {
            self.head_max = self.head.len();
            self.tail.clear();
        }
        self.total += count;
    }

    /// How many bytes the head takes.
    pub(crate) fn head_max(&self) -> usize {
        self.head_max
    }

    /// How many bytes the stream had.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Joins what was kept. The result is never longer than the limit, and cut only between
    /// UTF-8 characters, so that no replacement character appears that was not printed.
    pub(crate) fn finish(self) -> Kept {
        let Self {
            limit,
            mut head,
            tail,
            total,
            ..
        } = self;
        let mut tail = Vec::from(tail);
        if total == (head.len() + tail.len()) as u64 {
            head.append(&mut tail);
            return Kept {
                bytes: head,
                truncated: false,
            };
        }
        if limit < MARKED_LIMIT_MIN {
            head.truncate(whole_characters(&head));
            return Kept {
                bytes: head,
                truncated: true,
            };
        }
        // The number of missing bytes is at most the total, so this marker is the longest.
        let room = limit.saturating_sub(marker(total).len());
        head.truncate((room / HEAD_SHARE.1 * HEAD_SHARE.0).min(head.len()));
        head.truncate(whole_characters(&head));
        let tail_len = tail.len().min(room - head.len());
        tail.drain(..tail.len() - tail_len);
        tail.drain(..continuation_bytes(&tail));
        let missing = total - (head.len() + tail.len()) as u64;
        head.extend_from_slice(marker(missing).as_bytes());
        head.append(&mut tail);
        Kept {
            bytes: head,
            truncated: true,
        }
    }
}

fn marker(missing: u64) -> String {
    format!("\n[... truncated {missing} bytes ...]\n")
}

/// Length of `bytes` without a character at its end that is cut off.
fn whole_characters(bytes: &[u8]) -> usize {
    let lookback = bytes.len().saturating_sub(3);
    for at in (lookback..bytes.len()).rev() {
        let expected = match bytes[at] {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return bytes.len(),
        };
        return if bytes.len() - at < expected {
            at
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

/// How many bytes at the beginning belong to a character that is cut off; at most three.
fn continuation_bytes(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|byte| matches!(byte, 0x80..=0xBF))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keep(limit: usize, pieces: &[&[u8]]) -> Kept {
        let mut kept = HeadTail::new(limit);
        for piece in pieces {
            kept.push(piece);
        }
        kept.finish()
    }

    #[test]
    fn what_fits_is_whole() {
        let text = vec![b'x'; 100];
        assert_eq!(
            keep(100, &[&text]),
            Kept {
                bytes: text,
                truncated: false
            }
        );
    }

    /// Every limit up to where nothing changes any more, and every length around it.
    #[test]
    fn no_limit_is_ever_exceeded_and_nothing_that_fits_is_cut() {
        for limit in 0..300 {
            for len in 0..limit * 2 + 40 {
                let all: Vec<u8> = (0..len).map(|at| b"abcdefg\n"[at % 8]).collect();
                let (one, other) = all.split_at(len / 3);
                let kept = keep(limit, &[one, other]);
                assert!(kept.bytes.len() <= limit, "{len} bytes, limit {limit}");
                assert_eq!(kept.truncated, len > limit);
                if len <= limit {
                    assert_eq!(kept.bytes, all);
                } else if limit < MARKED_LIMIT_MIN {
                    assert_eq!(kept.bytes, all[..limit]);
                } else {
                    let text = String::from_utf8(kept.bytes).unwrap();
                    let (_, rest) = text.split_once("\n[... truncated ").expect("a marker");
                    let (missing, _) = rest.split_once(" bytes ...]\n").expect("its end");
                    let own = text.len() - marker(missing.parse().unwrap()).len();
                    assert_eq!(own + missing.parse::<usize>().unwrap(), len);
                }
            }
        }
    }

    #[test]
    fn one_byte_more_than_the_limit_is_marked() {
        let kept = keep(100, &[&[b'x'; 101]]);
        assert!(kept.truncated);
        assert!(kept.bytes.len() <= 100);
        let text = String::from_utf8(kept.bytes).unwrap();
        let printed = text.matches('x').count();
        assert!(
            text.contains(&format!("truncated {} bytes", 101 - printed)),
            "{text}"
        );
    }

    #[test]
    fn a_limit_of_zero_keeps_nothing() {
        assert_eq!(
            keep(0, &[b"abc"]),
            Kept {
                bytes: Vec::new(),
                truncated: true
            }
        );
        assert_eq!(
            keep(0, &[]),
            Kept {
                bytes: Vec::new(),
                truncated: false
            }
        );
    }

    #[test]
    fn bytes_that_never_were_text_are_not_dropped() {
        let kept = keep(10, &[&[0xFF; 10]]);
        assert_eq!(kept.bytes, vec![0xFF; 10]);
    }

    proptest! {
        #[test]
        fn never_longer_than_the_limit(
            limit in prop_oneof![0usize..600, 600usize..100_000],
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                prop::collection::vec(any::<u8>(), 0..40_000),
            ], 0..8),
        ) {
            let all: Vec<u8> = pieces.concat();
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let kept = keep(limit, &slices);
            prop_assert!(kept.bytes.len() <= limit);
            prop_assert_eq!(kept.truncated, all.len() > limit);
            if !kept.truncated {
                prop_assert_eq!(kept.bytes, all);
            }
        }

        /// The whole of what it promises, said over all bytes at once: a beginning of the stream, a
        /// marker with the exact number of bytes that are missing, an end of the stream.
        #[test]
        fn it_is_what_a_simple_model_keeps(
            limit in 80usize..400,
            pieces in prop::collection::vec("[a-z€\u{80}-\u{ff}]{0,100}", 0..9),
        ) {
            let all = pieces.concat();
            let all = all.as_bytes();
            let slices: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            let kept = keep(limit, &slices);
            if all.len() <= limit {
                prop_assert_eq!(kept.bytes, all);
                return Ok(());
            }
            let text = String::from_utf8(kept.bytes).expect("no character is cut");
            let (head, rest) = text.split_once("\n[... truncated ").expect("a marker");
            let (missing, tail) = rest.split_once(" bytes ...]\n").expect("its end");
            let missing: usize = missing.parse().expect("a number");
            prop_assert!(all.starts_with(head.as_bytes()));
            prop_assert!(all.ends_with(tail.as_bytes()));
            prop_assert_eq!(head.len() + missing + tail.len(), all.len());
            // Not less than it could: a marker is at most 60 bytes, a character at most four, and
            // both parts are rounded to quarters.
            prop_assert!(text.len() + 60 + 2 * 4 + 4 > limit, "{} of {limit}", text.len());
        }

        /// A stored stream is read back by its two ends only, and must not differ from a live one.
        #[test]
        fn skipping_the_middle_makes_no_difference(
            limit in 0usize..300,
            bytes in prop::collection::vec(any::<u8>(), 0..900),
        ) {
            let live = keep(limit, &[&bytes]);
            let mut stored = HeadTail::new(limit);
            let len = bytes.len() as u64;
            let head = bytes.len().min(stored.head_max());
            stored.push(&bytes[..head]);
            let from = stored.resume_at(len);
            stored.skip(from - stored.total());
            stored.push(&bytes[usize::try_from(from).unwrap()..]);
            prop_assert_eq!(stored.finish(), live);
        }

        #[test]
        fn text_stays_text(limit in 80usize..400, text in "[a-zä€😀]{0,300}", cut in 1usize..9) {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
            let kept = keep(limit, &pieces);
            let kept = String::from_utf8(kept.bytes).expect("no character is cut");
            prop_assert!(!kept.contains(char::REPLACEMENT_CHARACTER));
        }
    }
}
