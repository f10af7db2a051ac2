//! Waiting for resources: the lease table shared by the operations of a domain.
//!
//! Nobody polls: a waiter sleeps on the descriptor of its own mailbox, which both a grant and a
//! cancellation wake.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::control::Control;
use crate::deadline::timespec_until;
use crate::leases::{Claim, Conflict, DomainBudget, LeaseTable, Share};

/// The lease table of a domain with those who wait.
#[derive(Debug)]
pub(crate) struct Leases {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: LeaseTable,
    sleepers: HashMap<String, Arc<Control>>,
    granted: HashSet<String>,
    closed: bool,
}

/// How asking for resources ended.
#[derive(Debug)]
pub(crate) enum Allocation {
    /// The operation holds them all.
    Granted,
    /// Somebody else does, and the wait is over.
    Refused(Conflict),
    /// It was cancelled while it waited.
    Cancelled,
    /// The domain was closed while it waited.
    Closed,
}

/// What operations have of the budget of their domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How many there are that have not ended.
    pub(crate) operations: usize,
    /// What they have of its amounts, with those that ended without proof.
    pub(crate) share: Share,
    /// How many wait for something.
    pub(crate) waiting: usize,
}

impl Leases {
    pub(crate) fn new(table: LeaseTable) -> Self {
        let state = State {
            table,
            sleepers: HashMap::new(),
            granted: HashSet::new(),
            closed: false,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The table's methods leave it whole also when their caller panics later.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all of `claim` for `operation`, waiting at most `wait`.
    pub(crate) fn allocate(
        &self,
        operation: &str,
        claim: &Claim,
        wait: Duration,
        control: &Arc<Control>,
    ) -> Allocation {
        {
            let mut state = self.lock();
            match state.table.try_take(operation, claim) {
                Ok(()) => return Allocation::Granted,
                Err(conflict) if wait.is_zero() => return Allocation::Refused(conflict),
                Err(_) => {}
            }
            state.table.wait(operation, claim);
            state
                .sleepers
                .insert(operation.to_owned(), Arc::clone(control));
        }
        self.sleep(operation, claim, control, Instant::now().checked_add(wait))
    }

    fn sleep(
        &self,
        operation: &str,
        claim: &Claim,
        control: &Control,
        until: Option<Instant>,
    ) -> Allocation {
        loop {
            // Before the look, not after it: a wake-up that comes in between must not be lost.
            control.clear_wake();
            if let Some(end) = self.lock().look(operation, claim, control, until) {
                return end;
            }
            let mut polled = [PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)];
            // An interrupted wait only looks again.
            poll(&mut polled, timespec_until(until).as_ref()).ok();
        }
    }

    /// What operations may take together.
    pub(crate) fn budget(&self) -> DomainBudget {
        self.lock().table.budget()
    }

    /// What is taken of the budget now, and how many wait.
    pub(crate) fn taken(&self) -> Taken {
        let state = self.lock();
        let (operations, share) = state.table.taken();
        Taken {
            operations,
            share,
            waiting: state.table.waiting(),
        }
    }

    /// Sends away everybody who waits.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for waiter in state.sleepers.values() {
            waiter.nudge();
        }
    }

    /// Frees what `operation` holds and serves those who wait.
    pub(crate) fn release(&self, operation: &str) {
        let mut state = self.lock();
        state.table.release(operation);
        state.serve();
    }

    /// Leaves `operation`, which has ended without proof, its resources, and serves those who wait
    /// for its place.
    pub(crate) fn keep(&self, operation: &str) {
        let mut state = self.lock();
        state.table.keep(operation);
        state.serve();
    }
}

impl State {
    /// Whether the wait of `operation` is over.
    fn look(
        &mut self,
        operation: &str,
        claim: &Claim,
        control: &Control,
        until: Option<Instant>,
    ) -> Option<Allocation> {
        if self.granted.remove(operation) {
            return Some(Allocation::Granted);
        }
        let cancelled = control.stop_wish().is_some();
        let over = until.is_some_and(|until| until <= Instant::now());
        if !cancelled && !self.closed && !over {
            return None;
        }
        let conflict = self.table.give_up(operation);
        self.sleepers.remove(operation);
        let end = match conflict {
            _ if cancelled => Allocation::Cancelled,
            Some(_) if self.closed => Allocation::Closed,
            Some(conflict) => Allocation::Refused(conflict),
            None => {
                self.table.restore(operation, claim);
                Allocation::Granted
            }
        };
        // What was reserved for it may be free for those behind it.
        self.serve();
        Some(end)
    }

    fn serve(&mut self) {
        for operation in self.table.serve() {
            if let Some(control) = self.sleepers.remove(&operation) {
                self.granted.insert(operation);
                control.nudge();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Wish;
    use crate::stop::{StopManner, StopRequest};
    use xioflow_journal::TerminationReason;

    fn mailbox() -> Arc<Control> {
        Arc::new(Control::new().unwrap())
    }

    fn taken() -> (Arc<Leases>, Claim) {
        let leases = Arc::new(Leases::new(LeaseTable::new(DomainBudget::default())));
        let claim = Claim::of_resources(&["x".to_owned()]);
        let first = leases.allocate("a", &claim, Duration::ZERO, &mailbox());
        assert!(matches!(first, Allocation::Granted));
        (leases, claim)
    }

    const LONG: Duration = Duration::from_secs(60);

    /// A resource that `a` has and `b` waits for.
    fn waited_for() -> (Arc<Leases>, std::thread::JoinHandle<Allocation>) {
        let (leases, claim) = taken();
        let waiter = {
            let leases = Arc::clone(&leases);
            std::thread::spawn(move || leases.allocate("b", &claim, LONG, &mailbox()))
        };
        while !leases.lock().sleepers.contains_key("b") {
            std::thread::yield_now();
        }
        (leases, waiter)
    }

    #[test]
    fn a_release_wakes_the_waiter() {
        let (leases, waiter) = waited_for();
        leases.release("a");
        assert!(matches!(waiter.join().unwrap(), Allocation::Granted));
    }

    #[test]
    fn a_wait_that_is_over_names_the_holder() {
        let (leases, claim) = taken();
        let wait = Duration::from_millis(5);
        let end = leases.allocate("b", &claim, wait, &mailbox());
        let Allocation::Refused(conflict) = end else {
            panic!("{end:?}")
        };
        assert_eq!(conflict.holder, "a");
    }

    #[test]
    fn a_closed_domain_sends_its_waiters_away() {
        let (leases, waiter) = waited_for();
        leases.close();
        assert!(matches!(waiter.join().unwrap(), Allocation::Closed));
    }

    #[test]
    fn a_cancelled_waiter_leaves_the_queue_to_those_behind_it() {
        let (leases, claim) = taken();
        let control = mailbox();
        let stop = StopRequest {
            reason: TerminationReason::UserCancelled,
            manner: StopManner::Terminate,
            grace: Duration::ZERO,
        };
        assert!(control.wish(Wish::Stop(stop)));
        let end = leases.allocate("b", &claim, LONG, &control);
        assert!(matches!(end, Allocation::Cancelled));
        leases.release("a");
        let end = leases.allocate("c", &claim, Duration::ZERO, &mailbox());
        assert!(matches!(end, Allocation::Granted));
    }
}
