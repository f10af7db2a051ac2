//! In which order the two streams of a command were read, as lengths in turn. Pure.

use xioflow_journal::Stream;

/// A command that writes to both streams in turn makes many short runs. So many fit the journal
/// (two bytes each, for lines of usual length); what comes after them has no order.
const RUNS_MAX: usize = 16 * 1024;

/// The order in which output was read.
///
/// It is that of reading: two writes to different streams that lie close together in time may stand
/// in either order, and each stream keeps its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputOrder {
    runs: Vec<(Stream, u64)>,
    is_cut: bool,
}

impl OutputOrder {
    /// Adds bytes that were read next.
    pub(crate) fn note(&mut self, stream: Stream, len: u64) {
        if len == 0 || self.is_cut {
            return;
        }
        let is_full = self.runs.len() == RUNS_MAX;
        match self.runs.last_mut() {
            Some((last, run)) if *last == stream => *run += len,
            _ if is_full => self.is_cut = true,
            _ => self.runs.push((stream, len)),
        }
    }

    /// How many bytes of which stream came after one another.
    #[must_use]
    pub fn runs(&self) -> &[(Stream, u64)] {
        &self.runs
    }

    /// Whether more was read than the runs hold, in an order that is not known.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// For the journal; none if there is nothing to put in order. Streams take turns, so the first
    /// one and the lengths say it all: one byte of flags, then numbers of seven bits a byte.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        if self.runs.len() < 2 {
            return None;
        }
        let begins_with_stderr = self.runs[0].0 == Stream::Stderr;
        let mut bytes = vec![u8::from(begins_with_stderr) | u8::from(self.is_cut) << 1];
        for (_, len) in &self.runs {
            let mut rest = *len;
            while rest >= 0x80 {
                bytes.push(0x80 | rest.to_le_bytes()[0]);
                rest >>= 7;
            }
            bytes.push(rest.to_le_bytes()[0]);
        }
        Some(bytes)
    }

    /// Reads an order as the journal has it; `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (flags, mut rest) = bytes.split_first()?;
        let mut stream = match flags & 1 {
            0 => Stream::Stdout,
            _ => Stream::Stderr,
        };
        let mut runs = Vec::new();
        while !rest.is_empty() {
            let (len, after) = number(rest)?;
            runs.push((stream, len));
            stream = other(stream);
            rest = after;
        }
        let is_cut = flags & 2 != 0;
        (flags & !3 == 0).then_some(Self { runs, is_cut })
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(at).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

fn other(stream: Stream) -> Stream {
    match stream {
        Stream::Stdout => Stream::Stderr,
        Stream::Stderr => Stream::Stdout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_follows_itself_is_one_run() {
        let mut order = OutputOrder::default();
        order.note(Stream::Stdout, 3);
        order.note(Stream::Stdout, 4);
        assert_eq!(order.encode(), None, "one stream needs no order");
        order.note(Stream::Stderr, 0);
        order.note(Stream::Stderr, 1);
        assert_eq!(order.runs(), [(Stream::Stdout, 7), (Stream::Stderr, 1)]);
    }

    #[test]
    fn it_is_bounded_and_says_so() {
        let mut order = OutputOrder::default();
        for _ in 0..RUNS_MAX {
            order.note(Stream::Stdout, 40);
            order.note(Stream::Stderr, 40);
        }
        assert_eq!((order.runs().len(), order.is_cut()), (RUNS_MAX, true));
        let bytes = order.encode().unwrap();
        assert!(bytes.len() <= 64 * 1024, "{} bytes", bytes.len());
        assert_eq!(OutputOrder::decode(&bytes), Some(order));
    }

    proptest! {
        #[test]
        fn it_is_read_as_it_was_written(notes in prop::collection::vec((any::<bool>(), 0u64..1 << 40), 0..50)) {
            let mut order = OutputOrder::default();
            for (is_stderr, len) in notes {
                order.note(if is_stderr { Stream::Stderr } else { Stream::Stdout }, len);
            }
            if let Some(bytes) = order.encode() {
                prop_assert_eq!(OutputOrder::decode(&bytes), Some(order));
            }
        }

        #[test]
        fn other_bytes_are_an_order_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            drop(OutputOrder::decode(&bytes));
        }
    }
}
