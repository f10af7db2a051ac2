//! The first words on a connection, and what can come of them. `endpoint` has made and checked the
//! socket; `negotiate` judges an arbiter of another release.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xioflow_rpc::codec::LineError;
use xioflow_rpc::kernel::{Hello, Welcome};
use xioflow_rpc::method::Method;
use xioflow_rpc::refusal::{Fault, kind};

use crate::connection::{CallError, Connection, ConnectionError};
use crate::endpoint::{EndpointError, GREETING_WAIT};
use crate::negotiate::{Mismatch, Theirs};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens, or who did went away before it greeted.
    #[error("the domain has no arbiter")]
    NoArbiter,
    /// What is there is not trusted.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The arbiter refused this client.
    #[error("the arbiter refused: {0}")]
    Refused(Fault),
    /// The arbiter speaks another protocol.
    #[error("{0}; the two cannot work together")]
    Version(Box<Mismatch>),
    /// Who listens does not greet: it is stopped or stuck.
    #[error("the arbiter at {} did not greet within {} s; look at its process, and end it if it is stuck",
        path.display(), GREETING_WAIT.as_secs())]
    Silent {
        /// The socket's place.
        path: PathBuf,
    },
    /// Who listens does not speak as an arbiter does.
    #[error("what listens at {} does not speak as an arbiter does", path.display())]
    Garbage {
        /// The socket's place.
        path: PathBuf,
        /// What it did.
        source: ConnectionError,
    },
}

/// Whoever listens has answered the greeting.
pub(crate) enum Greeting {
    /// It speaks our protocol.
    Welcomed(Connection),
    /// It speaks another one. All that can be said to it is `kernel.shutdown`.
    OtherVersion {
        connection: Connection,
        theirs: Theirs,
    },
}

/// Greets over a socket that was checked.
pub(crate) fn exchange(
    socket: OwnedFd,
    hello: &Hello,
    path: &Path,
    wait: Duration,
) -> Result<Greeting, ConnectError> {
    let mut connection = Connection::new(socket);
    let answer = connection.call_within::<_, Welcome>(Method::Hello, hello, wait);
    match answer {
        Ok(welcome) if welcome.protocol == hello.protocol => {
            connection.welcome = welcome;
            Ok(Greeting::Welcomed(connection))
        }
        Ok(welcome) => Ok(Greeting::OtherVersion {
            connection,
            theirs: Theirs::from(&welcome),
        }),
        Err(CallError::Refused(fault)) => refused(connection, fault),
        Err(CallError::Connection(error)) => Err(unanswered(error, path)),
    }
}

fn refused(connection: Connection, fault: Fault) -> Result<Greeting, ConnectError> {
    if fault.kind() == Some(kind::VERSION)
        && let Some(theirs) = Theirs::of_refusal(&fault)
    {
        return Ok(Greeting::OtherVersion { connection, theirs });
    }
    Err(ConnectError::Refused(fault))
}

/// An arbiter that ends before it has greeted is as good as none, even in the middle of a word.
fn unanswered(error: ConnectionError, path: &Path) -> ConnectError {
    let path = path.to_owned();
    match error {
        ConnectionError::Gone | ConnectionError::Line(LineError::Unfinished { .. }) => {
            ConnectError::NoArbiter
        }
        ConnectionError::Silent => ConnectError::Silent { path },
        source => ConnectError::Garbage { path, source },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn error_of(socket: UnixStream) -> ConnectError {
        let hello = Hello {
            protocol: 1,
            release: "0.1.0".into(),
            client: String::new(),
        };
        let wait = Duration::from_millis(20);
        let greeting = exchange(socket.into(), &hello, Path::new("/d/kernel.sock"), wait);
        greeting.err().expect("nobody greeted")
    }

    #[test]
    fn what_was_refused_before_we_said_anything_is_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"full"}}"#;
        theirs.write_all(format!("{refusal}\n").as_bytes()).unwrap();
        drop(theirs);
        let error = error_of(ours);
        assert!(matches!(error, ConnectError::Refused(_)), "{error}");
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = error_of(ours);
        assert!(matches!(error, ConnectError::NoArbiter), "{error}");
    }

    #[test]
    fn an_arbiter_that_does_not_greet_is_not_waited_for_for_ever() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let error = error_of(ours);
        assert!(matches!(error, ConnectError::Silent { .. }), "{error}");
        assert!(error.to_string().contains("/d/kernel.sock"));
    }
}
