//! Watches what one operation uses while it runs: says when to look next and what to wait for, and for which limit it
//! is to be stopped. Its control group is its supervision's, which passes it along.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use xioflow_cgroup::{Events, Leaf};
use xioflow_journal::TerminationReason;

use super::counted::Counted;
use super::cpu::next_look;
use super::plan::plan;
use super::sample::{PERIOD, Sampler};
use super::used::{Limited, Used};
use super::verdict::{Evidence, to_stop_for};
use crate::deadline::earlier;
use crate::limits::{Enforcement, Means, ResourceLimits};
use crate::observe;
use crate::stop::{StopManner, StopRequest};

/// How long an operation may take to end by itself that went beyond a limit.
const GRACE: Duration = Duration::from_millis(1000);

/// Whose descendants the tree of an operation is.
#[derive(Debug, Clone, Copy)]
pub(in crate::operation) struct Tree {
    /// Its helper.
    pub(in crate::operation) holder: u32,
    /// The init of its pid namespace.
    pub(in crate::operation) init: Option<u32>,
}

/// What sees to the limits of a running operation.
#[derive(Debug, Default)]
pub(in crate::operation) struct Watch {
    limited: Option<Limited>,
    /// Looks at its processes, where no group counts.
    sampler: Option<Sampler>,
    sample_at: Option<Instant>,
    /// What its group has to tell, where somebody has to be stopped for that.
    events: Option<Events>,
    /// When its processor time can be used up, where its group counts that.
    cpu_at: Option<Instant>,
    cpu_seen: Duration,
    /// How many processors it can use at one time, in thousandths.
    milli_cpus: u32,
    /// Why what it uses cannot be seen any more.
    failed: Option<String>,
}

impl Watch {
    /// Begins to watch the tree. That its limits can be enforced was made sure of before.
    pub(in crate::operation) fn begin(
        limits: Option<&ResourceLimits>,
        tree: Option<Tree>,
        leaf: Option<&Leaf>,
    ) -> Self {
        let mut watch = Self::default();
        let Some(asked) = limits else {
            return watch;
        };
        let counted = leaf.map(Counted::of).transpose();
        let counted = counted.unwrap_or_else(|error| {
            watch.failed = Some(error);
            None
        });
        // Its share of processors is written, or it would not run.
        let capable = counted.map(|it| it.capable(asked.enforcement, true));
        let limited = Limited {
            asked: *asked,
            means: plan(asked, capable).unwrap_or_default(),
        };
        watch.limited = Some(limited);
        if limited.has(Means::Sampling) {
            watch.begin_sampling(asked, tree);
        }
        if let Some(leaf) = leaf.filter(|_| asked.enforcement != Enforcement::Observe) {
            watch.begin_counting(limited, leaf);
        }
        watch
    }

    fn begin_sampling(&mut self, asked: &ResourceLimits, tree: Option<Tree>) {
        match tree {
            Some(Tree { holder, init }) => {
                self.sampler = Some(Sampler::new(holder, init, asked.memory_max_bytes));
                self.sample_at = Instant::now().checked_add(PERIOD);
            }
            None => self.failed = Some("its helper has not said who it is".to_owned()),
        }
    }

    fn begin_counting(&mut self, limited: Limited, leaf: &Leaf) {
        let of_group = [limited.means.memory, limited.means.pids];
        if of_group.iter().flatten().any(|it| *it != Means::Sampling) {
            match leaf.events() {
                Ok(events) => self.events = Some(events),
                Err(error) => self.failed = Some(error.to_string()),
            }
        }
        if let (Some(max), Some(Means::Group)) = (limited.asked.cpu_time, limited.means.cpu_time) {
            let processors = observe::processors().unwrap_or(1).saturating_mul(1000);
            let share = limited.asked.milli_cpus.unwrap_or(u32::MAX);
            self.milli_cpus = processors.min(share);
            let at = next_look(max, self.milli_cpus, false);
            self.cpu_at = Instant::now().checked_add(at);
        }
    }

    /// When to look next; none is never.
    pub(in crate::operation) fn look_at(&self) -> Option<Instant> {
        earlier(self.sample_at, self.cpu_at)
    }

