//! A client as other threads than the loop know it: where answers go, and how many requests are not over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Serialize;
use xioflow_rpc::envelope::Id;
use xioflow_rpc::refusal::Fault;

use crate::bell::Bell;
use crate::outgoing::Outgoing;

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) outgoing: Outgoing,
    bell: Arc<Bell>,
    unfinished: AtomicUsize,
    /// The loop waits for a request to be over.
    awaited: AtomicBool,
}

impl Client {
    pub(crate) fn new(outgoing: Outgoing, bell: Arc<Bell>) -> Self {
        Self {
            outgoing,
            bell,
            unfinished: AtomicUsize::new(0),
            awaited: AtomicBool::new(false),
        }
    }

    /// How many requests are not over.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::SeqCst)
    }

    /// Has the bell rung when a request is over. What the caller waits for is looked at afterwards.
    pub(crate) fn await_one(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::SeqCst);
    }
}

/// A request that is not over, until this is dropped. It is answered once.
#[derive(Debug)]
pub(crate) struct Pending {
    client: Arc<Client>,
    id: Id,
    answered: AtomicBool,
}

impl Pending {
    pub(crate) fn new(client: &Arc<Client>, id: Id) -> Self {
        client.unfinished.fetch_add(1, Ordering::SeqCst);
        Self {
            client: Arc::clone(client),
            id,
            answered: AtomicBool::new(false),
        }
    }

    /// What the client calls it.
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// Where news about it go.
    pub(crate) fn outgoing(&self) -> &Outgoing {
        &self.client.outgoing
    }

    /// Answers it, unless it was answered.
    pub(crate) fn answer(&self, result: impl Serialize) {
        if !self.is_answered_now() {
            self.outgoing().answer(self.id.clone(), result);
        }
    }

    /// Refuses it, unless it was answered: then the fault is given back.
    pub(crate) fn refuse(&self, fault: Fault) -> Option<Fault> {
        if self.is_answered_now() {
            return Some(fault);
        }
        self.outgoing().refuse(Some(self.id.clone()), fault);
        None
    }

    /// Answers it with what came of it.
    pub(crate) fn conclude<R: Serialize>(&self, outcome: Result<R, Fault>) {
        match outcome {
            Ok(result) => self.answer(result),
            Err(fault) => {
                // A question is answered here and nowhere else.
                self.refuse(fault);
            }
        }
    }

    fn is_answered_now(&self) -> bool {
        self.answered.swap(true, Ordering::SeqCst)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.client.unfinished.fetch_sub(1, Ordering::SeqCst);
        if self.client.awaited.load(Ordering::SeqCst) {
            self.client.bell.ring_for(self.client.outgoing.token());
        }
    }
}
