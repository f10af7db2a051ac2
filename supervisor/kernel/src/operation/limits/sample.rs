//! Looks at what a tree uses, where no control group counts it: ten times a second, and only for an operation that
//! has limits.

use std::time::Duration;

use super::verdict::Evidence;
use crate::limits::{UsageReport, UsageSource};
use crate::observe::{self, TreeUse};

/// How often.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// Looks at one tree, and keeps the most that it has seen.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Whose descendants the tree is.
    holder: u32,
    /// The init of the tree's pid namespace, which is not of the tree.
    init: Option<u32>,
    memory_max_bytes: Option<u64>,
    most: Option<Most>,
    failed: Option<String>,
}

/// The most that was seen of each.
#[derive(Debug, Clone, Copy, Default)]
struct Most {
    memory_bytes: u64,
    tasks: u64,
    cpu_time: Duration,
}

impl Sampler {
    pub(super) fn new(holder: u32, init: Option<u32>, memory_max_bytes: Option<u64>) -> Self {
        Self {
            holder,
            init,
            memory_max_bytes,
            most: None,
            failed: None,
        }
    }

    /// Looks once. After a look that failed there is no other: what was missed by it cannot be made up for.
    pub(super) fn look(&mut self) {
        if self.failed.is_some() {
            return;
        }
        match observe::tree_use(self.holder, self.init) {
            Ok(seen) => self.take(&seen),
            Err(error) => self.failed = Some(error),
        }
    }

    fn take(&mut self, seen: &TreeUse) {
        let memory_bytes = self.memory(seen);
        let most = self.most.get_or_insert_default();
        most.memory_bytes = most.memory_bytes.max(memory_bytes);
        most.tasks = most.tasks.max(seen.tasks);
        most.cpu_time = most.cpu_time.max(seen.cpu_time);
        if !seen.is_complete {
            let error = "some processes of the tree could not be looked at";
            self.failed = Some(error.to_owned());
        }
    }

    /// Its memory. Pages that several processes share count for each of them, which is quick; only where that is
    /// more than the limit, they are counted in parts.
    fn memory(&self, seen: &TreeUse) -> u64 {
        match self.memory_max_bytes {
            Some(max) if seen.resident_bytes > max => {
                observe::proportional_bytes(&seen.pids).unwrap_or(seen.resident_bytes)
            }
            _ => seen.resident_bytes,
        }
    }

    /// Why nothing more can be seen.
    pub(super) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// What was seen. It was at least that, also where a later look failed.
    pub(super) fn evidence(&self) -> Evidence {
        Evidence {
            memory_bytes: self.most.map(|most| most.memory_bytes),
            tasks: self.most.map(|most| most.tasks),
            cpu_time: self.most.map(|most| most.cpu_time),
            ..Evidence::default()
        }
    }

    /// What a result says of it. After a look that failed the most is not known.
    pub(super) fn report(&self) -> Option<UsageReport> {
        let most = self.most.filter(|_| self.failed.is_none());
        Some(UsageReport {
            memory_peak_bytes: Some(most?.memory_bytes),
            pids_peak: Some(most?.tasks),
            ..UsageReport::nothing(UsageSource::Sampling)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(tasks: u64, resident_bytes: u64, is_complete: bool) -> TreeUse {
        TreeUse {
            tasks,
            resident_bytes,
            cpu_time: Duration::from_secs(tasks),
            pids: Vec::new(),
            is_complete,
        }
    }

    #[test]
    fn the_most_of_each_is_kept() {
        let mut sampler = Sampler::new(0, None, None);
        sampler.take(&tree(1, 70, true));
        sampler.take(&tree(5, 30, true));
        let seen = sampler.evidence();
        assert_eq!((seen.memory_bytes, seen.tasks), (Some(70), Some(5)));
        let told = sampler.report().unwrap();
        assert_eq!(
            (told.memory_peak_bytes, told.pids_peak),
            (Some(70), Some(5))
        );
    }

    #[test]
    fn after_a_look_that_failed_the_most_is_not_known() {
        let mut sampler = Sampler::new(0, None, None);
        sampler.take(&tree(3, 40, true));
        sampler.take(&tree(9, 90, false));
        assert!(sampler.failed().is_some());
        assert_eq!(sampler.report(), None);
        // That much it was at least.
        assert_eq!(sampler.evidence().tasks, Some(9));
    }

    #[test]
    fn shared_pages_count_in_parts_before_anybody_is_stopped_for_them() {
        let mut limited = Sampler::new(0, None, Some(1 << 20));
        let own = std::process::id();
        limited.take(&TreeUse {
            pids: vec![own],
            ..tree(1, u64::MAX, true)
        });
        let seen = limited.evidence().memory_bytes.unwrap();
        assert!(seen < u64::MAX, "{seen}");
        let mut free = Sampler::new(0, None, None);
        free.take(&tree(1, u64::MAX, true));
        assert_eq!(free.evidence().memory_bytes, Some(u64::MAX));
    }

    #[test]
    fn nothing_is_known_of_a_tree_that_nobody_looked_at() {
        let sampler = Sampler::new(0, None, None);
        assert_eq!(sampler.evidence(), Evidence::default());
        assert_eq!(sampler.report(), None);
    }
}
