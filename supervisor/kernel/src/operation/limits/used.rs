//! What is known in the end of what an operation has used, and what a result makes of it. Pure.

use xioflow_journal::TerminationReason;

use super::counted::Counted;
use super::verdict::{Evidence, limit_verdict, reached};
use crate::limits::{LimitMeans, LimitsReport, Means, ResourceLimits, UsageReport};
use crate::result::OperationResult;
use crate::stop::StopRequest;

/// The limits of an operation, and how they are seen to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limited {
    pub(super) asked: ResourceLimits,
    pub(super) means: LimitMeans,
}

impl Limited {
    /// Whether one of them is seen to like this.
    pub(super) fn has(&self, means: Means) -> bool {
        let LimitMeans {
            memory,
            pids,
            cpus,
            cpu_time,
        } = self.means;
        [memory, pids, cpus, cpu_time].contains(&Some(means))
    }
}

/// What is known of it in the end.
#[derive(Debug, Default)]
pub(in crate::operation) struct Used {
    limited: Option<Limited>,
    evidence: Evidence,
    sampled: Option<UsageReport>,
    counted: Option<Counted>,
    failed: Option<String>,
}

impl Used {
    pub(super) fn new(
        limited: Option<Limited>,
        evidence: Evidence,
        sampled: Option<UsageReport>,
        counted: Option<Counted>,
        failed: Option<String>,
    ) -> Self {
        Self {
            limited,
            evidence,
            sampled,
            counted,
            failed,
        }
    }

    /// For which limit the tree has ended, if for one. `stopped` says whether a signal was sent for a stop.
    pub(in crate::operation) fn verdict(&self, stopped: bool) -> Option<TerminationReason> {
        let limited = self.limited.as_ref()?;
        limit_verdict(&limited.asked, stopped, &self.evidence)
    }

    /// Writes what was used into a result, and what became of the limits.
    pub(in crate::operation) fn tell(&self, result: &mut OperationResult) {
        result.limits = self.limited.map(|Limited { asked, means }| LimitsReport {
            asked,
            means,
            reached: reached(&asked, &self.evidence).list(),
        });
        result.usage = self.usage();
        result.limit_events = self.counted.as_ref().map(Counted::events_report);
        result.resource_sampling_error.clone_from(&self.failed);
    }

    /// What was used: as its group has counted it; what that does not count, as it was seen of its processes.
    fn usage(&self) -> Option<UsageReport> {
        let Some(counted) = &self.counted else {
            return self.sampled.clone();
        };
        let mut usage = counted.usage_report();
        if let Some(sampled) = &self.sampled {
            usage.memory_peak_bytes = usage.memory_peak_bytes.or(sampled.memory_peak_bytes);
            usage.pids_peak = usage.pids_peak.or(sampled.pids_peak);
        }
        Some(usage)
    }

    /// What is to be said of an operation that was stopped because nobody could see any more what it uses.
    pub(in crate::operation) fn blinded(&self, stop: Option<&StopRequest>) -> Option<String> {
        let error = self.failed.as_deref()?;
        let was_stopped_for_it = stop?.reason == TerminationReason::CrashDetected;
        was_stopped_for_it.then(|| {
            format!(
                "what it uses could not be seen any more ({error}), so its limits could not be kept"
            )
        })
    }
}

#[cfg(test)]
impl Used {
    /// Of a tree with a hard limit of memory, some of which the kernel has ended for it.
    pub(in crate::operation) fn killed_for_memory() -> Self {
        let asked = ResourceLimits::default().memory_bytes(96 << 20);
        let means = LimitMeans {
            memory: Some(Means::Kernel),
            ..LimitMeans::default()
        };
        let evidence = Evidence {
            oom_killed: true,
            memory_bytes: Some(96 << 20),
            ..Evidence::default()
        };
        Self::new(Some(Limited { asked, means }), evidence, None, None, None)
    }
}
