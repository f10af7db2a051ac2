//! The operations that this process executes at this moment: who has an id, who joined, and who
//! can be stopped. `operation/admit` reserves ids here; `domain` stops operations by theirs.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use xioflow_journal::ReplayMode;

use crate::control::Control;
use crate::output::Feeds;

/// An operation that this process executes: it waits for resources, runs, or is being recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// Its id.
    pub operation_id: String,
    /// The Run that it belongs to, or will when it is recorded.
    pub run_id: String,
    /// How many others wait for its result: submissions that joined it, and those who are
    /// attached to it ([`crate::Domain::attach`]).
    pub joiners: usize,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_id: HashMap<String, Arc<Flight>>,
    closed: bool,
}

/// One operation in execution.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) fingerprint: String,
    pub(crate) run_id: String,
    /// Where wishes to stop it are left.
    pub(crate) control: Arc<Control>,
    /// Who sees its output while it comes.
    pub(crate) feeds: Arc<Feeds>,
    /// Whether it is no execution but an earlier result that is given again.
    answered: AtomicBool,
    joiners: Mutex<Joiners>,
}

#[derive(Debug, Default)]
struct Joiners {
    landed: bool,
    waiting: Vec<Arc<Control>>,
}

/// How a joiner's wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The operation is over.
    Landed,
    /// The joiner was told to stop waiting. The operation is untouched.
    Abandoned,
}

impl Flight {
    pub(crate) fn new(
        fingerprint: String,
        run_id: String,
        control: Arc<Control>,
        feeds: Arc<Feeds>,
    ) -> Self {
        Self {
            fingerprint,
            run_id,
            control,
            feeds,
            answered: AtomicBool::new(false),
            joiners: Mutex::default(),
        }
    }

    fn joiners(&self) -> MutexGuard<'_, Joiners> {
        // A flag and a list, each changed in one step.
        self.joiners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters one more who waits for its end, until it lands or [`Flight::leave`].
    pub(crate) fn enter(&self, joiner: &Arc<Control>) {
        self.joiners().waiting.push(Arc::clone(joiner));
    }

    /// Takes one out again who was entered.
    pub(crate) fn leave(&self, joiner: &Arc<Control>) {
        self.joiners()
            .waiting
            .retain(|other| !Arc::ptr_eq(other, joiner));
    }

    /// Waits until it is over, or until `joiner`, who was entered, is told to stop.
    pub(crate) fn wait(&self, joiner: &Arc<Control>) -> Joined {
        loop {
            // Before the look, not after it: a wake-up that comes in between must not be lost.
            joiner.clear_wake();
            if self.joiners().landed {
                return Joined::Landed;
            }
            if joiner.stop_wish().is_some() {
                self.leave(joiner);
                return Joined::Abandoned;
            }
            let mut polled = [PollFd::from_borrowed_fd(joiner.as_fd(), PollFlags::IN)];
            // An interrupted wait only looks again.
            poll(&mut polled, None).ok();
        }
    }

    /// What whoever joined it got. Known when it is over.
    pub(crate) fn replay_mode(&self) -> ReplayMode {
        match self.answered.load(Ordering::SeqCst) {
            true => ReplayMode::Recorded,
            false => ReplayMode::Joined,
        }
    }

    fn land(&self) {
        self.feeds.end();
        let waiting = {
            let mut joiners = self.joiners();
            joiners.landed = true;
            std::mem::take(&mut joiners.waiting)
        };
        for joiner in waiting {
            joiner.nudge();
        }
    }
}

/// What a submission meets.
#[derive(Debug)]
pub(crate) enum Submission<'a> {
    /// Nobody executes this id; it is reserved until the guard is dropped.
    First(FlightGuard<'a>),
    /// The same operation is being executed.
    Same(Arc<Flight>),
    /// Another operation with this id is.
    Other(Arc<Flight>),
    /// The domain takes nothing any more.
    Closed,
}

/// Keeps an id reserved.
#[derive(Debug)]
pub(crate) struct FlightGuard<'a> {
    flights: &'a Flights,
    id: String,
}

impl FlightGuard<'_> {
    /// Notes that nothing is executed: there is a result already.
    pub(crate) fn note_answered(&self) {
        if let Some(flight) = self.flights.get(&self.id) {
            flight.answered.store(true, Ordering::SeqCst);
        }
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Entries are inserted and removed whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves an id for `new`, or says who has it.
    pub(crate) fn submit(
        &self,
        id: &str,
        new: impl FnOnce() -> Flight,
        same: &str,
    ) -> Submission<'_> {
        let mut state = self.lock();
        if state.closed {
            return Submission::Closed;
        }
        match state.by_id.get(id) {
            Some(flight) if flight.fingerprint == same => Submission::Same(Arc::clone(flight)),
            Some(flight) => Submission::Other(Arc::clone(flight)),
            None => {
                state.by_id.insert(id.to_owned(), Arc::new(new()));
                Submission::First(FlightGuard {
                    flights: self,
                    id: id.to_owned(),
                })
            }
        }
    }

    /// The one with this id.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Flight>> {
        self.lock().by_id.get(id).map(Arc::clone)
    }

    /// All that are in execution, by id.
    pub(crate) fn list(&self) -> Vec<InFlight> {
        let mut list: Vec<InFlight> = self
            .lock()
            .by_id
            .iter()
            .map(|(id, flight)| InFlight {
                operation_id: id.clone(),
                run_id: flight.run_id.clone(),
                joiners: flight.joiners().waiting.len(),
            })
            .collect();
        list.sort_unstable_by(|one, other| one.operation_id.cmp(&other.operation_id));
        list
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        let landed = self.flights.lock().by_id.remove(&self.id);
        if let Some(flight) = landed {
            flight.land();
        }
    }
}
