//! Empties one pipe: every byte is stored, hashed, kept within the limit, and passed on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use xioflow_journal::{Output, Stream};

use super::feeds::Feeds;
use super::folder::Artifacts;
use super::head_tail::{HeadTail, Kept};
use super::spool::Spool;
use super::store::{Finished, Store};
use super::stored::read_back;

/// What is read at once from a stream that prints little.
const FIRST_READ_LEN: usize = 16 * 1024;
/// What is read at once from a stream that has filled a read.
const LONG_READ_LEN: usize = 256 * 1024;
/// Size asked for the pipe of such a stream. The kernel may refuse; then it is only slower.
const LONG_PIPE_LEN: usize = 1024 * 1024;
/// Reads of one stream before the other, the helper and the clock get their turn.
const READS_PER_TURN: usize = 8;
/// How much of a stream is kept where, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamLimits {
    /// In memory, for the result.
    pub(crate) kept: usize,
    /// On disk.
    pub(crate) stored: u64,
}

/// One stream being drained.
#[derive(Debug)]
pub(crate) struct Drain {
    stream: Stream,
    pipe: Option<OwnedFd>,
    /// Whether the end of the stream was seen; that of one without a pipe is.
    is_complete: bool,
    buffer: Vec<u8>,
    read_len: usize,
    limits: StreamLimits,
    kept: HeadTail,
    store: Store,
    artifacts: Arc<Artifacts>,
}

/// How the drain of a stream came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// Every writer closed it.
    Eof,
    /// We closed it; somebody may still hold the other end.
    Closed,
}

/// What came of a stream.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) kept: Kept,
    /// Whether it was read to its end.
    pub(crate) is_complete: bool,
    pub(crate) output: Output,
    /// A file that is not needed once the output is in the journal.
    pub(crate) leftover: Option<Spool>,
}

impl Drain {
    /// Makes one that empties `pipe`; without one the stream stays empty.
    pub(crate) fn new(
        stream: Stream,
        pipe: Option<OwnedFd>,
        artifacts: Arc<Artifacts>,
        stem: &str,
        limits: StreamLimits,
    ) -> Self {
        Self {
            stream,
            is_complete: pipe.is_none(),
            pipe,
            buffer: Vec::new(),
            read_len: FIRST_READ_LEN,
            limits,
            kept: HeadTail::new(limits.kept),
            store: Store::new(Arc::clone(&artifacts), stem, stream, limits.stored),
            artifacts,
        }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// How many bytes were read so far.
    pub(crate) fn total(&self) -> u64 {
        self.kept.total()
    }

    /// The pipe, while it is open.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Whether what is read now could be lost to a subscriber who is owed everything: it is not stored
    /// any more, and there is no room for it.
    pub(crate) fn is_held_up(&self, feeds: &Feeds) -> bool {
        self.pipe.is_some() && !self.store.has_all() && feeds.must_wait()
    }

    /// Reads what is there, for one turn; says so when the stream came to its end.
    pub(crate) fn read_turn(&mut self, feeds: &Feeds) -> Option<StreamEnd> {
        for _ in 0..READS_PER_TURN {
            if self.is_held_up(feeds) {
                return None;
            }
            let Some(pipe) = &self.pipe else {
                return Some(StreamEnd::Closed);
            };
            self.buffer.clear();
            self.buffer.reserve(self.read_len);
            match rustix::io::read(pipe, spare_capacity(&mut self.buffer)) {
                Ok(0) => {
                    self.pipe = None;
                    self.is_complete = true;
                    return Some(StreamEnd::Eof);
                }
                Ok(_) => self.take_piece(feeds),
                Err(Errno::AGAIN) => return None,
                Err(Errno::INTR) => {}
                // A pipe we hold the only read end of has no other error; treat it as lost.
                Err(_) => {
                    self.pipe = None;
                    return Some(StreamEnd::Closed);
                }
            }
        }
        None
    }

    fn take_piece(&mut self, feeds: &Feeds) {
        if self.buffer.len() >= self.read_len && self.read_len < LONG_READ_LEN {
            self.expect_much();
        }
        let offset = self.kept.total();
        self.kept.push(&self.buffer);
        let stored = self.store.write(&self.buffer);
        // After the writing: what a subscriber misses it reads where it is stored.
        if offset == 0
            && let Some(stored) = self.store.so_far()
        {
            feeds.set_stored(self.stream, stored);
        }
        feeds.pass_on(self.stream, offset, &self.buffer, self.store.has_all());
        let piece = std::mem::take(&mut self.buffer);
        self.buffer = self.store.hash(piece, stored);
    }

    fn expect_much(&mut self) {
        self.read_len = LONG_READ_LEN;
        if let Some(pipe) = &self.pipe {
            rustix::pipe::fcntl_setpipe_size(pipe, LONG_PIPE_LEN).ok();
        }
    }

    /// Closes the read end: whoever prints more gets SIGPIPE.
    pub(crate) fn close(&mut self) {
        self.pipe = None;
    }

    /// Ends a drain of which nothing is to be stored: what memory holds.
    pub(crate) fn into_kept(mut self) -> Kept {
        self.pipe = None;
        self.kept.finish()
    }

    /// Ends the drain and decides where the bytes stay.
    pub(crate) fn finish(mut self) -> Drained {
        self.pipe = None;
        let kept = self.kept.finish();
        let Finished {
            mut output,
            leftover,
        } = self.store.finish(&kept);
        // From the record, so that it says the same whenever it is asked.
        let kept = match output.gap {
            None => kept,
            Some(_) => read_back(&mut output, self.artifacts.path(), self.limits.kept),
        };
        Drained {
            kept,
            is_complete: self.is_complete,
            output,
            leftover,
        }
    }
}
