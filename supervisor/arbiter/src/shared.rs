//! What the loop and the threads that it starts know together.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::bell::Bell;
use crate::budget::Budget;
use crate::connection::Token;
use crate::dispatch::ReadLine;
use crate::own_limits::OwnLimits;
use crate::session::Sessions;

/// Everything that is not the loop's alone.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bell: Arc<Bell>,
    pub(crate) sessions: Sessions,
    pub(crate) budget: Arc<Budget>,
    /// The limits that this process was started with.
    pub(crate) own_limits: OwnLimits,
    /// Long lines that were looked at, for the loop to carry out.
    read: Mutex<Vec<(Token, ReadLine)>>,
    /// Outputs that are being passed on.
    passing: AtomicUsize,
    /// Readable once the arbiter ends, and ever after.
    ends: OwnedFd,
    /// Whether nothing can be recorded any more.
    domain_lost: AtomicBool,
}

impl Shared {
    /// # Errors
    /// Those of eventfd(2).
    pub(crate) fn new(
        bell: Arc<Bell>,
        client_grace: Duration,
        own_limits: OwnLimits,
    ) -> io::Result<Self> {
        Ok(Self {
            sessions: Sessions::new(Arc::clone(&bell), client_grace),
            bell,
            budget: Arc::default(),
            own_limits,
            read: Mutex::default(),
            passing: AtomicUsize::new(0),
            domain_lost: AtomicBool::new(false),
            ends: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Says that the arbiter ends.
    pub(crate) fn begin_end(&self) {
        // The first of two cannot fail, and more are not needed.
        rustix::io::write(&self.ends, &1_u64.to_ne_bytes()).ok();
    }

    /// A descriptor that is readable once the arbiter ends.
    pub(crate) fn ends(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }

    /// Hands a line back to the loop.
    pub(crate) fn has_read(&self, of: Token, line: ReadLine) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.push((of, line));
        drop(read);
        self.bell.ring();
    }

    /// Takes the lines that were looked at.
    pub(crate) fn take_read(&self) -> Vec<(Token, ReadLine)> {
        // Entries are pushed whole.
        std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the loop end, because nothing can be recorded any more.
    pub(crate) fn note_domain_lost(&self) {
        self.domain_lost.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Whether it is to end for that.
    pub(crate) fn has_lost_domain(&self) -> bool {
        self.domain_lost.load(Ordering::SeqCst)
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
