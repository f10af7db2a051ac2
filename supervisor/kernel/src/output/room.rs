//! Which bytes of a stream are stored: its beginning, as far as there is room, and its last bytes.
//! It counts and decides; `store` writes.

use std::sync::Arc;

use super::budget::DiskBudget;

/// What is stored of each output stream, unless the caller says otherwise, in bytes. A build log of
/// a gigabyte stays whole; a command that prints without end fills no disk.
pub const DEFAULT_MAX_STORED_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Output up to this length is kept in the journal instead of in a file, in bytes.
pub(crate) const CONTENT_MAX_BYTES: u64 = 64 * 1024;

/// The end of a stream that could not be stored whole goes into the journal with its result, so
/// it is bounded like everything there.
const TAIL_MAX_BYTES: u64 = CONTENT_MAX_BYTES;

/// One of so many bytes of the room is kept free for the end of the stream.
const TAIL_SHARE: u64 = 4;

/// A beginning of this length and a quarter of the whole for the end fit the journal. So much is
/// written whatever the domain holds already: it is gone from the folder when the result is there.
const FREE_HEAD_BYTES: u64 = CONTENT_MAX_BYTES - CONTENT_MAX_BYTES / TAIL_SHARE;

/// The room of one stream.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<DiskBudget>,
    /// What the domain has granted to this stream's file.
    granted: u64,
    head_max: u64,
    tail_max: u64,
    written: u64,
    is_full: bool,
}

impl Room {
    /// Makes room for `stream_max` bytes, end included.
    pub(crate) fn new(stream_max: u64, budget: Arc<DiskBudget>) -> Self {
        let tail_max = (stream_max / TAIL_SHARE).min(TAIL_MAX_BYTES);
        Self {
            budget,
            granted: 0,
            head_max: stream_max - tail_max,
            tail_max,
            written: 0,
            is_full: false,
        }
    }

    /// How many of the next `len` bytes go to the file. Once it is not all of them, it is none.
    pub(crate) fn admit(&mut self, len: u64) -> u64 {
        if self.is_full {
            return 0;
        }
        let wanted = len.min(self.head_max - self.written);
        let end = self.granted_up_to(self.written + wanted);
        let admitted = end - self.written;
        self.written = end;
        self.is_full = admitted < len;
        admitted
    }

    /// The offset, up to `end`, that the file may grow to.
    fn granted_up_to(&mut self, end: u64) -> u64 {
        if end <= FREE_HEAD_BYTES {
            return end;
        }
        // With its end it is one file, if nothing will be missing in between.
        let needed = end + self.tail_max;
        self.granted += self.budget.take(needed.saturating_sub(self.granted));
        let granted = self.granted.saturating_sub(self.tail_max).min(end);
        if granted > FREE_HEAD_BYTES {
            return granted;
        }
        self.release(0);
        self.tail_max = self.tail_max.min(CONTENT_MAX_BYTES - FREE_HEAD_BYTES);
        FREE_HEAD_BYTES
    }

    /// How many bytes went to the file.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// How many of the last bytes are kept once the file gets no more.
    pub(crate) fn tail_max(&self) -> usize {
        usize::try_from(self.tail_max).unwrap_or(usize::MAX)
    }

    /// Gives back what a file of `file_len` bytes does not take.
    pub(crate) fn release(&mut self, file_len: u64) {
        self.budget.give_back(self.granted.saturating_sub(file_len));
        self.granted = self.granted.min(file_len);
    }

    /// Takes no more: the file cannot be written.
    pub(crate) fn close(&mut self) {
        self.is_full = true;
        self.tail_max = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn room(stream_max: u64, left: u64) -> Room {
        Room::new(stream_max, Arc::new(DiskBudget::new(left, 0)))
    }

    #[test]
    fn a_stream_of_exactly_its_room_is_stored_whole() {
        let mut whole = room(1000, u64::MAX);
        assert_eq!(whole.admit(1000), 750);
        assert_eq!(whole.admit(10), 0, "what was left out stays out");
        assert_eq!(whole.tail_max(), 250);
    }

    #[test]
    fn without_room_nothing_is_stored() {
        let mut none = room(0, u64::MAX);
        assert_eq!((none.admit(5), none.tail_max()), (0, 0));
    }

    #[test]
    fn a_full_domain_leaves_what_the_journal_takes() {
        let mut stream = room(1 << 30, 1000);
        assert_eq!(stream.admit(40_000), 40_000);
        assert_eq!(stream.admit(40_000), FREE_HEAD_BYTES - 40_000);
        assert_eq!(stream.written() + stream.tail_max, CONTENT_MAX_BYTES);
        assert_eq!(stream.budget.used(), 0, "no file of it stays");
    }

    #[test]
    fn what_the_domain_has_left_is_used() {
        let mut stream = room(1 << 30, 1_000_000);
        assert_eq!(stream.admit(2_000_000), 1_000_000 - TAIL_MAX_BYTES);
        stream.release(stream.written());
        assert_eq!(stream.budget.used(), stream.written());
    }

    proptest! {
        /// Whatever is asked of it: no more than the stream's own room, no more than the domain
        /// has, a beginning without holes, and everything if everything fits.
        #[test]
        fn never_more_than_there_is(
            stream_max in 0u64..300_000,
            left in 0u64..300_000,
            pieces in prop::collection::vec(1u64..70_000, 0..12),
        ) {
            let mut room = room(stream_max, left);
            let mut seen = 0;
            let mut refused = false;
            for len in pieces {
                let admitted = room.admit(len);
                prop_assert!(admitted <= len && !(refused && admitted > 0));
                refused |= admitted < len;
                seen += len;
                prop_assert!(room.budget.used() <= left);
                prop_assert!(room.written <= room.granted.max(FREE_HEAD_BYTES));
            }
            let tail = room.tail_max.min(seen - room.written);
            prop_assert!(room.written + tail <= stream_max);
            if seen <= stream_max && (seen <= CONTENT_MAX_BYTES || seen + TAIL_MAX_BYTES <= left) {
                prop_assert_eq!(room.written + tail, seen);
            }
        }
    }
}
