//! Attaches to the arbiter of a domain, and starts one where there is none. However many do that at
//! once, one arbiter comes of it. `gate` keeps them apart, `launch` does the starting.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use xioflow_journal::{DomainDir, StorageError};
use xioflow_rpc::kernel::{Hello, Running, Shutdown, ShutdownBegun};
use xioflow_rpc::method::Method;
use xioflow_rpc::refusal::{Fault, kind};
use xioflow_rpc::start::StartFault;

use crate::connection::{CallError, Connection, ConnectionError};
use crate::endpoint::{Endpoint, EndpointError};
use crate::gate::Gate;
use crate::greeting::{ConnectError, Greeting};
use crate::launch::{Status, launch};
use crate::negotiate::{Decision, Mismatch, Theirs, negotiate};

/// How often an arbiter may listen and be gone before it greets. One may end for want of clients just
/// then; more than a few do not live at all.
const STARTS_MAX: u32 = 4;

/// How often the folder may vanish between making and opening it: each time somebody has failed to
/// open the domain and removed what he had made.
const FOLDER_ATTEMPTS_MAX: u32 = 16;

/// Longest patience that is counted; more is as good as for ever.
const PATIENCE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// An idle time of this and more has no end.
const NEVER_FROM: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How an arbiter is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    /// The program: it understands `arbiter --domain DIR --daemon [--idle TIME]`, and calls
    /// [`crate::Daemon::begin`] then.
    pub program: PathBuf,
    /// After how long without clients and operations it ends; its own default if `None`. A hundred years and
    /// more are never.
    pub idle: Option<Duration>,
    /// Its variables. It has `PATH` as well, and nothing else of this process.
    pub variables: Vec<(OsString, OsString)>,
}

/// A connection to an arbiter.
#[derive(Debug)]
pub struct Started {
    /// The connection.
    pub connection: Connection,
    /// Whether this client started the arbiter.
    pub was_started: bool,
}

