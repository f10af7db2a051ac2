//! What the control group of an operation has counted, as evidence and as a result tells it; and which files limits
//! are written to. Pure, but for the reading of the files.

use std::time::Duration;

use xioflow_cgroup::{Counters, CpuMax, Leaf, Limits, OutOfMemory, Pressure, Usage};

use super::plan::Capable;
use super::verdict::Evidence;
use crate::limits::{
    Enforcement, LimitEvents, PressureReport, ResourceLimits, StallReport, UsageReport, UsageSource,
};

/// The length of time in which a share of processors is counted: the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;

/// What one control group has counted so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub(super) counters: Counters,
    pub(super) usage: Usage,
}

impl Counted {
    /// Reads it; else why it cannot be read.
    pub(super) fn of(leaf: &Leaf) -> Result<Self, String> {
        let counters = leaf.counters().map_err(|error| error.to_string())?;
        Ok(Self {
            counters,
            usage: leaf.usage(),
        })
    }

    /// What a leaf in which this is counted can do. What is observed is what it had at most, which kernels before
    /// 5.19 do not say of memory.
    pub(super) fn capable(&self, enforcement: Enforcement, cpu: bool) -> Capable {
        match enforcement {
            Enforcement::Hard | Enforcement::Soft => Capable {
                memory: self.counters.memory.max.is_some(),
                pids: self.counters.pids.max.is_some(),
                cpu,
            },
            Enforcement::Observe => Capable {
                memory: self.usage.memory_peak_bytes.is_some(),
                pids: self.usage.pids_peak.is_some(),
                cpu,
            },
        }
    }

    /// Its processor time.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        let user = self.usage.cpu_user_us?;
        let system = self.usage.cpu_system_us?;
        Some(Duration::from_micros(user.saturating_add(system)))
    }

    /// What that is evidence of.
    pub(super) fn evidence(&self, limits: &ResourceLimits) -> Evidence {
        let Counters {
            memory,
            memory_own,
            pids,
        } = &self.counters;
        let own = matches!(
            self.counters.out_of_memory(),
            Some(OutOfMemory::Own | OutOfMemory::Untold)
        );
        let peak = self.usage.pids_peak;
        let refused = |max| {
            // Where nobody tells whose limit it was, a refusal is taken for that of the nearest.
            let any = pids.max.is_some_and(|count| count > 0);
            pids.own_limit_hit(max, peak).unwrap_or(any)
        };
        Evidence {
            oom_killed: own,
            above_high: memory_own
                .high
                .or(memory.high)
                .is_some_and(|count| count > 0),
            memory_bytes: self.usage.memory_peak_bytes,
            tasks_refused: limits.pids_max.is_some_and(refused),
            tasks: peak,
            cpu_time: self.cpu_time(),
        }
    }

    /// What was used, as a result tells it.
    pub(super) fn usage_report(&self) -> UsageReport {
        let Usage {
            memory_peak_bytes,
            pids_peak,
            cpu_user_us,
            cpu_system_us,
            io_read_bytes,
            io_write_bytes,
            pressure,
        } = self.usage;
        UsageReport {
            source: UsageSource::Cgroup,
            memory_peak_bytes,
            pids_peak,
            cpu_user_us,
            cpu_system_us,
            io_read_bytes,
            io_write_bytes,
            pressure: Some(PressureReport {
                cpu: stall(pressure.cpu),
                memory: stall(pressure.memory),
                io: stall(pressure.io),
            }),
        }
    }

    /// How often limits were met, as a result tells it.
    pub(super) fn events_report(&self) -> LimitEvents {
        let Counters { memory, pids, .. } = &self.counters;
        LimitEvents {
            memory_high: memory.high,
            memory_max: memory.max,
            memory_oom: memory.oom,
            memory_oom_kill: memory.oom_kill,
            memory_oom_group_kill: memory.oom_group_kill,
            pids_max: pids.max,
        }
    }
}

fn stall(pressure: Pressure) -> StallReport {
    StallReport {
        some_us: pressure.some_us,
        full_us: pressure.full_us,
    }
}

