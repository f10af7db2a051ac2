//! Which limits a tree has reached, and whether that is why it ended. Pure.
//!
//! The order in which one reason is found, when several things happen at once:
//!
//! 1. Before a stop is sent, whatever it is for, the evidence is looked at. A limit that was reached by then is the
//!    reason of that stop.
//! 2. A stop for which a signal was sent is the reason. What the tree reaches while it is being ended is only told.
//! 3. Without such a stop it is what the evidence says at the end, so a tree that ends by itself because of a limit, or
//!    before anybody could stop it, is judged like one that was stopped.
//! 4. Of several limits: memory, for the kernel itself has ended it; then processes; then processor time.

use std::time::Duration;

use xioflow_journal::TerminationReason;

use crate::limits::{Enforcement, Limit, ResourceLimits};

/// What was seen of what a tree has used. What nobody saw is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Evidence {
    /// Whether the kernel has ended some of it for memory, and for the limit of its own group and no other.
    pub(super) oom_killed: bool,
    /// Whether its own group went above the mark at which it is slowed down.
    pub(super) above_high: bool,
    /// The most memory that it had, in bytes.
    pub(super) memory_bytes: Option<u64>,
    /// Whether the kernel has refused it a process, for the limit of its own group.
    pub(super) tasks_refused: bool,
    /// The most processes and threads that it had.
    pub(super) tasks: Option<u64>,
    /// Its processor time.
    pub(super) cpu_time: Option<Duration>,
}

/// Which limits were reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reached {
    pub(super) memory: bool,
    pub(super) pids: bool,
    pub(super) cpu_time: bool,
}

impl Reached {
    /// All of them, in the order in which they count.
    pub(super) fn list(self) -> Vec<Limit> {
        let all = [
            (self.memory, Limit::Memory),
            (self.pids, Limit::Pids),
            (self.cpu_time, Limit::CpuTime),
        ];
        all.into_iter()
            .filter_map(|(reached, limit)| reached.then_some(limit))
            .collect()
    }

    fn first(self) -> Option<Limit> {
        self.list().first().copied()
    }
}

/// Compares the evidence with the limits.
pub(super) fn reached(limits: &ResourceLimits, seen: &Evidence) -> Reached {
    let more = |seen: Option<u64>, max: u64| seen.is_some_and(|seen| seen > max);
    let memory = |max| match limits.enforcement {
        // The kernel lets nobody have more, and what reaches the limit may go on with less.
        Enforcement::Hard => seen.oom_killed,
        Enforcement::Soft => seen.above_high || more(seen.memory_bytes, max),
        Enforcement::Observe => more(seen.memory_bytes, max),
    };
    Reached {
        memory: limits.memory_max_bytes.is_some_and(memory),
        pids: limits
            .pids_max
            .is_some_and(|max| seen.tasks_refused || more(seen.tasks, max)),
        cpu_time: limits
            .cpu_time
            .is_some_and(|max| seen.cpu_time.is_some_and(|used| used >= max)),
    }
}

/// For which limit a tree is to be stopped now, if for any.
pub(super) fn to_stop_for(limits: &ResourceLimits, seen: &Evidence) -> Option<TerminationReason> {
    match limits.enforcement {
        Enforcement::Hard | Enforcement::Soft => reached(limits, seen).first().map(Limit::reason),
        Enforcement::Observe => None,
    }
}

/// What the evidence at the end makes of a tree that has ended; `None` where something else is the reason.
/// `stopped` says whether a signal was sent for a stop.
pub(super) fn limit_verdict(
    limits: &ResourceLimits,
    stopped: bool,
    at_end: &Evidence,
) -> Option<TerminationReason> {
    match stopped {
        true => None,
        false => to_stop_for(limits, at_end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 64 << 20;
    const PIDS: u64 = 16;
    const TIME: Duration = Duration::from_secs(2);

    fn all(enforcement: Enforcement) -> ResourceLimits {
        ResourceLimits::default()
            .memory_bytes(MAX)
            .pids(PIDS)
            .cpu_time(TIME)
            .enforcement(enforcement)
    }

    /// Every combination of what can be seen: each field at its values around the limit.
    fn all_evidence() -> Vec<Evidence> {
        let flags = [false, true];
        let memory = [None, Some(0), Some(MAX), Some(MAX + 1)];
        let tasks = [None, Some(PIDS), Some(PIDS + 1)];
        let times = [None, Some(TIME - Duration::from_nanos(1)), Some(TIME)];
        let mut every = Vec::new();
        for oom_killed in flags {
            for above_high in flags {
                for memory_bytes in memory {
                    for tasks_refused in flags {
                        for tasks in tasks {
                            every.extend(times.map(|cpu_time| Evidence {
                                oom_killed,
                                above_high,
                                memory_bytes,
                                tasks_refused,
                                tasks,
                                cpu_time,
                            }));
                        }
                    }
                }
            }
        }
        every
    }

    #[test]
    fn every_combination_has_the_one_reason_that_its_evidence_says() {
        use TerminationReason as Reason;
        let mut counted = 0;
        for enforcement in [Enforcement::Hard, Enforcement::Soft, Enforcement::Observe] {
            let limits = all(enforcement);
            for seen in all_evidence() {
                for stopped in [false, true] {
                    let over = seen.memory_bytes == Some(MAX + 1);
                    let memory = match enforcement {
                        Enforcement::Hard => seen.oom_killed,
                        Enforcement::Soft => seen.above_high || over,
                        Enforcement::Observe => false,
                    };
                    let pids = seen.tasks_refused || seen.tasks == Some(PIDS + 1);
                    let time = seen.cpu_time == Some(TIME);
                    let expected = match (stopped, enforcement, memory, pids, time) {
                        (true, ..) | (_, Enforcement::Observe, ..) => None,
                        (.., true, _, _) => Some(Reason::MemoryExceeded),
                        (.., false, true, _) => Some(Reason::PidsExceeded),
                        (.., false, false, true) => Some(Reason::CpuExceeded),
                        (.., false, false, false) => None,
                    };
                    let verdict = limit_verdict(&limits, stopped, &seen);
                    assert_eq!(verdict, expected, "{enforcement} {stopped} {seen:?}");
                    counted += 1;
                }
            }
        }
        assert_eq!(counted, 3 * 2 * 2 * 2 * 4 * 2 * 3 * 3);
    }

    #[test]
    fn what_was_not_limited_was_not_reached() {
        let none = ResourceLimits {
            memory_max_bytes: None,
            pids_max: None,
            cpu_time: None,
            ..all(Enforcement::Hard)
        };
        for seen in all_evidence() {
            assert_eq!(reached(&none, &seen), Reached::default(), "{seen:?}");
        }
    }

    #[test]
    fn what_is_only_observed_is_told_all_the_same() {
        let seen = Evidence {
            memory_bytes: Some(MAX + 1),
            tasks: Some(PIDS + 1),
            cpu_time: Some(TIME),
            ..Evidence::default()
        };
        let limits = all(Enforcement::Observe);
        let list = reached(&limits, &seen).list();
        assert_eq!(list, [Limit::Memory, Limit::Pids, Limit::CpuTime]);
        assert_eq!(limit_verdict(&limits, false, &seen), None);
    }
}
