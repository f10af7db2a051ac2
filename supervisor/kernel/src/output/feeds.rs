//! Everybody who sees the output of one operation while it comes: the one who started it, and those
//! who joined. The drain passes each piece on once, here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xioflow_journal::Stream;

use super::feed::{Feed, Owed, index};
use super::tail::StoredSoFar;

/// The subscribers of one operation.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each with what it is owed.
    feeds: Vec<(Arc<Feed>, Owed)>,
    /// Where each stream is stored, for those who come later, also after its end: its result may
    /// still be on its way to the record.
    stored: Vec<(Stream, StoredSoFar)>,
    /// How many bytes of each stream were passed on.
    passed: [u64; 2],
    over: bool,
    /// Nobody is waited for any more.
    hurried: bool,
}

impl Feeds {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Lists whose entries come and go whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the subscriber of the submission that is executed.
    pub(crate) fn add(&self, feed: Arc<Feed>) {
        let owed = feed.owed();
        self.add_as(feed, owed);
    }

    /// Adds the subscriber of a submission that has joined it: nobody waits for that one.
    pub(crate) fn add_joiner(&self, feed: Arc<Feed>) {
        self.add_as(feed, Owed::WhatIsStored);
    }

    /// Adds one who sees everything, and for whom nobody waits: what has come so far is a gap from
    /// the beginning, which ends where the next piece begins.
    pub(crate) fn attach(&self, feed: Arc<Feed>) {
        let mut state = self.lock();
        for stream in [Stream::Stdout, Stream::Stderr] {
            feed.skip(stream, state.passed[index(stream)]);
        }
        state.add(feed, Owed::WhatIsStored);
    }

    /// It sees what comes from now on; after the end, nothing.
    fn add_as(&self, feed: Arc<Feed>, owed: Owed) {
        self.lock().add(feed, owed);
    }

    /// Takes a subscriber out again.
    pub(crate) fn remove(&self, feed: &Arc<Feed>) {
        self.lock()
            .feeds
            .retain(|(other, _)| !Arc::ptr_eq(other, feed));
    }

    /// Says where a stream is stored.
    pub(crate) fn set_stored(&self, stream: Stream, stored: StoredSoFar) {
        let mut state = self.lock();
        for (feed, _) in &state.feeds {
            feed.set_stored(stream, stored.clone());
        }
        state.stored.push((stream, stored));
    }

    /// Passes on bytes that begin at `offset` of their stream; those that are `kept` can be read where
    /// they are stored. Whoever has gone is forgotten.
    pub(crate) fn pass_on(&self, stream: Stream, offset: u64, bytes: &[u8], kept: bool) {
        let mut state = self.lock();
        let kept = kept || state.hurried;
        state.passed[index(stream)] = offset + bytes.len() as u64;
        state.feeds.retain(|(feed, owed)| {
            let kept = kept || *owed == Owed::WhatIsStored;
            feed.send(stream, offset, bytes, kept)
        });
    }

    /// Whether somebody who is owed everything has no room for more.
    pub(crate) fn must_wait(&self) -> bool {
        let state = self.lock();
        // Each is asked: it notes that it is waited for.
        let waits =
            |(feed, owed): &&(Arc<Feed>, Owed)| *owed == Owed::Everything && feed.must_wait();
        !state.hurried && state.feeds.iter().filter(waits).count() > 0
    }

    /// From now on nobody is waited for: the operation is being stopped.
    pub(crate) fn hurry(&self) {
        self.lock().hurried = true;
    }

    /// There is no more.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        state.feeds.clear();
    }
}

impl State {
    fn add(&mut self, feed: Arc<Feed>, owed: Owed) {
        for (stream, stored) in &self.stored {
            feed.set_stored(*stream, stored.clone());
        }
        if !self.over {
            self.feeds.push((feed, owed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::output::{Owed, Piece, Subscription, subscribe};

    fn subscriber() -> (Arc<Feed>, Subscription) {
        let control = Arc::new(Control::new().unwrap());
        let (feed, subscription) = subscribe(control, Owed::WhatIsStored);
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
        feeds.pass_on(Stream::Stdout, 0, b"one", true);
        let (second, sees_rest) = subscriber();
        feeds.add(second);
        feeds.pass_on(Stream::Stdout, 3, b"two", true);
        feeds.end();
        assert_eq!(sees_all.next_piece(), data(0, b"one"));
        assert_eq!(sees_all.next_piece(), data(3, b"two"));
        assert_eq!(sees_all.next_piece(), None);
        assert_eq!(sees_rest.next_piece(), data(3, b"two"));
        assert_eq!(sees_rest.next_piece(), None);
    }

    fn gap(from: u64, to: u64) -> Option<Piece> {
        let stream = Stream::Stdout;
        Some(Piece::Gap { stream, from, to })
    }

    #[test]
    fn one_who_is_attached_sees_all_without_a_hole_or_an_overlap() {
        let feeds = Feeds::default();
        let (early, from_nothing) = subscriber();
        feeds.attach(early);
        feeds.pass_on(Stream::Stdout, 0, b"one", true);
        let (late, from_three) = subscriber();
        feeds.attach(late);
        feeds.pass_on(Stream::Stdout, 3, b"two", true);
        feeds.end();
        let (latest, from_six) = subscriber();
        feeds.attach(latest);
        let pieces = |of: &Subscription| [of.next_piece(), of.next_piece(), of.next_piece()];
        assert_eq!(
            pieces(&from_nothing),
            [data(0, b"one"), data(3, b"two"), None]
        );
        assert_eq!(pieces(&from_three), [gap(0, 3), data(3, b"two"), None]);
        assert_eq!(pieces(&from_six), [gap(0, 6), None, None]);
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
        feeds.pass_on(Stream::Stdout, 0, b"x", true);
        assert!(feeds.lock().feeds.is_empty());
    }
}
