//! Counts the lines of a stream while it passes.

/// How many lines there were so far.
#[derive(Debug, Default)]
pub(crate) struct LineCount {
    ended: u64,
    is_open: bool,
}

impl LineCount {
    /// Takes the next bytes of the stream.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.ended += memchr::memchr_iter(b'\n', bytes).count() as u64;
        if let Some(last) = bytes.last() {
            self.is_open = *last != b'\n';
        }
    }

    /// All of them; a last line without an end is one.
    pub(crate) fn total(&self) -> u64 {
        self.ended + u64::from(self.is_open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_a_line() {
        let count = |pieces: &[&[u8]]| {
            let mut lines = LineCount::default();
            pieces.iter().for_each(|piece| lines.add(piece));
            lines.total()
        };
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[b"a"]), 1);
        assert_eq!(count(&[b"a\n"]), 1);
        assert_eq!(count(&[b"a", b"\n", b""]), 1);
        assert_eq!(count(&[b"a\nb", b"c\n\n", b"d"]), 4);
    }
}
