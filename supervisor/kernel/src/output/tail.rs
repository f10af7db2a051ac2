//! The last bytes of a stream, which are in no file while it may become too long for one. The drain
//! keeps them, and who was too slow for them reads them here.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many last bytes.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: VecDeque<u8>,
    /// The offset in the stream behind the last one.
    end: u64,
}

impl Tail {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Bytes and their offset change together, without anything that could panic in between.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next bytes, which end at the offset `end` of the stream, and keeps `max` in all.
    pub(crate) fn keep(&self, bytes: &[u8], end: u64, max: usize) {
        let mut state = self.lock();
        let bytes = &bytes[bytes.len().saturating_sub(max)..];
        let surplus = (state.bytes.len() + bytes.len()).saturating_sub(max);
        let surplus = surplus.min(state.bytes.len());
        state.bytes.drain(..surplus);
        state.bytes.extend(bytes);
        state.end = end;
    }

    pub(crate) fn clear(&self) {
        self.lock().bytes.clear();
    }

    pub(crate) fn len(&self) -> u64 {
        self.lock().bytes.len() as u64
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.lock().bytes.iter().copied().collect()
    }

    /// Reads from an offset of the stream on; nothing where it does not reach.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> usize {
        let state = self.lock();
        let begin = state.end - state.bytes.len() as u64;
        let skipped = at.checked_sub(begin).map(usize::try_from);
        let Some(Ok(skipped)) = skipped else { return 0 };
        let there = state.bytes.iter().skip(skipped);
        buffer
            .iter_mut()
            .zip(there)
            .map(|(to, from)| *to = *from)
            .count()
    }
}

/// Where a stream can be read while it comes: its file, and what is in none.
#[derive(Debug, Clone)]
pub(crate) struct StoredSoFar {
    pub(crate) file: Option<Arc<File>>,
    pub(crate) tail: Arc<Tail>,
}

impl StoredSoFar {
    /// Reads from an offset on; nothing where nothing is stored.
    pub(crate) fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let in_file = match &self.file {
            Some(file) => file.read_at(buffer, at)?,
            None => 0,
        };
        match in_file {
            0 => Ok(self.tail.read_at(at, buffer)),
            len => Ok(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_stand_at_their_offsets() {
        let tail = Tail::default();
        tail.keep(b"abc", 3, 4);
        tail.keep(b"defg", 7, 4);
        tail.keep(b"h", 8, 4);
        let mut buffer = [0; 3];
        assert_eq!((tail.read_at(5, &mut buffer), &buffer), (3, b"fgh"));
        assert_eq!(
            (tail.read_at(3, &mut buffer), tail.read_at(8, &mut buffer)),
            (0, 0)
        );
        assert_eq!((tail.to_vec(), tail.len()), (b"efgh".to_vec(), 4));
        tail.keep(b"123456", 14, 4);
        assert_eq!(tail.to_vec(), b"3456");
        tail.clear();
        assert_eq!((tail.len(), tail.read_at(10, &mut buffer)), (0, 0));
    }
}
