//! Results that the storage refused. A disk that was full for a moment must not cost a result that was seen:
//! they are kept here, and recorded before anything new is. `operation::record` brings them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xioflow_journal::{Change, CommitError, Journal, Outcome};

use crate::admission::Leases;
use crate::result::OperationResult;

/// What is not recorded yet, in the order in which it ended. Nothing new is admitted before it is, so there is
/// never more than was in flight.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded(Mutex<VecDeque<Ended>>);

/// An operation that ended, and for the journal has not.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What it came to.
    pub(crate) result: Box<OperationResult>,
    /// The commit of that.
    pub(crate) changes: Vec<Change>,
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

    /// The result of an operation that is kept here.
    pub(crate) fn result_of(&self, operation_id: &str) -> Option<Box<OperationResult>> {
        let waiting = self.lock();
        let mut results = waiting.iter().map(|ended| &ended.result);
        results.find(|it| it.operation_id == operation_id).cloned()
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
                // Its end cannot be proven, so its resources do not become free.
                Ok(_) if ended.result.status == Outcome::Indeterminate => {
                    leases.keep(&ended.result.operation_id);
                }
                Ok(_) => leases.release(&ended.result.operation_id),
                Err(CommitError::Rejected(_) | CommitError::Data(_)) => {}
                Err(error) => return Err(error),
            }
            waiting.pop_front();
        }
        Ok(())
    }
}
