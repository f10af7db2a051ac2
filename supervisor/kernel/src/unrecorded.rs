//! Results that the storage refused. A disk that was full for a moment must not cost a result that was seen:
//! they are kept here, and recorded before anything new is. `operation::record` brings them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xioflow_journal::{Change, CommitError, Journal};

use crate::admission::Leases;

/// What is not recorded yet, in the order in which it ended. Nothing new is admitted before it is, so there is
/// never more than was in flight.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded(Mutex<VecDeque<Ended>>);

/// An operation that ended, and for the journal has not.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) operation_id: String,
    /// The commit of its result.
    pub(crate) changes: Vec<Change>,
    /// Whether its end is proven, so that its resources become free.
    pub(crate) is_proven: bool,
}

impl Unrecorded {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        // An entry is added and removed whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps one whose commit failed, if another attempt can succeed: nothing of it is recorded, and the
    /// journal can be used on.
    pub(crate) fn keep(&self, ended: Ended, error: &CommitError) {
        if matches!(error, CommitError::Storage(_)) {
            self.lock().push_back(ended);
        }
    }

    /// Records all of them, one after the other, and frees their resources.
    ///
    /// # Errors
    /// The first [`CommitError`] for which the storage or the ownership is the cause. What is not recorded
    /// then stays. One that a rule forbids can never be recorded, and remains unfinished as it is.
    pub(crate) fn record(&self, journal: &Journal, leases: &Leases) -> Result<(), CommitError> {
        // Held all the while: two threads would record the same one twice.
        let mut waiting = self.lock();
        while let Some(ended) = waiting.front() {
            match journal.commit(ended.changes.clone()) {
                Ok(_) if ended.is_proven => leases.release(&ended.operation_id),
                Ok(_) => leases.keep(&ended.operation_id),
                Err(CommitError::Rejected(_) | CommitError::Data(_)) => {}
                Err(error) => return Err(error),
            }
            waiting.pop_front();
        }
        Ok(())
    }
}
