//! Finds lines in a stored stream: forwards from its beginning, backwards from its end, a block at
//! a time. Nothing is kept but the place.

use std::ops::Range;

use memchr::{memchr_iter, memrchr_iter};

use super::stored::{Extent, OutputError, OutputReader};

/// What is searched at once.
const BLOCK_LEN: usize = 256 * 1024;

/// A place in the stream, and the number of the line it is in.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: u64,
    line: u64,
}

/// Where a line begins.
enum LineStart {
    At(Place),
    /// Somewhere in the part that is not stored.
    Missing(Range<u64>),
    /// The stream has fewer lines.
    End(u64),
}

impl OutputReader {
    /// Finds the lines `first` to `last`, counted from 1, as offsets of the stream: from the
    /// beginning of the first to behind the end of the last. Empty if the stream has fewer lines.
    ///
    /// Reads the stream up to there. A line that begins or ends where nothing is stored is taken as
    /// the whole missing part.
    ///
    /// # Errors
    /// Those of [`OutputReader::read_at`].
    pub fn lines(&self, first: u64, last: u64) -> Result<Range<u64>, OutputError> {
        let top = Place { at: 0, line: 1 };
        let (from, place) = match self.line_start(top, first)? {
            LineStart::At(place) => (place.at, place),
            LineStart::Missing(part) => (part.start, top),
            LineStart::End(len) => return Ok(len..len),
        };
        let to = match self.line_start(place, last.max(first).saturating_add(1))? {
            LineStart::At(place) => place.at,
            LineStart::Missing(part) => part.end,
            LineStart::End(len) => len,
        };
        Ok(from..to)
    }

    /// Finds where the last `count` lines begin, as an offset of the stream.
    ///
    /// Reads the stream backwards up to there. How many lines a missing part had is not known from
    /// this side of it: if so many do not stand behind it, it begins with that part.
    ///
    /// # Errors
    /// Those of [`OutputReader::read_at`].
    pub fn tail(&self, count: u64) -> Result<u64, OutputError> {
        let len = self.len()?;
        let mut left = usize::try_from(count).unwrap_or(usize::MAX);
        let stored_from = self.stored_from(len)?;
        let mut buffer = vec![0; BLOCK_LEN];
        let mut end = len;
        while end > stored_from && left > 0 {
            let block_len = (end - stored_from).min(BLOCK_LEN as u64);
            let begin = end - block_len;
            let block = &mut buffer[..usize::try_from(block_len).unwrap_or(BLOCK_LEN)];
            self.read_exact_at(begin, block)?;
            // An end of line at the very end is the last line's own.
            let own = usize::from(end == len && block.ends_with(b"\n"));
            let searched = &block[..block.len() - own];
            let mut found = memrchr_iter(b'\n', searched);
            match found.nth(left - 1) {
                Some(at) => return Ok(begin + at as u64 + 1),
                None => left -= memchr_iter(b'\n', searched).count(),
            }
            end = begin;
        }
        match (left, self.gap()) {
            (0, _) => Ok(len),
            (_, Some(gap)) => Ok(gap.from),
            (_, None) => Ok(0),
        }
    }

    /// Where the stored part begins that ends at `len`.
    fn stored_from(&self, len: u64) -> Result<u64, OutputError> {
        match (self.gap(), self.extent(0)?) {
            (Some(gap), _) => Ok(gap.to),
            (None, Extent::Missing { .. }) => Ok(len),
            (None, _) => Ok(0),
        }
    }

    fn line_start(&self, from: Place, line: u64) -> Result<LineStart, OutputError> {
        let mut buffer = vec![0; BLOCK_LEN];
        let mut place = from;
        while place.line < line {
            match self.extent(place.at)? {
                Extent::End => return Ok(LineStart::End(place.at)),
                Extent::Missing { to } => {
                    let gap = place.at..to;
                    match self.line_after(place.line, to)? {
                        Some(after) if after < line => {
                            place = Place {
                                at: to,
                                line: after,
                            }
                        }
                        _ => return Ok(LineStart::Missing(gap)),
                    }
                }
                Extent::Stored { .. } => {
                    let len = self.read_at(place.at, &mut buffer)?;
                    place.skip(&buffer[..len], line);
                }
            }
        }
        match self.extent(place.at)? {
            Extent::End => Ok(LineStart::End(place.at)),
            _ => Ok(LineStart::At(place)),
        }
    }

    /// The number of the line that goes on behind the missing part, which ends at `to`: known if
    /// all lines were counted when they were printed.
    fn line_after(&self, before: u64, to: u64) -> Result<Option<u64>, OutputError> {
        let Some(total) = self.line_count() else {
            return Ok(None);
        };
        let mut buffer = vec![0; BLOCK_LEN];
        let (mut at, mut ended, mut is_open) = (to, 0, true);
        while let Extent::Stored { .. } = self.extent(at)? {
            let len = self.read_at(at, &mut buffer)?;
            ended += memchr_iter(b'\n', &buffer[..len]).count() as u64;
            is_open = buffer[len - 1] != b'\n';
            at += len as u64;
        }
        // Nothing is stored behind it, so how its last line ended is not known.
        if at == to {
            return Ok(None);
        }
        let line = total + u64::from(!is_open) - ended;
        Ok((line >= before).then_some(line))
    }

