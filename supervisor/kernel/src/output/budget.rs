//! How many bytes the stored output of a domain may take, and how many it takes. All running
//! streams share it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the stored output of all operations may take, unless the caller says otherwise, in bytes.
pub const DEFAULT_MAX_ARTIFACT_BYTES: u64 = 32 * 1024 * 1024 * 1024;

/// How full the artifacts folder of a domain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactBytes {
    /// Bytes of its files, with what running operations have been granted. Files that others
    /// remove are noticed when the domain is opened again.
    pub used: u64,
    /// Bytes that they may take.
    pub max: u64,
}

impl ArtifactBytes {
    /// Bytes that are left.
    pub(crate) fn free(&self) -> u64 {
        self.max.saturating_sub(self.used)
    }
}

/// A number of bytes that is handed out and given back.
#[derive(Debug)]
pub(crate) struct DiskBudget {
    max: u64,
    /// May be above `max`: what is there when a domain is opened is counted, not judged.
    used: AtomicU64,
}

impl DiskBudget {
    pub(crate) fn new(max: u64, used: u64) -> Self {
        Self {
            max,
            used: AtomicU64::new(used),
        }
    }

    /// Takes `wanted` bytes, or as many as are left.
    pub(crate) fn take(&self, wanted: u64) -> u64 {
        let mut taken = 0;
        self.change(|used| {
            taken = wanted.min(self.max.saturating_sub(used));
            used + taken
        });
        taken
    }

    /// Gives bytes back that were not written, or whose file was removed.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.change(|used| used.saturating_sub(bytes));
    }

    fn change(&self, mut to: impl FnMut(u64) -> u64) {
        // A count that nothing else is ordered by.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(to(used)))
            .ok();
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.now().used
    }

    pub(crate) fn now(&self) -> ArtifactBytes {
        ArtifactBytes {
            used: self.used.load(Ordering::Relaxed),
            max: self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn no_more_is_handed_out_than_there_is() {
        let budget = DiskBudget::new(100, 30);
        assert_eq!(budget.take(50), 50);
        assert_eq!(budget.take(50), 20);
        assert_eq!(budget.take(1), 0);
        budget.give_back(5);
        assert_eq!(budget.take(9), 5);
    }

    #[test]
    fn a_domain_that_holds_too_much_already_gives_nothing() {
        let budget = DiskBudget::new(100, 500);
        assert_eq!(budget.take(1), 0);
        budget.give_back(450);
        assert_eq!(budget.take(100), 50);
    }

    #[test]
    fn threads_share_it_to_the_last_byte() {
        let budget = DiskBudget::new(10_000, 0);
        let taken: u64 = thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..5000).map(|_| budget.take(1)).sum::<u64>()))
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!((taken, budget.used()), (10_000, 10_000));
    }
}
