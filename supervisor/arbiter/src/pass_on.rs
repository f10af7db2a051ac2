//! Passes the output of one operation on to one client, on a thread of its own: a client that does not
//! read holds up nobody but itself.
//!
//! What the client was too slow for is read from where it is stored. A reader that goes away only ends the
//! passing on: the command's own pipe is closed by `op.closeStream` alone, so that a client that is killed
//! does not kill its command by SIGPIPE.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use xioflow_journal::Stream;
use xioflow_kernel::{Piece, Subscription};
use xioflow_rpc::operation::Output;
use xioflow_rpc::piece::{DATA_MAX_BYTES, Header};

use crate::chunks::Chunks;
use crate::convert::{index, stream_out};
use crate::descriptors::Descriptors;

/// What is read at once of output that was missed.
const GAP_READ_LEN: usize = 64 * 1024;

/// Where output goes.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Byte for byte, each stream to its own.
    Streams([Option<OwnedFd>; 2]),
    /// In frames.
    Frames(Option<OwnedFd>),
    /// As news on the connection.
    Chunks(Chunks),
}

impl Sink {
    /// As the request wants it; none where it wants none.
    pub(crate) fn of(
        output: Output,
        descriptors: &mut Descriptors,
        chunks: impl FnOnce() -> Chunks,
    ) -> Option<Self> {
        match output {
            Output::None => None,
            Output::Descriptors => {
                let streams = [descriptors.stdout.take(), descriptors.stderr.take()];
                Some(Self::Streams(streams))
            }
            Output::Frames => Some(Self::Frames(descriptors.output.take())),
            Output::Chunks => Some(Self::Chunks(chunks())),
        }
    }

    /// Whether the result comes after all of the output. It does not wait for the reader of a pipe, who sees
    /// the end there; a file or a terminal has no end to be seen.
    pub(crate) fn is_awaited(&self) -> bool {
        match self {
            Self::Streams(streams) => streams.iter().flatten().any(|it| !has_an_end(it)),
            Self::Frames(output) => output.iter().any(|it| !has_an_end(it)),
            Self::Chunks(_) => true,
        }
    }
}

fn has_an_end(descriptor: &OwnedFd) -> bool {
    // What cannot be examined cannot be waited for.
    fstat(descriptor).map_or(true, |stat| {
        matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::Fifo | FileType::Socket
        )
    })
}

/// Passes everything on, until the operation has no more.
pub(crate) fn pass_on(subscription: &Subscription, sink: &mut Sink) {
    while let Some(piece) = subscription.next_piece() {
        match piece {
            Piece::Data {
                stream,
                offset,
                bytes,
            } => sink.data(stream, offset, &bytes),
            Piece::Gap { stream, from, to } => sink.fill(subscription, stream, from, to),
        }
    }
    if let Sink::Chunks(chunks) = sink {
        chunks.end();
    }
}

impl Sink {
    fn data(&mut self, stream: Stream, offset: u64, bytes: &[u8]) {
        match self {
            Self::Streams(streams) => write(&mut streams[index(stream)], &[bytes]),
            Self::Frames(output) => {
                let mut offset = offset;
                for part in bytes.chunks(usize::try_from(DATA_MAX_BYTES).unwrap_or(usize::MAX)) {
                    let header = header(stream, offset, part.len() as u64, false);
                    write(output, &[&header.encode(), part]);
                    offset += part.len() as u64;
                }
            }
            Self::Chunks(chunks) => chunks.data(stream, offset, bytes),
        }
    }

    /// Passes on what was missed, as far as it is stored.
    fn fill(&mut self, subscription: &Subscription, stream: Stream, from: u64, to: u64) {
        if let Self::Chunks(chunks) = self {
            return chunks.missed(subscription, stream, from, to);
        }
        let mut buffer = vec![0; GAP_READ_LEN];
        let mut at = from;
        while at < to && self.is_open(stream) {
            let wanted = usize::try_from(to - at).map_or(GAP_READ_LEN, |it| it.min(GAP_READ_LEN));
            match subscription.read_gap(stream, at, &mut buffer[..wanted]) {
                Ok(len) if len > 0 => {
                    self.data(stream, at, &buffer[..len]);
                    at += len as u64;
                }
                _ => return self.missing(stream, at, to),
            }
        }
    }

    /// Bytes that are nowhere. Only frames can say so; the result has the gap in any case.
    fn missing(&mut self, stream: Stream, from: u64, to: u64) {
        if let Self::Frames(output) = self {
            write(output, &[&header(stream, from, to - from, true).encode()]);
        }
    }

    fn is_open(&self, stream: Stream) -> bool {
        match self {
            Self::Streams(streams) => streams[index(stream)].is_some(),
            Self::Frames(output) => output.is_some(),
            Self::Chunks(_) => true,
        }
    }
}

fn header(stream: Stream, offset: u64, len: u64, is_gap: bool) -> Header {
    Header {
        stream: stream_out(stream),
        is_gap,
        offset,
        len,
    }
}

/// Writes all of it; closes the descriptor when nobody reads it any more.
fn write(to: &mut Option<OwnedFd>, parts: &[&[u8]]) {
    let Some(descriptor) = to else { return };
    for part in parts {
        if write_all(descriptor.as_fd(), part).is_err() {
            *to = None;
            return;
        }
    }
}

/// Writes everything, also to a descriptor that the client has made non-blocking.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut polled = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
                poll(&mut polled, None).ok();
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
