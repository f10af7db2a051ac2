//! `xioflow logs`: what an operation printed, byte for byte, or a part of it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use xioflow_kernel::journal::{OwnerState, Reader, Stream};
use xioflow_kernel::{Extent, OutputCheck, OutputError, OutputReader, TextFilter};

use super::{follow, reader};
use crate::args::{Cli, LogsArgs};
use crate::exit::Code;
use crate::failure::{Failure, OUTPUT_PRUNED};
use crate::output;
use crate::range::Lines;

mod both;

/// What is copied at once.
const COPY_LEN: usize = 256 * 1024;

pub(crate) fn run(cli: &Cli, args: &LogsArgs) -> Result<Code, Failure> {
    if args.both {
        return conclude(both::print(&reader(cli)?, &args.operation));
    }
    let stream = if args.stderr {
        Stream::Stderr
    } else {
        Stream::Stdout
    };
    let reader = reader(cli)?;
    follow::awaited(&reader, &args.operation, args.wait)?;
    let mut log = Log::new(reader, &args.operation, stream, Stream::Stdout);
    if args.text {
        log.filter = Some(TextFilter::default());
    }
    let printed = log.print(&Part::of(args), args.follow);
    conclude(printed.and_then(|code| log.conclude_text().map(|()| code)))
}

/// Prints what a finished operation had printed, each stream on the one it was written to.
pub(crate) fn print_recorded(domain: &Path, operation_id: &str) -> Result<(), Failure> {
    print_rest(domain, operation_id, [0; 2])
}

/// The same of what comes behind these offsets of the two streams.
pub(crate) fn print_rest(domain: &Path, operation_id: &str, from: [u64; 2]) -> Result<(), Failure> {
    for (stream, from) in [Stream::Stdout, Stream::Stderr].into_iter().zip(from) {
        let mut log = Log::new(Reader::open(domain)?, operation_id, stream, stream);
        match conclude(log.print(&Part::From(from), false)) {
            // Its result is what was asked for, and that is there.
            Err(failure) if failure.kind() == OUTPUT_PRUNED => output::complain(failure.message()),
            printed => drop(printed?),
        }
    }
    Ok(())
}

/// What of a stream is asked for.
enum Part {
    All,
    /// What comes behind an offset, if anything does.
    From(u64),
    Bytes(Range<u64>),
    Lines(Lines),
    Tail(u64),
}

impl Part {
    fn of(args: &LogsArgs) -> Self {
        match (&args.bytes, args.lines, args.tail) {
            (Some(bytes), _, _) => Self::Bytes(bytes.clone()),
            (None, Some(lines), _) => Self::Lines(lines),
            (None, None, Some(count)) => Self::Tail(count),
            (None, None, None) => Self::All,
        }
    }

    /// Where it is in the stream. Its end is open where the stream may grow.
    fn find(&self, output: &OutputReader) -> Result<Range<u64>, OutputError> {
        Ok(match self {
            Self::All => 0..u64::MAX,
            Self::From(offset) => *offset..u64::MAX,
            Self::Bytes(bytes) => bytes.clone(),
            Self::Lines(lines) => output.lines(lines.first, lines.last)?,
            Self::Tail(count) => output.tail(*count)?..u64::MAX,
        })
    }

    /// What to say if the stream ends before it.
    fn beyond(&self, output: &OutputReader, stream: Stream) -> Result<Option<String>, OutputError> {
        let len = output.len()?;
        let there = match (self, output.line_count()) {
            (Self::All | Self::From(_) | Self::Tail(_), _) => return Ok(None),
            (Self::Lines(_), Some(count)) => format!("{count} lines"),
            (Self::Lines(_), None) => "fewer lines".to_owned(),
            (Self::Bytes(_), _) => format!("{len} bytes"),
        };
        let yet = if output.is_complete() { "" } else { " so far" };
        Ok(Some(format!(
            "{stream} has {there}{yet}, and nothing there"
        )))
    }
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
    until: u64,
    /// Notices bytes that have changed since they were recorded, where all are printed.
    check: OutputCheck,
    /// Makes text of it, if that was asked for.
    filter: Option<TextFilter>,
}

impl Log {
    fn new(reader: Reader, operation_id: &str, stream: Stream, onto: Stream) -> Self {
        Self {
            reader,
            operation_id: operation_id.to_owned(),
            stream,
            onto,
            printed: 0,
            until: u64::MAX,
            check: OutputCheck::default(),
            filter: None,
        }
    }

