//! Passes output on to a subscriber while it comes, within a bounded number of bytes.
//!
//! The drain never waits for a subscriber. What does not fit is noted as a gap, which the
//! subscriber can read from the stored file.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use xioflow_journal::Stream;

use super::tail::StoredSoFar;
use crate::control::Control;

/// Bytes that may wait for a subscriber, the pieces' own weight included.
const WAITING_MAX_BYTES: usize = 1024 * 1024;

/// So few bytes wait that there is room for another read.
const ROOM_AGAIN_BYTES: usize = WAITING_MAX_BYTES / 2;

/// What a waiting piece weighs beside its bytes. A command that prints single bytes would
/// otherwise fill memory with list entries.
const PIECE_BYTES: usize = size_of::<Piece>() + 16;

/// One part of a stream as it reaches a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes, in the order in which they were printed to this stream.
    Data {
        /// The stream.
        stream: Stream,
        /// Offset of the first byte in the stream.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes that came faster than they were taken. They stand in the stored file, unless the
    /// disk failed.
    Gap {
        /// The stream.
        stream: Stream,
        /// Offset of the first one in the stream.
        from: u64,
        /// Offset after the last one.
        to: u64,
    },
}

impl Piece {
    /// The stream it belongs to.
    #[must_use]
    pub fn stream(&self) -> Stream {
        match self {
            Self::Data { stream, .. } | Self::Gap { stream, .. } => *stream,
        }
    }
}

/// What a subscriber is owed when it is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owed {
    /// What could be stored; the rest is named.
    WhatIsStored,
    /// All of it: what cannot be stored is not read before there is room for it.
    Everything,
}

/// The sending end, held by the operation.
#[derive(Debug)]
pub(crate) struct Feed {
    owed: Owed,
    shared: Arc<Shared>,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    control: Arc<Control>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Piece>,
    waiting: usize,
    /// Where both streams are stored, to read what was missed.
    stored: [Option<StoredSoFar>; 2],
    /// The sender reads no more before there is room again.
    sender_waits: bool,
    sender_gone: bool,
    receiver_gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Pieces are pushed and popped whole, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a stream has its place among two.
pub(super) fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

/// Makes both ends.
pub(crate) fn feed(control: Arc<Control>, owed: Owed) -> (Feed, Receiver) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        arrived: Condvar::new(),
    });
    (
        Feed {
            owed,
            shared: Arc::clone(&shared),
        },
        Receiver { shared, control },
    )
}

impl Feed {
    /// Says where a stream is stored.
    pub(crate) fn set_stored(&self, stream: Stream, stored: StoredSoFar) {
        self.shared.lock().stored[index(stream)] = Some(stored);
    }

    /// Names everything before `to`, which came before this subscriber did.
    pub(crate) fn skip(&self, stream: Stream, to: u64) {
        if to > 0 {
            self.shared.lock().note_gap(stream, 0, to);
        }
    }

    /// What its subscriber wants to be owed.
    pub(crate) fn owed(&self) -> Owed {
        self.owed
    }

    /// Whether there is no room for another read, and whoever reads is to wait for it. The control of
    /// the operation is nudged when there is.
    pub(crate) fn must_wait(&self) -> bool {
        let mut state = self.shared.lock();
        state.sender_waits = !state.receiver_gone && state.waiting > ROOM_AGAIN_BYTES;
        state.sender_waits
    }

    /// Passes on bytes that begin at `offset` of their stream; false once nobody receives them.
    /// Bytes that are `kept` can be left out, and named: they stand where they can be read later, or
    /// are not owed.
    pub(crate) fn send(&self, stream: Stream, offset: u64, bytes: &[u8], kept: bool) -> bool {
        let mut state = self.shared.lock();
        if state.receiver_gone {
            return false;
        }
        // One read may come on top: the next one waits.
        if !kept || state.waiting + bytes.len() + PIECE_BYTES <= WAITING_MAX_BYTES {
            state.waiting += bytes.len() + PIECE_BYTES;
            state.pieces.push_back(Piece::Data {
                stream,
                offset,
                bytes: bytes.to_vec(),
            });
        } else {
            state.note_gap(stream, offset, offset + bytes.len() as u64);
        }
        drop(state);
        self.shared.arrived.notify_one();
        true
    }
}

