//! A domain that an arbiter owns: the same requests, carried out over there.
//!
//! A connection serves one operation at a time, on the thread that waits for it, so nothing has to be
//! sorted out between threads; those that are free are kept for the next. `request` is what travels there,
//! `execute` sees an operation to its result, `frames` is its output, `attach` another's, `ask` every request with
//! one answer, `upkeep` those about what is recorded, `fault` what is refused.

mod ask;
mod attach;
mod execute;
mod fault;
mod frames;
mod request;
mod upkeep;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use xioflow_client::{ConnectError, Connection, ConnectionError, Endpoint, Received, Starter};
use xioflow_journal::LazyReader;
use xioflow_rpc::envelope::{Id, Request};
use xioflow_rpc::kernel::{Hello, Welcome};
use xioflow_rpc::method::Method;
use xioflow_rpc::{PROTOCOL_VERSION, SOCKET_NAME};

use crate::error::{ArbiterError, DomainError};

pub(crate) use attach::RemoteAttachment;
pub(crate) use execute::execute;
pub use fault::NOT_UNDERSTOOD;
pub(crate) use frames::{Frames, frames};
pub(crate) use request::RemoteOutput;

/// Connections that are kept while nobody uses them. Each is a descriptor at both ends.
const IDLE_MAX: usize = 8;

/// How long an arbiter may take to be there: one that was killed left trees that its helpers end, and
/// a new one waits for that before it admits anything.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// How a domain finds out who executes its operations.
#[derive(Debug, Clone, Default)]
pub enum Arbiter {
    /// This process, or nobody: a domain that somebody else owns is not opened.
    Never,
    /// The arbiter, if one owns the domain; else this process.
    #[default]
    Attach,
    /// The arbiter; it is started if nobody owns the domain.
    Start(Starter),
}

/// Who executes the operations of a domain that this process does not own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArbiterInfo {
    /// Its process id.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// Since when it serves, RFC 3339.
    pub started_at: String,
    /// Whether it was started for this client.
    pub was_started: bool,
}

/// A domain as a client of its arbiter has it.
#[derive(Debug)]
pub(crate) struct Attached {
    folder: PathBuf,
    endpoint: Endpoint,
    info: ArbiterInfo,
    idle: Mutex<Vec<Connection>>,
    record: LazyReader,
    closed: AtomicBool,
}

/// What this program says of itself to an arbiter.
pub(crate) fn hello() -> Hello {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_name);
    Hello {
        protocol: PROTOCOL_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        client: name.map_or_else(String::new, |it| it.to_string_lossy().into_owned()),
    }
}

impl Attached {
    /// Comes to the arbiter of the domain in `folder`; `None` if there is none and none is to be started.
    pub(crate) fn open(folder: &Path, arbiter: &Arbiter) -> Result<Option<Self>, DomainError> {
        let found = match arbiter {
            Arbiter::Never => None,
            Arbiter::Attach => running(folder)?.map(|connection| (connection, false)),
            Arbiter::Start(starter) => {
                let started = starter.attach_or_start(folder, &hello(), START_PATIENCE)?;
                Some((started.connection, started.was_started))
            }
        };
        let Some((connection, was_started)) = found else {
            return Ok(None);
        };
        let Welcome {
            pid,
            release,
            started_at,
            ..
        } = connection.welcome().clone();
        Ok(Some(Self {
            folder: folder.to_owned(),
            endpoint: Endpoint::open(folder).map_err(ConnectError::from)?,
            info: ArbiterInfo {
                pid,
                release,
                started_at,
                was_started,
            },
            idle: Mutex::new(vec![connection]),
            record: LazyReader::new(folder),
            closed: AtomicBool::new(false),
        }))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn info(&self) -> &ArbiterInfo {
        &self.info
    }

    /// The record, read beside the arbiter.
    pub(crate) fn record(&self) -> &LazyReader {
        &self.record
    }

    /// Takes nothing new from this process any more; the arbiter goes on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // Connections come and go whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for one request or one operation.
    fn connection(&self) -> Result<Connection, ArbiterError> {
        // One that was closed meanwhile belongs to an arbiter that is gone.
        if let Some(mut idle) = self.idle().pop()
            && matches!(idle.try_receive(), Ok(Received::Nothing))
        {
            return Ok(idle);
        }
        self.endpoint
            .connect(&hello())
            .map_err(|error| match error {
                ConnectError::NoArbiter => self.lost(),
                ConnectError::Refused(fault) => fault.into(),
                other => ArbiterError::Connection(Box::new(other)),
            })
    }

    /// Keeps a connection on which nothing is expected any more.
    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    /// Sends a request; the answer is for whoever waits for it.
    fn request(
        connection: &mut Connection,
        method: Method,
        words: impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Id, ConnectionError> {
        let id = connection.next_id();
        connection.send(&Request::new(id.clone(), method, words), descriptors)?;
        Ok(id)
    }

    fn broken(&self, error: ConnectionError) -> ArbiterError {
        match error {
            ConnectionError::Gone => self.lost(),
            other => ArbiterError::Connection(Box::new(other)),
        }
    }

    fn lost(&self) -> ArbiterError {
        ArbiterError::Lost {
            folder: self.folder.clone(),
        }
    }
}

/// Waits while somebody starts an arbiter of the domain.
pub(crate) fn await_start(folder: &Path) -> Result<(), DomainError> {
    let endpoint = Endpoint::open(folder).map_err(ConnectError::from)?;
    endpoint
        .await_start(START_PATIENCE)
        .map_err(|source| DomainError::Folder {
            path: folder.to_owned(),
            source,
        })
}

/// A connection to the arbiter that runs, if one does.
fn running(folder: &Path) -> Result<Option<Connection>, DomainError> {
    // Whoever owns the domain looks at its folder for itself; here it matters if there is somebody.
    if folder.join(SOCKET_NAME).symlink_metadata().is_err() {
        return Ok(None);
    }
    let endpoint = Endpoint::open(folder).map_err(ConnectError::from)?;
    match endpoint.connect(&hello()) {
        Ok(connection) => Ok(Some(connection)),
        Err(ConnectError::NoArbiter) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