    /// What becomes readable when there is something to look at.
    pub(in crate::operation) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
    }

    /// Looks, where it is time to or its group has something to tell. The wish is to stop the operation.
    pub(in crate::operation) fn look(
        &mut self,
        now: Instant,
        told: bool,
        leaf: Option<&Leaf>,
    ) -> Option<StopRequest> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let (sample, cpu) = (is_due(self.sample_at), is_due(self.cpu_at));
        if !sample && !cpu && !told {
            return None;
        }
        if told && let Some(events) = &mut self.events {
            // Taken, so that it is not ready again for the same.
            let taken = events.read();
            self.take_failure(taken.map(drop).map_err(|error| error.to_string()));
        }
        if sample {
            self.sample();
        }
        let counted = self.count(leaf);
        if cpu {
            self.set_cpu_clock(counted.as_ref());
        }
        let reason = self.reason(counted.as_ref()).or_else(|| self.blind())?;
        Some(StopRequest {
            reason,
            manner: StopManner::Terminate,
            grace: GRACE,
        })
    }

    fn sample(&mut self) {
        let Some(sampler) = &mut self.sampler else {
            return;
        };
        sampler.look();
        self.sample_at = match sampler.failed() {
            None => Instant::now().checked_add(PERIOD),
            Some(error) => {
                self.failed.get_or_insert_with(|| error.to_owned());
                None
            }
        };
    }

    /// What its group has counted, where that matters.
    fn count(&mut self, leaf: Option<&Leaf>) -> Option<Counted> {
        let counted = leaf.map(Counted::of)?;
        self.take_failure(counted)
    }

    fn take_failure<T>(&mut self, result: Result<T, String>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                // It would be ready for ever.
                self.events = None;
                self.failed.get_or_insert(error);
                None
            }
        }
    }

    fn set_cpu_clock(&mut self, counted: Option<&Counted>) {
        self.cpu_at = None;
        let max = self.limited.and_then(|limited| limited.asked.cpu_time);
        let (Some(max), Some(used)) = (max, counted.and_then(Counted::cpu_time)) else {
            let error = "its processor time cannot be read";
            self.failed.get_or_insert_with(|| error.to_owned());
            return;
        };
        if let Some(left) = max.checked_sub(used).filter(|left| !left.is_zero()) {
            let wait = next_look(left, self.milli_cpus, used == self.cpu_seen);
            self.cpu_at = Instant::now().checked_add(wait);
        }
        self.cpu_seen = used;
    }

    /// The limit that was reached by now, if it is one to be stopped for.
    pub(in crate::operation) fn reason_to_stop(
        &mut self,
        leaf: Option<&Leaf>,
    ) -> Option<TerminationReason> {
        self.limited?;
        let counted = self.count(leaf);
        self.reason(counted.as_ref())
    }

    fn reason(&self, counted: Option<&Counted>) -> Option<TerminationReason> {
        let limited = self.limited?;
        to_stop_for(&limited.asked, &self.evidence(counted))
    }

    /// Whether limits have to be watched that cannot be seen any more.
    fn blind(&self) -> Option<TerminationReason> {
        self.failed.as_ref()?;
        let is_soft = self.limited?.asked.enforcement == Enforcement::Soft;
        is_soft.then_some(TerminationReason::CrashDetected)
    }

    /// Everything that was seen: what its group has counted, and where that counts nothing, its processes.
    fn evidence(&self, counted: Option<&Counted>) -> Evidence {
        let sampled = self.sampler.as_ref().map(Sampler::evidence);
        let sampled = sampled.unwrap_or_default();
        let (Some(counted), Some(limited)) = (counted, self.limited) else {
            return sampled;
        };
        let of_group = counted.evidence(&limited.asked);
        Evidence {
            memory_bytes: of_group.memory_bytes.or(sampled.memory_bytes),
            tasks: of_group.tasks.or(sampled.tasks),
            cpu_time: of_group.cpu_time.or(sampled.cpu_time),
            ..of_group
        }
    }

    /// Ends the watch. The tree is gone, or nobody can say anything of it any more.
    pub(in crate::operation) fn end(mut self, leaf: Option<&Leaf>) -> Used {
        let counted = self.count(leaf);
        let evidence = self.evidence(counted.as_ref());
        let sampled = self.sampler.as_ref().and_then(Sampler::report);
        Used::new(self.limited, evidence, sampled, counted, self.failed)
    }
}
