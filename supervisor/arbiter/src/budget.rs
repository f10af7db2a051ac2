//! What all submissions together may take of memory: their requests, and input that is held in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xioflow_rpc::refusal::Fault;

use crate::limits::SUBMISSIONS_MAX_BYTES;
use crate::refusal;

/// The sum.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    taken: AtomicU64,
}

/// A part of it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// Takes nothing yet.
    pub(crate) fn part(self: &Arc<Self>) -> Taken {
        Taken {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }
}

impl Taken {
    /// Takes so much more.
    ///
    /// # Errors
    /// The refusal that says that there is no more; nothing was taken then.
    pub(crate) fn more(&mut self, bytes: u64) -> Result<(), Fault> {
        let take = |taken: u64| {
            let sum = taken.checked_add(bytes)?;
            (sum <= SUBMISSIONS_MAX_BYTES).then_some(sum)
        };
        let taken = &self.budget.taken;
        match taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(_) => {
                let message = "submissions that are not over take as much memory as they may; wait for some, or put input into files";
                Err(refusal::limit(
                    message,
                    "submissionBytes",
                    SUBMISSIONS_MAX_BYTES,
                ))
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_all_of_it_comes_back() {
        let budget = Arc::new(Budget::default());
        let (mut one, mut other) = (budget.part(), budget.part());
        one.more(SUBMISSIONS_MAX_BYTES - 10).unwrap();
        assert!(other.more(11).is_err());
        assert!(other.more(u64::MAX).is_err());
        other.more(10).unwrap();
        assert!(one.more(1).is_err());
        drop(one);
        other.more(SUBMISSIONS_MAX_BYTES - 10).unwrap();
        drop(other);
        assert_eq!(budget.taken.load(Ordering::SeqCst), 0);
    }
}