    fn read_exact_at(&self, at: u64, buffer: &mut [u8]) -> Result<(), OutputError> {
        let mut read = 0;
        while read < buffer.len() {
            match self.read_at(at + read as u64, &mut buffer[read..])? {
                0 => return Err(self.ended_early(at + read as u64)),
                len => read += len,
            }
        }
        Ok(())
    }
}

impl Place {
    /// Goes over `bytes`, or up to the beginning of `line` in them.
    fn skip(&mut self, bytes: &[u8], line: u64) {
        let wanted = usize::try_from(line - self.line - 1).unwrap_or(usize::MAX);
        match memchr_iter(b'\n', bytes).nth(wanted) {
            Some(end) => {
                self.at += end as u64 + 1;
                self.line = line;
            }
            None => {
                self.at += bytes.len() as u64;
                self.line += memchr_iter(b'\n', bytes).count() as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use xioflow_journal::{Gap, Output, Stream};

    use super::*;
    use crate::output::lines::LineCount;

    /// A stream in the journal, of which `gap` is not stored.
    fn reader(bytes: &[u8], gap: Option<Gap>) -> OutputReader {
        let at = |offset: u64| usize::try_from(offset).unwrap();
        let mut lines = LineCount::default();
        lines.add(bytes);
        let content = match gap {
            None => bytes.to_vec(),
            Some(gap) => [&bytes[..at(gap.from)], &bytes[at(gap.to)..]].concat(),
        };
        let output = Output {
            stream: Stream::Stdout,
            total_bytes: bytes.len() as u64,
            lines: Some(lines.total()),
            sha256: None,
            artifact: None,
            content: Some(content),
            gap,
            spill_error: None,
            pruned_at_ms: None,
        };
        OutputReader::recorded(output, Path::new("/")).unwrap()
    }

    /// Where each line begins, and the end.
    fn starts(bytes: &[u8]) -> Vec<u64> {
        let mut starts = vec![0];
        starts.extend(memchr_iter(b'\n', bytes).map(|at| at as u64 + 1));
        if *starts.last().unwrap() != bytes.len() as u64 {
            starts.push(bytes.len() as u64);
        }
        starts
    }

    fn model(bytes: &[u8], first: u64, last: u64) -> Range<u64> {
        let starts = starts(bytes);
        let start = |line: u64| {
            let at = usize::try_from(line - 1).unwrap();
            *starts.get(at).unwrap_or(&(bytes.len() as u64))
        };
        start(first)..start(last + 1)
    }

    proptest! {
        #[test]
        fn lines_are_found_from_either_end(
            text in "[ab\n]{0,60}", first in 1u64..30, more in 0u64..30, count in 0u64..30,
        ) {
            let bytes = text.as_bytes();
            let reader = reader(bytes, None);
            prop_assert_eq!(reader.lines(first, first + more).unwrap(), model(bytes, first, first + more));
            let lines = starts(bytes).len() as u64 - 1;
            let begin = lines.saturating_sub(count) + 1;
            prop_assert_eq!(reader.tail(count).unwrap(), model(bytes, begin, begin).start);
        }

        /// Around a gap the answer is the same, but for ends that lie in the gap: these become the
        /// gap's own.
        #[test]
        fn a_gap_moves_only_what_lies_in_it(
            text in "[ab\n]{2,60}", first in 1u64..30, more in 0u64..30,
            one: prop::sample::Index, other: prop::sample::Index,
        ) {
            let bytes = text.as_bytes();
            let (one, other) = (one.index(bytes.len()) as u64, other.index(bytes.len()) as u64);
            prop_assume!(one != other);
            let gap = Gap { from: one.min(other), to: one.max(other) };
            let found = reader(bytes, Some(gap)).lines(first, first + more).unwrap();
            let exact = model(bytes, first, first + more);
            // A line that begins right behind the gap was ended by a byte that nobody has.
            let hidden = |at: u64| at > gap.from && at <= gap.to;
            let start = if hidden(exact.start) { gap.from } else { exact.start };
            let end = if hidden(exact.end) { gap.to } else { exact.end };
            prop_assert_eq!(found, start..end);
        }
    }

    #[test]
    fn the_end_is_found_across_blocks() {
        let bytes = [&b"first\n"[..], &vec![b'x'; 3 * BLOCK_LEN], b"\nlast\n"].concat();
        let reader = reader(&bytes, None);
        assert_eq!(reader.tail(1).unwrap(), bytes.len() as u64 - 5);
        assert_eq!(reader.tail(2).unwrap(), 6);
        assert_eq!(reader.tail(9).unwrap(), 0);
        let long = 6..6 + 3 * BLOCK_LEN as u64 + 1;
        assert_eq!(reader.lines(2, 2).unwrap(), long);
    }

    #[test]
    fn a_tail_that_needs_the_gap_begins_with_it() {
        let gap = Gap { from: 4, to: 9 };
        let reader = reader(b"one\ntwo\nthree\nfour\n", Some(gap));
        assert_eq!(reader.tail(1).unwrap(), 14);
        assert_eq!(reader.tail(2).unwrap(), 4);
        assert_eq!(reader.tail(100).unwrap(), 4);
    }
}
