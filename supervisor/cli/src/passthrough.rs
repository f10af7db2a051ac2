//! Passes the command's output on, byte for byte, on the stream it was written to.
//!
//! It runs beside the drain on a thread of its own: a terminal that is stopped with Ctrl-S holds up
//! neither the record nor the time limit. What it was too slow for it reads from the stored file.

use std::io;
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use xioflow_kernel::journal::Stream;
use xioflow_kernel::{Piece, Subscription};

use crate::output::write_all;

/// What is read at once of output that was missed.
const GAP_READ_LEN: usize = 256 * 1024;

/// What went wrong while passing output on.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Sentences for people.
    pub(crate) notes: Vec<String>,
}

/// Starts to pass output on.
pub(crate) fn start(subscription: Subscription) -> io::Result<JoinHandle<Losses>> {
    thread::Builder::new()
        .name("xioflow-output".to_owned())
        .spawn(move || {
            Passthrough {
                subscription,
                closed: [false; 2],
                missing: [None, None],
                losses: Losses::default(),
            }
            .run()
        })
}

struct Passthrough {
    subscription: Subscription,
    closed: [bool; 2],
    /// How many bytes of each stream could not be had, and why the first of them.
    missing: [Option<(u64, String)>; 2],
    losses: Losses,
}

impl Passthrough {
    fn run(mut self) -> Losses {
        while let Some(piece) = self.subscription.next_piece() {
            match piece {
                Piece::Data { stream, bytes, .. } => self.write(stream, &bytes),
                Piece::Gap { stream, from, to } => self.fill(stream, from, to),
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
            match self
                .subscription
                .read_gap(stream, at, &mut buffer[..wanted])
            {
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

    /// Told once for each stream, with the sum: a slow reader of a flood has thousands of gaps.
    fn lose(&mut self, stream: Stream, bytes: u64, why: &str) {
        let (sum, first) = self.missing[index(stream)]
            .take()
            .unwrap_or_else(|| (0, why.to_owned()));
        self.missing[index(stream)] = Some((sum + bytes, first));
    }

    fn sum_up(mut self) -> Losses {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some((bytes, why)) = self.missing[index(stream)].take() {
                let note = format!("{bytes} bytes of {stream} were not passed on: {why}");
                self.losses.notes.push(note);
            }
        }
        self.losses
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
            // Without a supervisor the command would get SIGPIPE now; it does so through its
            // own pipe, and its end is recorded as what it is.
            self.subscription.reader_gone(stream);
            if error != Errno::PIPE {
                self.losses
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