/// Why there is neither an arbiter nor a new one.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The domain's folder could not be made.
    #[error(transparent)]
    Folder(#[from] StorageError),
    /// There is something that could be an arbiter, and no way to work with it.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The arbiter has another protocol and runs something, so that it was left alone.
    #[error("{mismatch}; it runs {}, so it was not replaced: run `xioflow shutdown --wait` of release {} first",
        operations(&mismatch.theirs), mismatch.theirs.release)]
    Outdated {
        /// The two.
        mismatch: Box<Mismatch>,
    },
    /// The arbiter is of a newer protocol than this program.
    #[error("{mismatch}; update this program")]
    Older {
        /// The two.
        mismatch: Box<Mismatch>,
    },
    /// Another client is starting an arbiter for longer than this one wanted to wait.
    #[error("another client is starting an arbiter of {} for too long; try again, or look for that client", path.display())]
    Waiting {
        /// The domain's folder.
        path: PathBuf,
    },
    /// An arbiter of an older release was asked to end and has not.
    #[error("the arbiter of {} (process {pid}) was asked to end and has not; look at its process", path.display())]
    Ending {
        /// The domain's folder.
        path: PathBuf,
        /// The arbiter's process id; 0 if it has not said.
        pid: u32,
    },
    /// The program could not be started.
    #[error("cannot start {} as an arbiter", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The arbiter says why it does not serve.
    #[error(transparent)]
    Failed(#[from] StartFault),
    /// It ended without a word.
    #[error("the arbiter ended before it was ready{}; {} says: {}", Status(status), log.display(), or_nothing(tail))]
    Died {
        /// How it ended, if that was seen.
        status: Option<ExitStatus>,
        /// Its log.
        log: PathBuf,
        /// The end of what it has written there.
        tail: String,
    },
    /// What was started said something that no arbiter says.
    #[error("{} is no arbiter of ours; look what program that is", program.display())]
    NoArbiter {
        /// The program.
        program: PathBuf,
    },
    /// The program is of another release than this one, and their protocols differ.
    #[error("{mismatch}, although it was just started: {} is that other release; install both from one release", program.display())]
    OtherProgram {
        /// The program.
        program: PathBuf,
        /// The two.
        mismatch: Box<Mismatch>,
    },
    /// It is not ready yet, and goes on.
    #[error("the arbiter (process {pid}) is not ready yet; try again, or look into {}", log.display())]
    Slow {
        /// Its process id.
        pid: u32,
        /// Its log.
        log: PathBuf,
    },
    /// Each that was started listened, and was gone before it greeted.
    #[error("{STARTS_MAX} arbiters of {} came and went; look into arbiter.log there", path.display())]
    Vanished {
        /// The domain's folder.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    System {
        /// The domain's folder.
        path: PathBuf,
        /// What was being done, as a verb.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

fn operations(theirs: &Theirs) -> String {
    match theirs.operations {
        Some(1) => "an operation".into(),
        Some(number) => format!("{number} operations"),
        None => "something".into(),
    }
}

fn or_nothing(tail: &str) -> &str {
    if tail.is_empty() { "nothing" } else { tail }
}

impl Starter {
    /// Starts this program, with its own idle time and no variables.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            idle: None,
            variables: Vec::new(),
        }
    }

    /// What the program is started with, its own name left out.
    #[must_use]
    pub fn arguments(&self, domain_folder: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["arbiter".into(), "--domain".into()];
        words.extend([domain_folder.into(), "--daemon".into()]);
        if let Some(idle) = self.idle {
            words.extend(["--idle".into(), idle_word(idle).into()]);
        }
        words
    }

    /// Connects to the arbiter of a domain. Where there is none, makes the folder if need be and
    /// starts one, waiting for at most `patience` in all.
    ///
    /// An arbiter that is older than this program is ended and replaced if it runs nothing. If the
    /// program to be started is older as well, its arbiter is used all the same.
    ///
    /// # Errors
    /// [`StartError`]; none of them leaves the lock held. An arbiter that is [`StartError::Slow`] keeps
    /// it until it is ready.
    pub fn attach_or_start(
        &self,
        domain_folder: &Path,
        hello: &Hello,
        patience: Duration,
    ) -> Result<Started, StartError> {
        let deadline = Instant::now() + patience.min(PATIENCE_MAX);
        let endpoint = make_and_open(domain_folder)?;
        let started = |connection, was_started| Started {
            connection,
            was_started,
        };
        for _ in 0..STARTS_MAX {
            if let Some(connection) = attach(&endpoint, hello, deadline)? {
                return Ok(started(connection, false));
            }
            let gate = pass(&endpoint, deadline)?;
            // Somebody may have started one while the gate was closed.
            if let Some(connection) = attach(&endpoint, hello, deadline)? {
                return Ok(started(connection, false));
            }
            launch(self, &endpoint, gate, deadline)?;
            if let Some(connection) = self.attach_to_started(&endpoint, hello)? {
                return Ok(started(connection, true));
            }
        }
        Err(StartError::Vanished {
            path: endpoint.path().to_owned(),
        })
    }

    /// Connects to the arbiter that was just started. To replace one that is older than this program
    /// would only start the same again.
    fn attach_to_started(
        &self,
        endpoint: &Endpoint,
        hello: &Hello,
    ) -> Result<Option<Connection>, StartError> {
        match endpoint.connect(hello) {
            Ok(connection) => Ok(Some(connection)),
            Err(ConnectError::NoArbiter) => Ok(None),
            Err(ConnectError::Refused(fault)) if is_ending(&fault) => Ok(None),
            Err(ConnectError::Version(mismatch)) => Err(StartError::OtherProgram {
                program: self.program.clone(),
                mismatch,
            }),
            Err(error) => Err(error.into()),
        }
    }
}

/// As the program reads it. No number for what is as good as for ever: one that is too long for it is an error.
fn idle_word(idle: Duration) -> String {
    match idle >= NEVER_FROM {
        true => "never".to_owned(),
        false => format!("{}ms", idle.as_millis()),
    }
}

