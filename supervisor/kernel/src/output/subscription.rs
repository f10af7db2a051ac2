//! What a subscriber has of an operation's output, wherever it is executed: `feed` brings it from the
//! drain of this process, `remote/frames` from an arbiter.

use std::io;
use std::sync::Arc;

use xioflow_journal::Stream;

use super::Piece;
use super::feed::{Feed, Owed, Receiver, feed, not_stored};
use crate::control::{Control, Wish};
use crate::remote::Frames;

/// The output of an operation while it comes.
///
/// Whoever is slow loses nothing of what could be stored:
///
/// # Examples
/// ```
/// # let stage = xioflow_kit::Stage::new();
/// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
/// # let domain = options.open(stage.domain())?;
/// use xioflow_kernel::{Command, Piece};
///
/// let much = Command::new("/bin/sh").args(["-c", "head -c 4000000 /dev/zero"]).inherit_env();
/// let mut operation = domain.operation(much)?;
/// let output = operation.subscribe();
/// operation.run()?; // nobody reads meanwhile, and nothing waits for that
/// let mut seen = 0;
/// while let Some(piece) = output.next_piece() {
///     match piece {
///         Piece::Data { bytes, .. } => seen += bytes.len() as u64,
///         Piece::Gap { stream, mut from, to } => {
///             let mut buffer = vec![0; 64 * 1024];
///             while from < to {
///                 let len = output.read_gap(stream, from, &mut buffer)? as u64;
///                 seen += len.min(to - from);
///                 from += len;
///             }
///         }
///     }
/// }
/// assert_eq!(seen, 4_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    source: Source,
    control: Arc<Control>,
}

#[derive(Debug)]
enum Source {
    Feed(Receiver),
    Frames(Frames),
}

/// Makes both ends of a subscription to an operation of this process.
pub(crate) fn subscribe(control: Arc<Control>, owed: Owed) -> (Feed, Subscription) {
    let (feed, receiver) = feed(Arc::clone(&control), owed);
    let source = Source::Feed(receiver);
    (feed, Subscription { source, control })
}

impl Subscription {
    /// One to an operation that an arbiter executes.
    pub(crate) fn of_frames(frames: Frames, control: Arc<Control>) -> Self {
        let source = Source::Frames(frames);
        Self { source, control }
    }

    /// One that is at its end.
    pub(crate) fn ended(control: Arc<Control>) -> Self {
        subscribe(control, Owed::WhatIsStored).1
    }

    /// Waits for the next piece; `None` when the operation has no more.
    #[must_use]
    pub fn next_piece(&self) -> Option<Piece> {
        match &self.source {
            Source::Feed(receiver) => receiver.next_piece(),
            Source::Frames(frames) => frames.next_piece(),
        }
    }

    /// Reads bytes of a gap from where the stream is stored: as many as fit `buffer`, from the
    /// offset `at` of the stream. A gap can be read until this subscription is dropped. Nothing is
    /// read where the stream was not stored, because the room for it was used up.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the stream could not be stored; else that of the read. An
    /// arbiter fills every gap that can be read, so none of its gaps can.
    pub fn read_gap(&self, stream: Stream, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.source {
            Source::Feed(receiver) => receiver.read_gap(stream, at, buffer),
            Source::Frames(_) => Err(not_stored()),
        }
    }

    /// Tells the operation that nobody reads this stream any more. Its pipe is closed, and the
    /// command gets SIGPIPE when it prints more, as it would without a supervisor.
    ///
    /// Only whoever started the operation can do so; from one who joined it, this changes nothing.
    pub fn reader_gone(&self, stream: Stream) {
        self.control.wish(Wish::CloseStream(stream));
    }
}
