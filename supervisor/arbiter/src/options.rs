//! How an arbiter is set up, and what others hold of it while it serves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// After how long without clients and operations an arbiter ends, unless it is told otherwise.
pub const DEFAULT_IDLE: Duration = Duration::from_secs(30);

/// How long an operation whose only client is gone may go on, unless it is told otherwise: long enough for
/// a client that was restarted to submit the same again.
pub const DEFAULT_CLIENT_GRACE: Duration = Duration::from_secs(2);

/// How long the arbiter before may take to give the domain up, unless it is told otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// Helpers that wait for work, unless it is told otherwise.
pub const DEFAULT_WARM_HELPERS: usize = 1;

/// How an arbiter serves.
#[derive(Debug)]
pub struct ArbiterOptions {
    /// After how long without clients and operations it ends; `None`: never.
    pub idle: Option<Duration>,
    /// How long an operation whose only client is gone may go on before it is stopped.
    pub client_grace: Duration,
    /// The helper's program, instead of the one that is found.
    pub helper: Option<PathBuf>,
    /// How many helpers wait for work ([`xioflow_kernel::DomainOptions::warm_helpers`]).
    pub warm_helpers: usize,
    /// How many operations run at once; `None`: as many as are asked for.
    pub max_concurrent_operations: Option<usize>,
    /// What the memory limits of running operations may come to, in bytes
    /// ([`xioflow_kernel::DomainOptions::max_total_memory_bytes`]); `None`: whatever they are.
    pub max_total_memory_bytes: Option<u64>,
    /// What running operations may store of their output, in bytes
    /// ([`xioflow_kernel::DomainOptions::max_total_output_bytes`]); `None`: whatever each may.
    pub max_total_output_bytes: Option<u64>,
    /// How many bytes stored output may take ([`xioflow_kernel::DomainOptions::max_artifact_bytes`]); `None`: as
    /// many as without a word, and then none goes for new.
    pub max_artifact_bytes: Option<u64>,
    /// How long to wait for another owner to give the domain up.
    pub wait: Duration,
    /// Ends it from outside, for signals.
    pub shutdown: Option<ShutdownHandle>,
}

impl Default for ArbiterOptions {
    fn default() -> Self {
        Self {
            idle: Some(DEFAULT_IDLE),
            client_grace: DEFAULT_CLIENT_GRACE,
            helper: None,
            warm_helpers: DEFAULT_WARM_HELPERS,
            max_concurrent_operations: None,
            max_total_memory_bytes: None,
            max_total_output_bytes: None,
            max_artifact_bytes: None,
            wait: DEFAULT_WAIT,
            shutdown: None,
        }
    }
}

/// Ends an arbiter from another thread.
#[derive(Debug, Clone)]
pub struct ShutdownHandle {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    wake: OwnedFd,
    grace_ms: AtomicU64,
}

impl ShutdownHandle {
    /// Makes one, to be put into [`ArbiterOptions::shutdown`].
    ///
    /// # Errors
    /// Those of eventfd(2): too many open files, or no memory.
    pub fn new() -> io::Result<Self> {
        let inner = Inner {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            grace_ms: AtomicU64::new(0),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Has it take nothing new, stop what runs, and end. What runs is asked to end (SIGTERM), and what is left
    /// after the grace is killed. Once more, with a shorter grace, makes it quicker. Returns at once.
    pub fn stop(&self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.inner.grace_ms.store(grace_ms, Ordering::SeqCst);
        // It fails only when the counter is full, and then the loop is awake already.
        rustix::io::write(&self.inner.wake, &1_u64.to_ne_bytes()).ok();
    }

    /// Takes the wish. Called when the descriptor is readable.
    pub(crate) fn take(&self) -> Duration {
        let mut count = [0; 8];
        rustix::io::read(&self.inner.wake, &mut count).ok();
        Duration::from_millis(self.inner.grace_ms.load(Ordering::SeqCst))
    }
}

impl AsFd for ShutdownHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.wake.as_fd()
    }
}
