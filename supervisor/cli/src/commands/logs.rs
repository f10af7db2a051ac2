//! `xioflow logs`: what an operation printed, byte for byte.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use xioflow_kernel::artifact_name;
use xioflow_kernel::journal::{OperationStatus, OwnerState, Query, Reader, Stream};

use super::{operation, reader};
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
        conclude(log.print_stored())?;
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
            let done = operation(&self.reader, &self.operation_id)?.status == OperationStatus::Done;
            if done {
                return self.print_stored();
            }
            self.print_running()?;
            let Some(watch) = &watch else {
                return Ok(Code::Ok);
            };
            if self.reader.owner_state() == OwnerState::Free {
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

    /// What a running operation has printed since the last time.
    fn print_running(&mut self) -> Result<(), Stop> {
        let path = self.file(&artifact_name(&self.operation_id, self.stream));
        match open(&path) {
            Ok(file) => self.copy(&file),
            // It has printed nothing yet, or ended just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Stop::from(unreadable(&path, &error))),
        }
    }

    /// What a finished one had printed.
    fn print_stored(&mut self) -> Result<Code, Stop> {
        let outputs = self.reader.outputs(&self.operation_id)?;
        let Some(stored) = outputs
            .into_iter()
            .find(|output| output.stream == self.stream)
        else {
            return Ok(Code::Ok);
        };
        if let Some(content) = &stored.content {
            let rest = usize::try_from(self.printed)
                .ok()
                .and_then(|at| content.get(at..));
            self.write(rest.unwrap_or_default())?;
        } else if let Some(artifact) = &stored.artifact {
            let path = self.file(artifact);
            let file = open(&path).map_err(|error| unreadable(&path, &error))?;
            self.copy(&file)?;
        }
        match stored.spill_error {
            None => Ok(Code::Ok),
            Some(error) => Err(Stop::from(
                Failure::new(
                    "output_incomplete",
                    Code::Internal,
                    "the output was not stored whole",
                )
                .hint(error),
            )),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.reader.dir().artifacts().join(name)
    }

    fn copy(&mut self, file: &File) -> Result<(), Stop> {
        let mut buffer = vec![0; COPY_LEN];
        loop {
            let len = file
                .read_at(&mut buffer, self.printed)
                .map_err(|error| Failure::of("output_unreadable", Code::Internal, &error))?;
            if len == 0 {
                return Ok(());
            }
            self.write(&buffer[..len])?;
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

fn open(path: &PathBuf) -> io::Result<File> {
    // A link planted in the folder is not followed.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
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

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("failed to read {}: {error}", path.display());
    Failure::new("output_unreadable", Code::Internal, message)
        .hint("the operation's result still has its hash and its length")
}
