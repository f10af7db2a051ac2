//! `xioflow logs`: what an operation printed, byte for byte.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use xioflow_kernel::journal::{OwnerState, Reader, Stream};
use xioflow_kernel::{Extent, OutputReader};

use super::reader;
use crate::args::{Cli, LogsArgs};
use crate::exit::Code;
use crate::failure::Failure;
use crate::output;

/// What is copied at once.
const COPY_LEN: usize = 256 * 1024;

pub(crate) fn run(cli: &Cli, args: &LogsArgs) -> Result<Code, Failure> {
    let stream = if args.stderr {
        Stream::Stderr
    } else {
        Stream::Stdout
    };
    let mut log = Log {
        reader: reader(cli)?,
        operation_id: args.operation.clone(),
        stream,
        onto: Stream::Stdout,
        printed: 0,
    };
    conclude(log.print(args.follow))
}

/// Prints what a finished operation had printed, each stream on the one it was written to.
pub(crate) fn print_recorded(domain: &Path, operation_id: &str) -> Result<(), Failure> {
    for stream in [Stream::Stdout, Stream::Stderr] {
        let mut log = Log {
            reader: Reader::open(domain)?,
            operation_id: operation_id.to_owned(),
            stream,
            onto: stream,
            printed: 0,
        };
        conclude(log.print(false))?;
    }
    Ok(())
}

fn conclude(printed: Result<Code, Stop>) -> Result<Code, Failure> {
    match printed {
        Ok(code) => Ok(code),
        Err(Stop::Failed(failure)) => Err(*failure),
        // Like every filter that is cut off by the one behind it.
        Err(Stop::ReaderGone) => Ok(Code::Ok),
    }
}

/// Why printing stopped early.
enum Stop {
    ReaderGone,
    Failed(Box<Failure>),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error.into()))
    }
}

/// One stream of one operation, as far as it was printed.
struct Log {
    reader: Reader,
    operation_id: String,
    stream: Stream,
    /// The stream of this program that it goes to.
    onto: Stream,
    printed: u64,
}

impl Log {
    fn print(&mut self, follow: bool) -> Result<Code, Stop> {
        // The watch stands before anything is looked at, so no change falls in between.
        let watch = if follow {
            Some(self.watch().map_err(watch_failed)?)
        } else {
            None
        };
        loop {
            let ended = self.print_on()?;
            let Some(watch) = watch.as_ref().filter(|_| !ended) else {
                return Ok(Code::Ok);
            };
            if self.reader.owner_state() == OwnerState::Free {
                // It may have been settled a moment before its owner left.
                if self.print_on()? {
                    return Ok(Code::Ok);
                }
                output::complain(
                    "the owner of the domain is gone and the operation unfinished; the next command in the domain settles it",
                );
                return Ok(Code::Indeterminate);
            }
            wait(watch).map_err(watch_failed)?;
        }
    }

    fn watch(&self) -> io::Result<OwnedFd> {
        let watch = inotify::init(CreateFlags::CLOEXEC)?;
        let written = WatchFlags::MODIFY | WatchFlags::CREATE;
        inotify::add_watch(&watch, self.reader.dir().artifacts(), written)?;
        // The owner touches its lock file after each commit and closes it at its end.
        let lock = WatchFlags::ATTRIB | WatchFlags::CLOSE_WRITE | WatchFlags::MODIFY;
        inotify::add_watch(&watch, self.reader.dir().lock(), lock)?;
        Ok(watch)
    }

    /// Prints what has come since the last time; says whether the operation has ended, so that
    /// nothing more will.
    fn print_on(&mut self) -> Result<bool, Stop> {
        let artifacts = self.reader.dir().artifacts();
        let output = OutputReader::open(&self.reader, &artifacts, &self.operation_id, self.stream)?;
        self.copy(&output)?;
        match output.spill_error() {
            None => Ok(output.is_complete()),
            Some(error) => Err(Stop::from(incomplete(error))),
        }
    }

    /// Copies as far as it goes. A part that is missing is named where it would stand.
    fn copy(&mut self, output: &OutputReader) -> Result<(), Stop> {
        let mut buffer = vec![0; COPY_LEN];
        loop {
            match output.extent(self.printed)? {
                Extent::End => return Ok(()),
                Extent::Missing { to } => {
                    if output.spill_error().is_none() {
                        complain_of_gap(self.stream, self.printed, to);
                    }
                    self.printed = to;
                }
                Extent::Stored { .. } => {
                    let len = output.read_at(self.printed, &mut buffer)?;
                    self.write(&buffer[..len])?;
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let written = match self.onto {
            Stream::Stdout => put(&mut io::stdout().lock(), bytes),
            Stream::Stderr => put(&mut io::stderr().lock(), bytes),
        };
        written.map_err(|_| Stop::ReaderGone)?;
        self.printed += bytes.len() as u64;
        Ok(())
    }
}

fn put(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Sleeps until a file of the domain changes. What changed is looked at afresh.
fn wait(watch: &OwnedFd) -> io::Result<()> {
    let mut events = [0; 4096];
    rustix::io::read(watch, &mut events)?;
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn watch_failed(error: io::Error) -> Failure {
    Failure::of("watch", Code::Internal, &error)
}

fn incomplete(error: &str) -> Failure {
    Failure::new(
        "output_incomplete",
        Code::Internal,
        "the output was not stored whole",
    )
    .hint(error)
}

fn complain_of_gap(stream: Stream, from: u64, to: u64) {
    output::complain(&format!(
        "bytes {from} to {to} of {stream} were not stored: {} bytes are missing here",
        to - from
    ));
}
