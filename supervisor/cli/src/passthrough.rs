//! Passes the command's output on, byte for byte, on the stream it was written to.
//!
//! It runs beside the drain on a thread of its own: a terminal that is stopped with Ctrl-S holds up
//! neither the record nor the time limit. What it was too slow for it reads from the stored file.

use std::io;
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use xioflow_kernel::journal::Stream;
use xioflow_kernel::{Canceller, Domain, Piece, StopManner, Subscription};

use crate::exit::Code;
use crate::failure::Failure;
use crate::output::write_all;

/// What is read at once of output that was missed.
const GAP_READ_LEN: usize = 256 * 1024;

/// What came of passing output on.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// What went wrong, as sentences for people.
    pub(crate) notes: Vec<String>,
    /// How far each stream was dealt with, standard output first.
    pub(crate) ends: [u64; 2],
    /// Whether somebody who reads is gone, for whom it was all done.
    pub(crate) left: bool,
}

/// Where the output of an operation is stored that may have been joined when it had printed already.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) domain: Domain,
    pub(crate) operation_id: String,
}

impl Earlier {
    fn read(&self, stream: Stream, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let output = self.domain.output(&self.operation_id, stream);
        let read = output.and_then(|output| output.read_at(at, buffer));
        read.map_err(io::Error::other)
    }
}

/// Starts to pass output on. When nobody reads it any more, its operation is told so; or, with a
/// handle on an operation of somebody else, that is left.
pub(crate) fn start(
    subscription: Subscription,
    earlier: Option<Earlier>,
    leave: Option<Canceller>,
) -> Result<JoinHandle<Passed>, Failure> {
    let passthrough = Passthrough {
        subscription,
        earlier,
        leave,
        closed: [false; 2],
        missing: [None, None],
        passed: Passed::default(),
    };
    thread::Builder::new()
        .name("xioflow-output".to_owned())
        .spawn(move || passthrough.run())
        .map_err(|error| {
            Failure::of_act("thread", Code::Internal, "failed to start a thread", &error)
        })
}

struct Passthrough {
    subscription: Subscription,
    earlier: Option<Earlier>,
    leave: Option<Canceller>,
    closed: [bool; 2],
    /// How many bytes of each stream could not be had, and why the first of them.
    missing: [Option<(u64, String)>; 2],
    passed: Passed,
}

impl Passthrough {
    fn run(mut self) -> Passed {
        while let Some(piece) = self.subscription.next_piece() {
            match piece {
                Piece::Data {
                    stream,
                    bytes,
                    offset,
                } => {
                    // Who joins is given what comes from then on.
                    self.fill(stream, self.passed.ends[index(stream)], offset);
                    self.write(stream, &bytes);
                    self.passed.ends[index(stream)] = offset + bytes.len() as u64;
                }
                Piece::Gap { stream, to, .. } => {
                    self.fill(stream, self.passed.ends[index(stream)], to);
                    self.passed.ends[index(stream)] = to;
                }
            }
        }
        self.sum_up()
    }

    fn fill(&mut self, stream: Stream, from: u64, to: u64) {
        let mut buffer = vec![0; GAP_READ_LEN];
        let mut at = from;
        while at < to && !self.is_closed(stream) {
            let wanted = usize::try_from(to - at)
                .unwrap_or(GAP_READ_LEN)
                .min(GAP_READ_LEN);
            match self.read(stream, at, &mut buffer[..wanted]) {
                Ok(len) if len > 0 => {
                    self.write(stream, &buffer[..len]);
                    at += len as u64;
                }
                Ok(_) => {
                    return self.lose(stream, to - at, "they came too fast and were not stored");
                }
                Err(error) => return self.lose(stream, to - at, &error.to_string()),
            }
        }
    }

    /// Reads what was missed, also of the time before this program joined.
    fn read(&self, stream: Stream, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match (
            self.subscription.read_gap(stream, at, buffer),
            &self.earlier,
        ) {
            (Err(error), Some(earlier)) if error.kind() == io::ErrorKind::NotFound => {
                earlier.read(stream, at, buffer)
            }
            (read, _) => read,
        }
    }

    /// Told once for each stream, with the sum: a slow reader of a flood has thousands of gaps.
    fn lose(&mut self, stream: Stream, bytes: u64, why: &str) {
        let (sum, first) = self.missing[index(stream)]
            .take()
            .unwrap_or_else(|| (0, why.to_owned()));
        self.missing[index(stream)] = Some((sum + bytes, first));
    }

    fn sum_up(mut self) -> Passed {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some((bytes, why)) = self.missing[index(stream)].take() {
                let note = format!("{bytes} bytes of {stream} were not passed on: {why}");
                self.passed.notes.push(note);
            }
        }
        self.passed
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        if self.is_closed(stream) {
            return;
        }
        let written = match stream {
            Stream::Stdout => write_all(io::stdout().as_fd(), bytes),
            Stream::Stderr => write_all(io::stderr().as_fd(), bytes),
        };
        if let Err(error) = written {
            self.closed[index(stream)] = true;
            match &self.leave {
                // Without a supervisor the command would get SIGPIPE now; it does so through its
                // own pipe, and its end is recorded as what it is.
                None => self.subscription.reader_gone(stream),
                // Like every filter that is cut off by the one behind it.
                Some(leave) => {
                    self.passed.left = true;
                    leave.stop(StopManner::Terminate, Duration::ZERO).ok();
                }
            }
            if error != Errno::PIPE {
                self.passed
                    .notes
                    .push(format!("{stream} could not be written: {error}"));
            }
        }
    }

    fn is_closed(&self, stream: Stream) -> bool {
        self.closed[index(stream)]
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}
