//! The other side of `launch`: how a program that was started as an arbiter becomes one. It belongs
//! here so that what both sides take for granted is said in one place.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, FlockOperation, Mode, flock, fstat};
use rustix::io::Errno;
use rustix::process::{setsid, umask};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use xioflow_rpc::codec::encode;
use xioflow_rpc::start::{STARTED_MAX_BYTES, StartFault, Started};

/// What a starter has given to this process: the lock that keeps other starters out, and the pipe on
/// which it waits to hear whether the arbiter listens.
#[derive(Debug)]
pub struct Daemon {
    gate: OwnedFd,
    starter: File,
}

/// Why this process cannot become a daemon.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its standard input and output are not those that a starter gives.
    #[error("this was not started by a client of the domain; leave --daemon out")]
    NotStarted,
    /// The system refused.
    #[error("cannot {doing}")]
    System {
        /// What was being done, as a verb.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl Daemon {
    /// Takes the lock and the pipe, which are standard input and output, puts `/dev/null` in their
    /// place, closes every other descriptor, begins a session of its own, and sets the file mode mask
    /// to 077. Standard error stays: it is the log.
    ///
    /// To be called before anything is opened, read, printed or started: what has been opened is closed
    /// under its owner. What the starter's own parent left open would else stay open for as long as the
    /// arbiter lives, and somebody may wait for the end of a pipe among it.
    ///
    /// # Errors
    /// [`DaemonError::NotStarted`] if a person has typed the option, before anything is changed;
    /// [`DaemonError::System`].
    pub fn begin() -> Result<Self, DaemonError> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        if !is(&stdin, FileType::RegularFile)? || !is(&stdout, FileType::Fifo)? {
            return Err(DaemonError::NotStarted);
        }
        close_inherited()?;
        let keep = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
        let gate = keep(stdin.as_fd()).map_err(system("keep the lock"))?;
        let starter = keep(stdout.as_fd()).map_err(system("keep the pipe"))?;
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(system("open /dev/null"))?;
        dup2_stdin(&null).map_err(system("let go of standard input"))?;
        dup2_stdout(&null).map_err(system("let go of standard output"))?;
        setsid().map_err(system("begin a session"))?;
        umask(Mode::RWXG | Mode::RWXO);
        Ok(Self {
            gate,
            starter: starter.into(),
        })
    }

    /// Tells the starter that the arbiter listens, and lets the next starter look for itself.
    pub fn ready(self) {
        self.tell(&Started::Ready(true));
    }

    /// Tells the starter why there is no arbiter. A fault that is too long for the pipe loses its causes.
    pub fn failed(self, fault: StartFault) {
        let is_short = encode(&Started::Error(fault.clone()), STARTED_MAX_BYTES).is_ok();
        let causes = if is_short {
            fault.causes.clone()
        } else {
            Vec::new()
        };
        self.tell(&Started::Error(StartFault { causes, ..fault }));
    }

    /// A starter that does not listen any more is none of the arbiter's business.
    fn tell(mut self, started: &Started) {
        if let Ok(line) = encode(started, STARTED_MAX_BYTES) {
            self.starter.write_all(&line).ok();
        }
    }
}

impl Drop for Daemon {
    /// The starter has closed its copy of the lock. Unlocking does not depend on that.
    fn drop(&mut self) {
        flock(&self.gate, FlockOperation::Unlock).ok();
    }
}

/// Closes all but standard input, output and error.
fn close_inherited() -> Result<(), DaemonError> {
    let open = xioflow_facts::open_descriptors().map_err(io::Error::other);
    for number in open.map_err(system("list open descriptors"))? {
        if let Ok(number @ 3..) = i32::try_from(number) {
            // The one through which they were listed is closed by now.
            nix::unistd::close(number).ok();
        }
    }
    Ok(())
}

fn is(fd: &impl AsFd, kind: FileType) -> Result<bool, DaemonError> {
    match fstat(fd) {
        Ok(about) => Ok(FileType::from_raw_mode(about.st_mode) == kind),
        Err(Errno::BADF) => Ok(false),
        Err(error) => Err(system("examine standard input and output")(error)),
    }
}

fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> DaemonError {
    move |error| DaemonError::System {
        doing,
        source: error.into(),
    }
}
