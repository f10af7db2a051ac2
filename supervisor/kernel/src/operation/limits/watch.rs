//! Watches what one operation uses while it runs: says when to look next, and for which limit it is to be stopped.

use std::time::{Duration, Instant};

use xioflow_journal::TerminationReason;

use super::plan::plan;
use super::sample::{PERIOD, Sampler};
use super::verdict::{Evidence, limit_verdict, reached, to_stop_for};
use crate::limits::{Enforcement, LimitMeans, LimitsReport, Means, ResourceLimits, UsageReport};
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
#[derive(Debug)]
pub(in crate::operation) struct Watch {
    limited: Option<Limited>,
    sampler: Option<Sampler>,
    look_at: Option<Instant>,
}

/// The limits, and how they are seen to.
#[derive(Debug, Clone, Copy)]
struct Limited {
    asked: ResourceLimits,
    means: LimitMeans,
}

impl Watch {
    /// Begins to watch the tree. That its limits can be enforced was made sure of before.
    pub(in crate::operation) fn begin(limits: Option<&ResourceLimits>, tree: Option<Tree>) -> Self {
        let limited = limits.map(|asked| Limited {
            asked: *asked,
            means: plan(asked, None).unwrap_or_default(),
        });
        let sampled = limited.filter(|limited| limited.samples());
        let sampler = sampled.and_then(|limited| {
            let Tree { holder, init } = tree?;
            Some(Sampler::new(holder, init, limited.asked.memory_max_bytes))
        });
        Self {
            look_at: sampler
                .as_ref()
                .and_then(|_| Instant::now().checked_add(PERIOD)),
            limited,
            sampler,
        }
    }

    /// When to look next; none is never.
    pub(in crate::operation) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Looks, where it is time to. The wish is to stop the operation.
    pub(in crate::operation) fn look(&mut self, now: Instant) -> Option<StopRequest> {
        self.look_at.filter(|at| *at <= now)?;
        let sampler = self.sampler.as_mut()?;
        sampler.look();
        self.look_at = match sampler.failed() {
            None => Instant::now().checked_add(PERIOD),
            Some(_) => None,
        };
        let reason = self.reason_to_stop().or_else(|| self.blind())?;
        Some(StopRequest {
            reason,
            manner: StopManner::Terminate,
            grace: GRACE,
        })
    }

    /// The limit that was reached by now, as far as that is known, if it is one to be stopped for.
    pub(in crate::operation) fn reason_to_stop(&self) -> Option<TerminationReason> {
        let limited = self.limited.as_ref()?;
        to_stop_for(&limited.asked, &self.evidence())
    }

    /// Whether limits have to be watched that cannot be seen any more.
    fn blind(&self) -> Option<TerminationReason> {
        let failed = self.sampler.as_ref().and_then(Sampler::failed);
        let is_soft = self.limited.as_ref()?.asked.enforcement == Enforcement::Soft;
        (failed.is_some() && is_soft).then_some(TerminationReason::CrashDetected)
    }

    fn evidence(&self) -> Evidence {
        let sampler = self.sampler.as_ref();
        sampler.map(Sampler::evidence).unwrap_or_default()
    }

    /// Ends the watch. The tree is gone, or nobody can say anything of it any more.
    pub(in crate::operation) fn end(self) -> Used {
        Used {
            evidence: self.evidence(),
            usage: self.sampler.as_ref().and_then(Sampler::report),
            failed: self.sampler.and_then(|it| it.failed().map(str::to_owned)),
            limited: self.limited,
        }
    }
}

impl Limited {
    /// Whether processes have to be looked at.
    fn samples(&self) -> bool {
        let LimitMeans {
            memory,
            pids,
            cpus: _,
            cpu_time,
        } = self.means;
        [memory, pids, cpu_time].contains(&Some(Means::Sampling))
    }
}

/// What is known of it in the end.
#[derive(Debug, Default)]
pub(in crate::operation) struct Used {
    limited: Option<Limited>,
    evidence: Evidence,
    usage: Option<UsageReport>,
    failed: Option<String>,
}

impl Used {
    /// For which limit the tree has ended, if for one. `stopped` says whether a signal was sent for a stop.
    pub(in crate::operation) fn verdict(&self, stopped: bool) -> Option<TerminationReason> {
        let limited = self.limited.as_ref()?;
        limit_verdict(&limited.asked, stopped, &self.evidence)
    }

    /// What became of the limits.
    pub(in crate::operation) fn limits(&self) -> Option<LimitsReport> {
        let Limited { asked, means } = self.limited?;
        Some(LimitsReport {
            asked,
            means,
            reached: reached(&asked, &self.evidence).list(),
        })
    }

    /// What was used.
    pub(in crate::operation) fn usage(&self) -> Option<UsageReport> {
        self.usage.clone()
    }

    /// What is to be said of an operation that was stopped because nobody could see any more what it uses.
    pub(in crate::operation) fn blinded(&self, stop: Option<&StopRequest>) -> Option<String> {
        let error = self.failed()?;
        let was_stopped_for_it = stop?.reason == TerminationReason::CrashDetected;
        was_stopped_for_it.then(|| {
            format!(
                "what it uses could not be seen any more ({error}), so its limits could not be kept"
            )
        })
    }

    /// Why the watch could see nothing more.
    pub(in crate::operation) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}
