//! Starts the program of an arbiter and waits for its one word. `starter` decides when, `daemon` is
//! the other side.

use std::fmt;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use xioflow_rpc::codec::LineBuffer;
use xioflow_rpc::start::{STARTED_MAX_BYTES, Started};

use crate::endpoint::Endpoint;
use crate::gate::Gate;
use crate::log::Log;
use crate::starter::{StartError, Starter};
use crate::transfer::wait_readable;

/// How long the exit status of an arbiter is waited for that has closed its pipe without a word.
const EXIT_WAIT: Duration = Duration::from_secs(2);

/// The thread that waits for the arbiter's end does nothing else.
const WAITER_STACK_BYTES: usize = 64 * 1024;

/// What the arbiter's C library is told (mallopt(3)), so that an idle arbiter has what it needs and little more.
/// After two hundred operations at once it had 20 MiB of its own without any of it, and has 11 with all: an
/// arena for each thread, 40 MiB of stacks of threads that are gone, and caches for each thread whose pieces keep
/// the pages between them all stay when nobody needs them. A low `mmap_threshold` would save little, and cost each
/// operation half a millisecond.
const MALLOC: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0:glibc.pthread.stack_cache_size=1048576",
);

/// An arbiter that was started and has not said anything yet.
struct Launched {
    pid: u32,
    word: PipeReader,
    exit: Receiver<io::Result<ExitStatus>>,
    log: Log,
}

/// Starts an arbiter and waits until it listens. The gate goes with it.
pub(crate) fn launch(
    starter: &Starter,
    endpoint: &Endpoint,
    gate: Gate,
    deadline: Instant,
) -> Result<(), StartError> {
    let launched = spawn(starter, endpoint, gate)?;
    let mut lines = LineBuffer::new(STARTED_MAX_BYTES);
    let no_arbiter = || StartError::NoArbiter {
        program: starter.program.clone(),
    };
    loop {
        if let Some(line) = lines.next_line().map_err(|_| no_arbiter())? {
            return match serde_json::from_slice(&line) {
                Ok(Started::Ready(_)) => Ok(()),
                Ok(Started::Error(fault)) => Err(StartError::Failed(fault)),
                Err(_) => Err(no_arbiter()),
            };
        }
        match launched.read_some(&mut lines, deadline) {
            Ok(Progress::Some) => {}
            Ok(Progress::End) => return Err(launched.died()),
            Ok(Progress::Late) => return Err(launched.slow()),
            Err(source) => return Err(failed(endpoint, "listen to the arbiter of")(source)),
        }
    }
}

fn spawn(starter: &Starter, endpoint: &Endpoint, gate: Gate) -> Result<Launched, StartError> {
    let log = Log::open(endpoint).map_err(failed(endpoint, "open the arbiter's log in"))?;
    let (word, tell) = io::pipe().map_err(failed(endpoint, "make a pipe for"))?;
    let stderr = log.descriptor();
    let stderr = stderr.map_err(failed(endpoint, "open the arbiter's log in"))?;
    let mut command = Command::new(&starter.program);
    command
        .args(starter.arguments(endpoint.path()))
        .env_clear()
        .env(MALLOC.0, MALLOC.1)
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs(starter.variables.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(gate.hand_over().map_or_else(Stdio::null, Stdio::from))
        .stdout(tell)
        .stderr(stderr);
    let child = command.spawn().map_err(|source| StartError::Program {
        program: starter.program.clone(),
        source,
    })?;
    // The command's copies of the lock and the pipe go here: an end of the pipe means the arbiter's.
    drop(command);
    Ok(Launched {
        pid: child.id(),
        word,
        exit: watch(child).map_err(failed(endpoint, "start a thread for"))?,
        log,
    })
}

/// Waits for the end of a child for as long as it takes, so that it does not stay as a zombie in a
/// program that lives longer.
fn watch(mut child: Child) -> io::Result<Receiver<io::Result<ExitStatus>>> {
    let (tell, exit) = mpsc::channel();
    thread::Builder::new()
        .name("arbiter-exit".into())
        .stack_size(WAITER_STACK_BYTES)
        .spawn(move || {
            // Nobody may want to know any more.
            drop(tell.send(child.wait()));
        })?;
    Ok(exit)
}

enum Progress {
    Some,
    End,
    Late,
}

impl Launched {
    fn read_some(&self, lines: &mut LineBuffer, deadline: Instant) -> io::Result<Progress> {
        if !wait_readable(self.word.as_fd(), deadline)? {
            return Ok(Progress::Late);
        }
        let mut buffer = [0; 4096];
        match (&self.word).read(&mut buffer) {
            Ok(0) => Ok(Progress::End),
            Ok(count) => {
                lines.push(&buffer[..count]);
                Ok(Progress::Some)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Progress::Some),
            Err(error) => Err(error),
        }
    }

    fn slow(&self) -> StartError {
        StartError::Slow {
            pid: self.pid,
            log: self.log.path.clone(),
        }
    }

    fn died(&self) -> StartError {
        let status = self.exit.recv_timeout(EXIT_WAIT);
        StartError::Died {
            status: status.ok().and_then(Result::ok),
            log: self.log.path.clone(),
            tail: self.log.tail(),
        }
    }
}

fn failed(endpoint: &Endpoint, doing: &'static str) -> impl FnOnce(io::Error) -> StartError {
    let path = endpoint.path().to_owned();
    move |source| StartError::System {
        path,
        doing,
        source,
    }
}

/// How a process ended, for a sentence.
pub(crate) struct Status<'a>(pub(crate) &'a Option<ExitStatus>);

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(status) => write!(f, " ({status})"),
            None => Ok(()),
        }
    }
}