/// The folder, made where it is missing.
fn make_and_open(domain_folder: &Path) -> Result<Endpoint, StartError> {
    let unnamed = |source| StartError::System {
        path: domain_folder.to_owned(),
        doing: "find",
        source,
    };
    let dir = DomainDir::new(domain_folder).map_err(unnamed)?;
    let mut attempt = 1;
    loop {
        dir.make()?;
        match Endpoint::open(dir.root()) {
            Err(EndpointError::Missing { .. }) if attempt < FOLDER_ATTEMPTS_MAX => attempt += 1,
            other => return other.map_err(|error| ConnectError::from(error).into()),
        }
    }
}

fn pass(endpoint: &Endpoint, deadline: Instant) -> Result<Gate, StartError> {
    let path = || endpoint.path().to_owned();
    match Gate::acquire(endpoint, left(deadline)) {
        Ok(Some(gate)) => Ok(gate),
        Ok(None) => Err(StartError::Waiting { path: path() }),
        Err(source) => Err(StartError::System {
            path: path(),
            doing: "lock arbiter.lock in",
            source,
        }),
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Connects to an arbiter that this program works with. `None`: there is none, or it has ended or is
/// about to.
fn attach(
    endpoint: &Endpoint,
    hello: &Hello,
    deadline: Instant,
) -> Result<Option<Connection>, StartError> {
    let (mut connection, theirs) = match endpoint.greet(hello) {
        Ok(Greeting::Welcomed(connection)) => {
            let theirs = Theirs::from(connection.welcome());
            (connection, theirs)
        }
        Ok(Greeting::OtherVersion { connection, theirs }) => (connection, theirs),
        Err(ConnectError::NoArbiter) => return Ok(None),
        // Ours waits for the domain, and says so if that takes too long.
        Err(ConnectError::Refused(fault)) if is_ending(&fault) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let decision = negotiate(hello, &theirs);
    let mismatch = |theirs| Box::new(Mismatch::new(endpoint.path(), hello, theirs));
    match decision {
        Decision::Use => Ok(Some(connection)),
        Decision::Fail => Err(StartError::Older {
            mismatch: mismatch(theirs),
        }),
        Decision::ReplaceOrUse | Decision::ReplaceOrFail => {
            match retire(&mut connection, endpoint, deadline)? {
                Retired::Ended => Ok(None),
                Retired::Busy { .. } if decision == Decision::ReplaceOrUse => Ok(Some(connection)),
                Retired::Busy { operations } => {
                    let operations = operations.or(theirs.operations);
                    let theirs = Theirs {
                        operations,
                        ..theirs
                    };
                    Err(StartError::Outdated {
                        mismatch: mismatch(theirs),
                    })
                }
            }
        }
    }
}

/// What has become of an arbiter that was asked to end.
enum Retired {
    Ended,
    /// It runs something, and goes on.
    Busy {
        operations: Option<u64>,
    },
}

/// Asks an arbiter to end if it runs nothing, and waits until it has.
fn retire(
    connection: &mut Connection,
    endpoint: &Endpoint,
    deadline: Instant,
) -> Result<Retired, StartError> {
    let ask = Shutdown {
        running: Running::Refuse,
        grace_ms: None,
    };
    let answer = connection.call_within::<_, ShutdownBegun>(Method::Shutdown, ask, left(deadline));
    let end = match answer {
        Ok(_) => connection.wait_end(left(deadline)),
        Err(CallError::Refused(fault)) if is_ending(&fault) => connection.wait_end(left(deadline)),
        // It runs something. For whatever else it does not end, it goes on as well.
        Err(CallError::Refused(fault)) => {
            let operations = fault
                .subject("operations")
                .and_then(|number| number.as_u64());
            return Ok(Retired::Busy { operations });
        }
        Err(CallError::Connection(error)) => Err(error),
    };
    let path = endpoint.path().to_owned();
    match end {
        Ok(()) | Err(ConnectionError::Gone) => Ok(Retired::Ended),
        Err(ConnectionError::Silent) => Err(StartError::Ending {
            path,
            pid: connection.welcome().pid,
        }),
        Err(source) => {
            let path = endpoint.socket_path();
            Err(ConnectError::Garbage { path, source }.into())
        }
    }
}

fn is_ending(fault: &Fault) -> bool {
    fault.kind() == Some(kind::SHUTTING_DOWN)
}