/// What is written into the group of an operation with these limits. A limit that is only observed is written
/// nowhere.
pub(in crate::operation) fn leaf_limits(limits: &ResourceLimits) -> Limits {
    let ResourceLimits {
        memory_max_bytes,
        pids_max,
        milli_cpus,
        cpu_time: _,
        enforcement,
    } = *limits;
    let cpu_max = milli_cpus.map(|milli| CpuMax {
        quota_us: u64::from(milli) * CPU_PERIOD_US / 1000,
        period_us: CPU_PERIOD_US,
    });
    match enforcement {
        Enforcement::Observe => Limits::default(),
        Enforcement::Hard => Limits {
            memory_max_bytes,
            pids_max,
            cpu_max,
            ..Limits::default()
        },
        // It is to have the time to end by itself.
        Enforcement::Soft => Limits {
            memory_high_bytes: memory_max_bytes,
            pids_max,
            cpu_max,
            ..Limits::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use xioflow_cgroup::{MemoryCounters, PidsCounters};

    use super::*;

    fn all(enforcement: Enforcement) -> ResourceLimits {
        ResourceLimits::default()
            .memory_bytes(96 << 20)
            .pids(16)
            .milli_cpus(500)
            .enforcement(enforcement)
    }

    #[test]
    fn each_limit_has_its_file() {
        let hard = leaf_limits(&all(Enforcement::Hard));
        assert_eq!(hard.memory_max_bytes, Some(96 << 20));
        assert_eq!((hard.memory_high_bytes, hard.pids_max), (None, Some(16)));
        let share = hard.cpu_max.map(|cpu| (cpu.quota_us, cpu.period_us));
        assert_eq!(share, Some((50_000, 100_000)));
        assert!(hard.check().is_ok());
        let soft = leaf_limits(&all(Enforcement::Soft));
        assert_eq!(soft.memory_high_bytes, Some(96 << 20));
        assert_eq!((soft.memory_max_bytes, soft.pids_max), (None, Some(16)));
        assert_eq!(leaf_limits(&all(Enforcement::Observe)), Limits::default());
    }

    #[test]
    fn the_least_and_the_most_that_can_be_asked_for_can_be_written() {
        use crate::limits::{
            MEMORY_LIMIT_MAX_BYTES, MEMORY_LIMIT_MIN_BYTES, MILLI_CPUS_MAX, MILLI_CPUS_MIN,
            PIDS_LIMIT_MAX,
        };
        let none = ResourceLimits::default();
        for limits in [
            none.milli_cpus(MILLI_CPUS_MIN)
                .pids(1)
                .memory_bytes(MEMORY_LIMIT_MIN_BYTES),
            none.milli_cpus(MILLI_CPUS_MAX)
                .pids(PIDS_LIMIT_MAX)
                .memory_bytes(MEMORY_LIMIT_MAX_BYTES),
        ] {
            assert_eq!(limits.validate(), Ok(()));
            let checked = leaf_limits(&limits).check();
            assert!(checked.is_ok(), "{limits:?}: {checked:?}");
        }
    }

    fn memory(own_oom: u64, oom: u64, kills: u64) -> Counted {
        let counters = |oom| MemoryCounters {
            oom: Some(oom),
            oom_kill: Some(kills),
            ..MemoryCounters::default()
        };
        Counted {
            counters: Counters {
                memory: counters(oom),
                memory_own: counters(own_oom),
                pids: PidsCounters::default(),
            },
            usage: Usage::default(),
        }
    }

    /// Above the leaf is the domain's budget, the user's, the machine's; below it is the command's own business.
    #[test]
    fn only_its_own_limit_is_the_command_s() {
        let hard = all(Enforcement::Hard);
        for (own_oom, oom, kills, expected) in [
            (1, 1, 1, true),
            (0, 0, 1, false),
            (0, 1, 1, false),
            (3, 3, 0, false),
            (0, 0, 0, false),
        ] {
            let counted = memory(own_oom, oom, kills);
            let seen = counted.evidence(&hard).oom_killed;
            assert_eq!(seen, expected, "{own_oom} {oom} {kills}");
            assert_eq!(counted.events_report().memory_oom_kill, Some(kills));
        }
    }

    #[test]
    fn a_refused_fork_below_the_limit_is_somebody_else_s() {
        let refused = |max, own_max, peak| Counted {
            counters: Counters {
                pids: PidsCounters { max, own_max },
                ..Counters::default()
            },
            usage: Usage {
                pids_peak: peak,
                ..Usage::default()
            },
        };
        let hard = all(Enforcement::Hard);
        for (max, own_max, peak, expected) in [
            (Some(3), Some(3), None, true),
            (Some(3), Some(0), Some(16), false),
            (Some(3), None, Some(16), true),
            (Some(3), None, Some(9), false),
            // A kernel that tells nothing more.
            (Some(3), None, None, true),
            (Some(0), None, None, false),
            (None, None, None, false),
        ] {
            let seen = refused(max, own_max, peak).evidence(&hard).tasks_refused;
            assert_eq!(seen, expected, "{max:?} {own_max:?} {peak:?}");
        }
    }

    #[test]
    fn time_is_known_where_both_parts_are() {
        let mut counted = Counted::default();
        assert_eq!(counted.cpu_time(), None);
        counted.usage.cpu_user_us = Some(1_500_000);
        assert_eq!(counted.cpu_time(), None);
        counted.usage.cpu_system_us = Some(500_000);
        assert_eq!(counted.cpu_time(), Some(Duration::from_secs(2)));
    }
}
