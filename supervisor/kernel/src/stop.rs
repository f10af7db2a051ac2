//! Why and how an operation is stopped. Pure.

use std::time::Duration;

use xioflow_journal::TerminationReason;
use xioflow_protocol::{Rung, StopPlan};

/// How long a cancelled command may take to end by itself, unless the caller says otherwise.
pub const DEFAULT_CANCEL_GRACE: Duration = Duration::from_millis(2000);
/// The same after its time was over.
pub const DEFAULT_TIMEOUT_GRACE: Duration = Duration::from_millis(1500);
/// The same for processes that outlived it.
pub(crate) const SURVIVOR_GRACE: Duration = Duration::from_millis(1500);
/// The same when this supervisor died; nobody is there to ask, and somebody may be waiting to
/// recover the domain.
pub(crate) const HOST_LOSS_GRACE: Duration = Duration::from_millis(1000);

/// How long SIGTERM may take after SIGINT was not enough.
const TERM_MS: u32 = 1000;
/// How long killing may take before what is left is given up.
const KILL_MS: u32 = 5000;

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// How a stop begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopManner {
    /// Like Ctrl-C: SIGINT, then SIGTERM, then SIGKILL.
    Interrupt,
    /// SIGTERM, then SIGKILL.
    Terminate,
    /// SIGKILL at once.
    Kill,
}

/// A wish to stop an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopRequest {
    pub(crate) reason: TerminationReason,
    pub(crate) manner: StopManner,
    pub(crate) grace: Duration,
}

impl StopRequest {
    /// The wish of somebody who asks for it.
    pub(crate) fn by_user(manner: StopManner, grace: Duration) -> Self {
        Self {
            reason: TerminationReason::UserCancelled,
            manner,
            grace,
        }
    }

    /// The wish on behalf of a client that has gone away.
    pub(crate) fn client_lost(grace: Duration) -> Self {
        Self {
            reason: TerminationReason::ClientLost,
            manner: StopManner::Terminate,
            grace,
        }
    }

    /// The ladder for it.
    pub(crate) fn plan(&self) -> StopPlan {
        plan(self.manner, self.grace)
    }

    /// How long the whole ladder may take.
    pub(crate) fn longest(&self) -> Duration {
        let plan = self.plan();
        let rungs: u64 = plan.rungs.iter().map(|rung| u64::from(rung.wait_ms)).sum();
        Duration::from_millis(rungs + u64::from(plan.kill_ms))
    }
}

/// The ladder of a manner.
///
/// Only an interrupt begins with SIGINT. A shell starts its background jobs with SIGINT ignored
/// (POSIX, "Signals and Error Handling"), and cleanup traps are set on SIGTERM: for everything
/// that is not a key pressed at a terminal, SIGINT first would spend the whole grace in vain.
///
/// Without any grace it is SIGKILL at once: nobody has time to heed a signal before it, and in a large tree
/// it takes longer to find everyone for a signal than to kill them.
pub(crate) fn plan(manner: StopManner, grace: Duration) -> StopPlan {
    let wait_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
    let rungs = match manner {
        _ if wait_ms == 0 => Vec::new(),
        StopManner::Interrupt => vec![
            Rung {
                signal: SIGINT,
                wait_ms,
            },
            Rung {
                signal: SIGTERM,
                wait_ms: TERM_MS,
            },
        ],
        StopManner::Terminate => vec![Rung {
            signal: SIGTERM,
            wait_ms,
        }],
        StopManner::Kill => Vec::new(),
    };
    StopPlan {
        rungs,
        kill_ms: KILL_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ladder_ends() {
        for manner in [
            StopManner::Interrupt,
            StopManner::Terminate,
            StopManner::Kill,
        ] {
            let grace = Duration::from_millis(300);
            let request = StopRequest {
                reason: TerminationReason::UserCancelled,
                manner,
                grace,
            };
            assert!(request.longest() <= grace + Duration::from_secs(6));
            assert!(request.plan().kill_ms > 0);
        }
    }

    #[test]
    fn without_grace_nobody_is_asked() {
        for manner in [
            StopManner::Interrupt,
            StopManner::Terminate,
            StopManner::Kill,
        ] {
            let at_once = StopPlan::kill(KILL_MS);
            assert_eq!(plan(manner, Duration::ZERO), at_once);
            assert_eq!(plan(manner, Duration::from_micros(999)), at_once);
        }
        let asked = plan(StopManner::Terminate, Duration::from_millis(1));
        assert_eq!(asked.rungs.len(), 1);
    }

    #[test]
    fn a_grace_without_end_is_as_long_as_a_rung_can_be() {
        let plan = plan(StopManner::Terminate, Duration::MAX);
        assert_eq!(plan.rungs[0].wait_ms, u32::MAX);
    }
}
