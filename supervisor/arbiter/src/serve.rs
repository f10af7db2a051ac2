//! The life of an arbiter: it takes the domain, listens, serves, and gives everything back in order.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use xioflow_facts::{CannotTell, Standing};
use xioflow_kernel::journal::OwnerRole;
use xioflow_kernel::{Arbiter, DomainError, DomainOptions};
use xioflow_killpoint as killpoint;
use xioflow_rpc::PROTOCOL_VERSION;
use xioflow_rpc::kernel::Welcome;

use crate::options::ArbiterOptions;
use crate::own_limits::OwnLimits;
use crate::server::{Server, Setup};
use crate::socket::{Listener, SocketError};

/// How an arbiter ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nobody needed it for as long as it may be idle.
    Idle,
    /// It was told to.
    Told,
}

/// Why there is no arbiter.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The domain cannot be owned.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// There is no socket to listen at.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// It cannot tell what it may do itself, so it could not compare its clients with it.
    #[error("failed to tell what this process may do")]
    Standing(#[source] CannotTell),
    /// The system refused something.
    #[error("failed to {act} for the domain in {}", folder.display())]
    System {
        /// What was tried.
        act: &'static str,
        /// The domain.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Owns the domain in `folder` and executes for its clients, until it is told to end or nobody needs it.
///
/// `ready` is called once clients can connect. On return the domain is given up, the socket is gone, and
/// whoever was connected has been told so by the end of the connection.
///
/// The process becomes the net below its helpers ([`DomainOptions::adopt_orphans`]): it must start no
/// children of its own. Its limit of open files is raised as far as that goes; commands get the one
/// that it had. SIGPIPE must be ignored, as Rust's runtime does, for a client's pipe may break at any time.
///
/// # Errors
/// [`ServeError`] if it cannot begin, or epoll(7) fails; the domain is then given up as well.
pub fn serve(
    folder: &Path,
    options: ArbiterOptions,
    ready: impl FnOnce(),
) -> Result<Ended, ServeError> {
    let failed = |act| {
        move |source: io::Error| ServeError::System {
            act,
            folder: folder.to_owned(),
            source,
        }
    };
    let own = Standing::of(std::process::id()).map_err(ServeError::Standing)?;
    let own_limits = OwnLimits::lift();
    let mut domain = DomainOptions::default()
        .arbiter(Arbiter::Never)
        .adopt_orphans(true)
        .role(OwnerRole::Arbiter)
        .warm_helpers(options.warm_helpers)
        .wait(options.wait);
    if let Some(helper) = &options.helper {
        domain = domain.helper(helper);
    }
    if let Some(max) = options.max_concurrent_operations {
        domain = domain.max_concurrent_operations(max);
    }
    if let Some(max) = options.max_total_memory_bytes {
        domain = domain.max_total_memory_bytes(max);
    }
    if let Some(max) = options.max_total_output_bytes {
        domain = domain.max_total_output_bytes(max);
    }
    if let Some(max) = options.max_artifact_bytes {
        domain = domain.max_artifact_bytes(max);
    }
    let domain = domain.open(folder)?;
    killpoint::pass(|| "arbiter:owned");
    let listener = Listener::bind(domain.folder())?;
    killpoint::pass(|| "arbiter:bound");
    let setup = Setup {
        domain: Arc::new(domain),
        listener,
        own,
        welcome: welcome(),
        own_limits,
        options,
    };
    let mut server = Server::new(setup).map_err(failed("set up a loop"))?;
    ready();
    killpoint::pass(|| "arbiter:ready");
    let ended = server.run();
    killpoint::pass(|| "arbiter:before-end");
    server.end();
    ended.map_err(failed("wait for clients"))
}

fn welcome() -> Welcome {
    Welcome {
        protocol: PROTOCOL_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
    }
}
