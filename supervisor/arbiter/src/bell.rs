//! Wakes the loop for what other threads have done, and says which connections that is about.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::connection::Token;

/// A descriptor that becomes readable, and a list.
#[derive(Debug)]
pub(crate) struct Bell {
    wake: OwnedFd,
    about: Mutex<Vec<Token>>,
}

impl Bell {
    /// # Errors
    /// Those of eventfd(2).
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            about: Mutex::default(),
        })
    }

    fn about(&self) -> MutexGuard<'_, Vec<Token>> {
        // Entries are pushed whole.
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the loop look at a connection.
    pub(crate) fn ring_for(&self, token: Token) {
        let mut about = self.about();
        // One that is rung for often before the loop gets there would fill memory.
        if !about.contains(&token) {
            about.push(token);
        }
        drop(about);
        self.ring();
    }

    /// Has the loop look at what is everybody's: what runs, who is lost, whether to end.
    pub(crate) fn ring(&self) {
        // It fails only when the counter is full, and then the loop is awake already.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    /// Takes the list. Called when the descriptor is readable.
    pub(crate) fn answer(&self) -> Vec<Token> {
        let mut count = [0; 8];
        // Before the list, so that nothing that is pushed now is forgotten.
        rustix::io::read(&self.wake, &mut count).ok();
        std::mem::take(&mut *self.about())
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
