//! What others want of a running operation, and the descriptor that wakes it for that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use xioflow_journal::Stream;

use crate::pause::{PauseError, Standing};
use crate::stop::StopRequest;

/// One wish.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Stop the operation.
    Stop(StopRequest),
    /// Close the read end of a stream: its reader is gone.
    CloseStream(Stream),
    /// Pause the operation, or have it go on.
    Stand {
        /// Which of the two.
        still: bool,
        /// Who is told what came of it.
        answer: SyncSender<Result<Standing, PauseError>>,
    },
    /// Have every process of the tree stand still, or go on, as its terminal does.
    JobControl {
        /// Which of the two.
        suspend: bool,
        /// Told once the helper was.
        passed_on: SyncSender<()>,
    },
}

/// The mailbox of one operation.
#[derive(Debug)]
pub(crate) struct Control {
    wake: OwnedFd,
    /// Set when the operation is submitted.
    operation_id: OnceLock<String>,
    /// Whether the submission has joined the operation of another one.
    joined: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    wishes: Vec<Wish>,
    finished: bool,
}

impl Control {
    /// Makes an empty mailbox.
    ///
    /// # Errors
    /// Those of eventfd(2): too many open files, or no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            wake,
            operation_id: OnceLock::new(),
            joined: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A wish is pushed whole or not at all.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whose mailbox it is. Only the first name counts.
    pub(crate) fn set_operation(&self, id: &str) {
        self.operation_id.get_or_init(|| id.to_owned());
    }

    /// Whose mailbox it is; empty before the submission.
    pub(crate) fn operation_id(&self) -> &str {
        self.operation_id.get().map_or("", String::as_str)
    }

    /// Says whether the submission waits for the operation of another one.
    pub(crate) fn set_joined(&self, joined: bool) {
        self.joined.store(joined, Ordering::Release);
    }

    /// Whether it does.
    pub(crate) fn has_joined(&self) -> bool {
        self.joined.load(Ordering::Acquire)
    }

    /// Leaves a wish and wakes the operation; false if it is finished.
    pub(crate) fn wish(&self, wish: Wish) -> bool {
        let mut state = self.lock();
        if state.finished {
            return false;
        }
        state.wishes.push(wish);
        drop(state);
        self.nudge();
        true
    }

    /// Wakes whoever sleeps on the descriptor.
    pub(crate) fn nudge(&self) {
        // It fails only when the counter is full, and then the sleeper is awake already.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    /// Forgets earlier wake-ups, so that the next sleep waits for a new one. The caller looks at
    /// the state that it waits for before and after.
    pub(crate) fn clear_wake(&self) {
        let mut count = [0; 8];
        // Nothing to read means that there was no wake-up.
        rustix::io::read(&self.wake, &mut count).ok();
    }

    /// Takes all wishes. Called when the descriptor is readable.
    pub(crate) fn take(&self) -> Vec<Wish> {
        self.clear_wake();
        std::mem::take(&mut self.lock().wishes)
    }

    /// The first wish to stop, left in place: for the moments before there is a process.
    pub(crate) fn stop_wish(&self) -> Option<StopRequest> {
        self.lock().wishes.iter().find_map(|wish| match wish {
            Wish::Stop(request) => Some(request.clone()),
            Wish::CloseStream(_) | Wish::Stand { .. } | Wish::JobControl { .. } => None,
        })
    }

    /// Ends it: later wishes are refused.
    pub(crate) fn finish(&self) {
        self.lock().finished = true;
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
