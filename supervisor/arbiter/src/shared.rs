//! What the loop and the threads that it starts know together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::bell::Bell;
use crate::session::Sessions;

/// Everything that is not the loop's alone.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bell: Arc<Bell>,
    pub(crate) sessions: Sessions,
    /// Outputs that are being passed on.
    passing: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(bell: Arc<Bell>, client_grace: Duration) -> Self {
        Self {
            sessions: Sessions::new(Arc::clone(&bell), client_grace),
            bell,
            passing: AtomicUsize::new(0),
        }
    }

    /// Counts one more output that is passed on, until the guard is dropped.
    pub(crate) fn begin_passing(self: &Arc<Self>) -> PassingGuard {
        self.passing.fetch_add(1, Ordering::SeqCst);
        PassingGuard(Arc::clone(self))
    }

    /// How many outputs are being passed on.
    pub(crate) fn passing(&self) -> usize {
        self.passing.load(Ordering::SeqCst)
    }
}

/// See [`Shared::begin_passing`].
#[derive(Debug)]
pub(crate) struct PassingGuard(Arc<Shared>);

impl Drop for PassingGuard {
    fn drop(&mut self) {
        self.0.passing.fetch_sub(1, Ordering::SeqCst);
        self.0.bell.ring();
    }
}
