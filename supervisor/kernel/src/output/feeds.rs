//! Everybody who sees the output of one operation while it comes: the one who started it, and those
//! who joined. The drain passes each piece on once, here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xioflow_journal::Stream;

use super::feed::Feed;
use super::tail::StoredSoFar;

/// The subscribers of one operation.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    feeds: Vec<Arc<Feed>>,
    /// Where each stream is stored, for those who come later.
    stored: Vec<(Stream, StoredSoFar)>,
    over: bool,
}

impl Feeds {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Lists whose entries come and go whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber. It sees what comes from now on; after the end, nothing.
    pub(crate) fn add(&self, feed: Arc<Feed>) {
        let mut state = self.lock();
        if state.over {
            return;
        }
        for (stream, stored) in &state.stored {
            feed.set_stored(*stream, stored.clone());
        }
        state.feeds.push(feed);
    }

    /// Takes a subscriber out again.
    pub(crate) fn remove(&self, feed: &Arc<Feed>) {
        self.lock().feeds.retain(|other| !Arc::ptr_eq(other, feed));
    }

    /// Says where a stream is stored.
    pub(crate) fn set_stored(&self, stream: Stream, stored: StoredSoFar) {
        let mut state = self.lock();
        for feed in &state.feeds {
            feed.set_stored(stream, stored.clone());
        }
        state.stored.push((stream, stored));
    }

    /// Passes on bytes that begin at `offset` of their stream. Whoever has gone is forgotten.
    pub(crate) fn pass_on(&self, stream: Stream, offset: u64, bytes: &[u8]) {
        self.lock()
            .feeds
            .retain(|feed| feed.send(stream, offset, bytes));
    }

    /// There is no more.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        state.feeds.clear();
        state.stored.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::output::{Piece, Subscription, feed};

    fn subscriber() -> (Arc<Feed>, Subscription) {
        let (feed, subscription) = feed(Arc::new(Control::new().unwrap()));
        (Arc::new(feed), subscription)
    }

    fn data(offset: u64, bytes: &[u8]) -> Option<Piece> {
        Some(Piece::Data {
            stream: Stream::Stdout,
            offset,
            bytes: bytes.to_vec(),
        })
    }

    #[test]
    fn a_later_subscriber_sees_what_comes_from_then_on() {
        let feeds = Feeds::default();
        let (first, sees_all) = subscriber();
        feeds.add(first);
        feeds.pass_on(Stream::Stdout, 0, b"one");
        let (second, sees_rest) = subscriber();
        feeds.add(second);
        feeds.pass_on(Stream::Stdout, 3, b"two");
        feeds.end();
        assert_eq!(sees_all.next_piece(), data(0, b"one"));
        assert_eq!(sees_all.next_piece(), data(3, b"two"));
        assert_eq!(sees_all.next_piece(), None);
        assert_eq!(sees_rest.next_piece(), data(3, b"two"));
        assert_eq!(sees_rest.next_piece(), None);
    }

    #[test]
    fn one_who_comes_after_the_end_waits_for_nothing() {
        let feeds = Feeds::default();
        feeds.end();
        let (late, sees_nothing) = subscriber();
        feeds.add(late);
        assert_eq!(sees_nothing.next_piece(), None);
    }

    #[test]
    fn one_who_has_gone_is_forgotten() {
        let feeds = Feeds::default();
        let (first, gone) = subscriber();
        feeds.add(first);
        drop(gone);
        feeds.pass_on(Stream::Stdout, 0, b"x");
        assert!(feeds.lock().feeds.is_empty());
    }
}