    fn print(&mut self, part: &Part, follow: bool) -> Result<Code, Stop> {
        // The watch stands before anything is looked at, so no change falls in between.
        let watch = if follow {
            Some(self.watch().map_err(watch_failed)?)
        } else {
            None
        };
        let mut ended = self.print_part(part)?;
        loop {
            let Some(watch) = watch.as_ref().filter(|_| !ended) else {
                return Ok(Code::Ok);
            };
            if self.reader.owner_state() == OwnerState::Free {
                // It may have been settled a moment before its owner left.
                if self.print_on(&self.open()?)? {
                    return Ok(Code::Ok);
                }
                output::complain(
                    "the owner of the domain is gone and the operation unfinished; the next command in the domain settles it",
                );
                return Ok(Code::Indeterminate);
            }
            wait(watch).map_err(watch_failed)?;
            ended = self.print_on(&self.open()?)?;
        }
    }

    fn print_part(&mut self, part: &Part) -> Result<bool, Stop> {
        let output = self.open()?;
        let range = part.find(&output)?;
        if range.start >= output.len()?
            && let Some(note) = part.beyond(&output, self.stream)?
        {
            output::complain(&note);
        }
        (self.printed, self.until) = (range.start, range.end);
        self.print_on(&output)
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

    fn open(&self) -> Result<OutputReader, OutputError> {
        let artifacts = self.reader.dir().artifacts();
        OutputReader::open(&self.reader, &artifacts, &self.operation_id, self.stream)
    }

    /// Prints what has come since the last time; says whether the operation has ended, so that
    /// nothing more will.
    fn print_on(&mut self, output: &OutputReader) -> Result<bool, Stop> {
        self.copy(output)?;
        Ok(output.is_complete())
    }

    /// Copies as far as it goes. A part that is missing is named where it would stand.
    fn copy(&mut self, output: &OutputReader) -> Result<(), Stop> {
        let mut buffer = vec![0; COPY_LEN];
        while self.printed < self.until {
            match output.extent(self.printed)? {
                Extent::End => {
                    conclude_stored(output)?;
                    return Ok(self.check.conclude(output)?);
                }
                Extent::Missing { to } => {
                    if let Some(error) = output.spill_error() {
                        return Err(Stop::from(incomplete(error)));
                    }
                    self.flush_text()?;
                    complain_of_gap(self.stream, self.printed, to.min(self.until));
                    self.printed = to;
                }
                Extent::Stored { .. } => {
                    let wanted = usize::try_from(self.until - self.printed).unwrap_or(COPY_LEN);
                    let len = output.read_at(self.printed, &mut buffer[..wanted.min(COPY_LEN)])?;
                    self.check.take(self.printed, &buffer[..len]);
                    self.write(&buffer[..len])?;
                }
            }
        }
        Ok(())
    }

    /// Prints what is still held back of a line.
    fn flush_text(&mut self) -> Result<(), Stop> {
        let mut text = String::new();
        if let Some(filter) = &mut self.filter {
            filter.finish(&mut text);
        }
        self.put(text.as_bytes())
    }

    /// Prints the rest of the text, and says what is not in it.
    fn conclude_text(&mut self) -> Result<(), Stop> {
        self.flush_text()?;
        let Some(filter) = &self.filter else {
            return Ok(());
        };
        let (collapsed, replaced) = (filter.collapsed_bytes(), filter.replaced_bytes());
        if collapsed + replaced > 0 {
            output::complain(&format!(
                "{collapsed} bytes of redrawn lines are left out, {replaced} bytes that are no text are marked or left out"
            ));
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.printed += bytes.len() as u64;
        match &mut self.filter {
            None => self.put(bytes),
            Some(filter) => {
                let mut text = String::new();
                filter.push(bytes, &mut text);
                self.put(text.as_bytes())
            }
        }
    }

    fn put(&self, bytes: &[u8]) -> Result<(), Stop> {
        put(self.onto, bytes)
    }
}

/// Writes to a stream of this program.
fn put(onto: Stream, bytes: &[u8]) -> Result<(), Stop> {
    let written = match onto {
        Stream::Stdout => output::write_all(io::stdout().as_fd(), bytes),
        Stream::Stderr => output::write_all(io::stderr().as_fd(), bytes),
    };
    match written {
        Ok(()) => Ok(()),
        Err(Errno::PIPE) => Err(Stop::ReaderGone),
        Err(errno) => output::conclude(Err(errno.into())).map_err(Stop::from),
    }
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

/// What recovery could not read has no length, and so no part that is missing.
fn conclude_stored(output: &OutputReader) -> Result<(), Stop> {
    match output.spill_error() {
        Some(error) if output.is_empty()? => Err(Stop::from(incomplete(error))),
        _ => Ok(()),
    }
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
