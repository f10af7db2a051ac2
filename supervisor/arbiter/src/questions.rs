//! Answers what may have to wait for the disk or for a lock, beside the loop: at most a few at a time, and
//! one of each connection, so that whoever asks a thousand times waits behind others that ask once.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use xioflow_kernel::Domain;

use crate::bell::Bell;
use crate::connection::Token;
use crate::limits::STACK_BYTES;

/// Threads at once. They exist only while there is something to answer.
const WORKERS_MAX: usize = 4;

/// Something to be answered.
type Question = Box<dyn FnOnce(&Domain) + Send>;

/// What waits to be answered.
#[derive(Debug)]
pub(crate) struct Questions {
    bell: Arc<Bell>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections whose turn comes, in this order.
    turns: VecDeque<Token>,
    /// What each has asked. One that is being answered is here with what comes after that.
    asked: HashMap<Token, VecDeque<Question>>,
    workers: usize,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("turns", &self.turns)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl Questions {
    pub(crate) fn new(bell: Arc<Bell>) -> Self {
        Self {
            bell,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Questions are taken out before they are answered, so none can break this.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a question answered soon.
    ///
    /// # Errors
    /// There is no thread for it, and the question was dropped.
    pub(crate) fn ask(
        self: &Arc<Self>,
        domain: &Arc<Domain>,
        of: Token,
        question: impl FnOnce(&Domain) + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.lock();
        if state.workers < WORKERS_MAX {
            let (questions, domain) = (Arc::clone(self), Arc::clone(domain));
            let worker = thread::Builder::new()
                .name("xioflow-answers".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || questions.work(domain));
            match worker {
                Ok(_) => state.workers += 1,
                Err(error) if state.workers == 0 => return Err(error),
                // Those that there are get to it.
                Err(_) => {}
            }
        }
        match state.asked.get_mut(&of) {
            Some(asked) => asked.push_back(Box::new(question)),
            None => {
                state
                    .asked
                    .insert(of, VecDeque::from([Box::new(question) as Question]));
                state.turns.push_back(of);
            }
        }
        Ok(())
    }

    /// Whether nothing is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().workers == 0
    }

    fn work(&self, domain: Arc<Domain>) {
        while let Some((of, question)) = self.next() {
            question(&domain);
            self.answered(of);
        }
        // The loop may give the domain up as soon as nobody is at work.
        drop(domain);
        self.lock().workers -= 1;
        self.bell.ring();
    }

    fn next(&self) -> Option<(Token, Question)> {
        let mut state = self.lock();
        let of = state.turns.pop_front()?;
        let question = state.asked.get_mut(&of)?.pop_front()?;
        Some((of, question))
    }

    fn answered(&self, of: Token) {
        let mut state = self.lock();
        match state.asked.get(&of) {
            Some(asked) if !asked.is_empty() => state.turns.push_back(of),
            _ => {
                state.asked.remove(&of);
            }
        }
    }
}