impl State {
    /// Extends the gap of this stream if it is the last that is known of the stream; the other
    /// stream's pieces may stand in between, so that two streams cannot pile up gaps in turn.
    fn note_gap(&mut self, missed: Stream, start: u64, end: u64) {
        let last = self
            .pieces
            .iter_mut()
            .rev()
            .find(|piece| piece.stream() == missed);
        match last {
            Some(Piece::Gap { to, .. }) if *to == start => *to = end,
            _ => self.pieces.push_back(Piece::Gap {
                stream: missed,
                from: start,
                to: end,
            }),
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.lock().sender_gone = true;
        self.shared.arrived.notify_all();
    }
}

impl Receiver {
    /// Waits for the next piece; `None` when the operation has no more.
    pub(crate) fn next_piece(&self) -> Option<Piece> {
        let mut state = self.shared.lock();
        loop {
            if let Some(piece) = state.pieces.pop_front() {
                if let Piece::Data { bytes, .. } = &piece {
                    state.waiting -= bytes.len() + PIECE_BYTES;
                }
                if state.sender_waits && state.waiting <= ROOM_AGAIN_BYTES {
                    state.sender_waits = false;
                    self.control.nudge();
                }
                return Some(piece);
            }
            if state.sender_gone {
                return None;
            }
            state = self
                .shared
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads bytes of a gap from where the stream is stored, until this is dropped.
    pub(crate) fn read_gap(&self, stream: Stream, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let stored = self.shared.lock().stored[index(stream)].clone();
        stored.ok_or_else(not_stored)?.read_at(at, buffer)
    }
}

/// What there is to read of a stream that could not be stored.
pub(super) fn not_stored() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the output could not be stored")
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receiver_gone = true;
        state.pieces.clear();
        state.waiting = 0;
        // Nobody has to be waited for any more.
        self.control.nudge();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (Feed, Receiver) {
        feed(Arc::new(Control::new().unwrap()), Owed::WhatIsStored)
    }

    #[test]
    fn whoever_is_owed_everything_gets_it_and_is_waited_for() {
        let (feed, subscription) = feed(Arc::new(Control::new().unwrap()), Owed::Everything);
        let big = vec![b'a'; WAITING_MAX_BYTES - PIECE_BYTES];
        assert!(!feed.must_wait());
        assert!(feed.send(Stream::Stdout, 0, &big, true));
        assert!(feed.must_wait());
        // What was read already is never dropped; what is stored can be read there.
        let offset = big.len() as u64;
        assert!(feed.send(Stream::Stdout, offset, b"unstored", false));
        assert!(feed.send(Stream::Stdout, offset + 8, b"stored", true));
        assert!(subscription.next_piece().is_some());
        assert!(!feed.must_wait(), "there is room again");
        assert!(matches!(
            subscription.next_piece(),
            Some(Piece::Data { offset: at, .. }) if at == offset
        ));
        assert!(matches!(
            subscription.next_piece(),
            Some(Piece::Gap { from, .. }) if from == offset + 8
        ));
        drop(subscription);
        assert!(!feed.must_wait());
    }

    #[test]
    fn a_reader_that_never_reads_costs_a_bounded_number_of_pieces() {
        let (feed, subscription) = both();
        for offset in 0..200_000 {
            assert!(feed.send(Stream::Stdout, offset, b"x", true));
            assert!(feed.send(Stream::Stderr, offset, b"y", true));
        }
        let pieces = subscription.shared.lock().pieces.len();
        assert!(
            pieces <= WAITING_MAX_BYTES / PIECE_BYTES + 2,
            "{pieces} pieces wait"
        );
    }

    #[test]
    fn a_gap_says_exactly_what_is_missing() {
        let (feed, subscription) = both();
        let big = vec![b'a'; WAITING_MAX_BYTES - PIECE_BYTES];
        assert!(feed.send(Stream::Stdout, 0, &big, true));
        assert!(feed.send(Stream::Stdout, big.len() as u64, b"lost", true));
        assert!(feed.send(Stream::Stdout, big.len() as u64 + 4, b"too", true));
        assert!(matches!(
            subscription.next_piece(),
            Some(Piece::Data { .. })
        ));
        assert!(feed.send(Stream::Stdout, big.len() as u64 + 7, b"kept", true));
        drop(feed);
        let from = big.len() as u64;
        let gap = Piece::Gap {
            stream: Stream::Stdout,
            from,
            to: from + 7,
        };
        assert_eq!(subscription.next_piece(), Some(gap));
        let bytes = b"kept".to_vec();
        assert_eq!(
            subscription.next_piece(),
            Some(Piece::Data {
                stream: Stream::Stdout,
                offset: from + 7,
                bytes
            })
        );
        assert_eq!(subscription.next_piece(), None);
    }
}
