//! By which means each limit of an operation can be seen to, or why it cannot. Pure.

use crate::limits::{Enforcement, LimitMeans, Means, ResourceLimits, cpus};

/// What the control group of an operation can do; without a group it is `None` where this is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::operation) struct Capable {
    pub(in crate::operation) memory: bool,
    pub(in crate::operation) pids: bool,
    pub(in crate::operation) cpu: bool,
}

/// A limit that cannot be enforced as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lacking {
    /// The limit, in words.
    pub(super) limit: String,
    /// What it needs.
    pub(super) needs: &'static str,
}

/// Finds the means for each limit.
///
/// Hard limits are enforced by the kernel or not at all. Processors at one time can only be limited by the kernel,
/// which slows a tree down: nobody can be stopped for using too many.
pub(super) fn plan(limits: &ResourceLimits, group: Option<Capable>) -> Result<LimitMeans, Lacking> {
    let ResourceLimits {
        memory_max_bytes,
        pids_max,
        milli_cpus,
        cpu_time,
        enforcement,
    } = *limits;
    let has = group.unwrap_or_default();
    let means = |controller: bool, in_group: Means| match (enforcement, controller) {
        (Enforcement::Observe, true) => Some(Means::Recorded),
        (_, true) => Some(in_group),
        (Enforcement::Hard, false) => None,
        (Enforcement::Soft | Enforcement::Observe, false) => Some(Means::Sampling),
    };
    let lacking = |limit: String, needs| Lacking {
        limit: format!("{limit} ({enforcement})"),
        needs,
    };
    let memory = memory_max_bytes.map(|bytes| {
        let by = match enforcement {
            Enforcement::Hard => Means::Kernel,
            Enforcement::Soft | Enforcement::Observe => Means::Group,
        };
        let limit = || lacking(format!("a limit of {bytes} bytes of memory"), MEMORY);
        means(has.memory, by).ok_or_else(limit)
    });
    let pids = pids_max.map(|pids| {
        let limit = || lacking(format!("a limit of {pids} processes"), PIDS);
        means(has.pids, Means::Kernel).ok_or_else(limit)
    });
    let cpu = milli_cpus.map(|milli| match (enforcement, has.cpu) {
        (Enforcement::Observe, _) => Ok(Means::Recorded),
        (_, true) => Ok(Means::Kernel),
        (_, false) => {
            let limit = format!("a limit of {} processors", cpus(milli));
            Err(lacking(limit, CPU))
        }
    });
    let time = cpu_time.map(|time| {
        let time_ms = time.as_millis();
        let limit = || lacking(format!("a limit of {time_ms} ms of processor time"), GROUP);
        means(group.is_some(), Means::Group).ok_or_else(limit)
    });
    Ok(LimitMeans {
        memory: memory.transpose()?,
        pids: pids.transpose()?,
        cpus: cpu.transpose()?,
        cpu_time: time.transpose()?,
    })
}

const MEMORY: &str = "a control group of its own with the memory controller";
const PIDS: &str = "a control group of its own with the pids controller";
const CPU: &str = "a control group of its own with the cpu controller";
const GROUP: &str = "a control group of its own";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn all(enforcement: Enforcement) -> ResourceLimits {
        ResourceLimits::default()
            .memory_bytes(64 << 20)
            .pids(16)
            .milli_cpus(500)
            .cpu_time(Duration::from_secs(2))
            .enforcement(enforcement)
    }

    /// Every enforcement, every group: a hard limit is the kernel's or refused, and nothing is sampled that a group
    /// counts.
    #[test]
    fn nothing_degrades() {
        let flags = [false, true];
        let mut groups = vec![None];
        for memory in flags {
            for pids in flags {
                groups.extend(flags.map(|cpu| Some(Capable { memory, pids, cpu })));
            }
        }
        for group in groups {
            let has = group.unwrap_or_default();
            let hard = plan(&all(Enforcement::Hard), group);
            match has.memory && has.pids && has.cpu {
                true => {
                    let means = hard.expect("it has everything");
                    let by = [means.memory, means.pids, means.cpus];
                    assert_eq!(by, [Some(Means::Kernel); 3]);
                    assert_eq!(means.cpu_time, Some(Means::Group));
                }
                false => assert!(hard.is_err(), "{group:?}"),
            }
            let sampled = |controller| match controller {
                true => Means::Recorded,
                false => Means::Sampling,
            };
            let observed = plan(&all(Enforcement::Observe), group).expect("it asks for nothing");
            assert_eq!(observed.memory, Some(sampled(has.memory)));
            assert_eq!(observed.pids, Some(sampled(has.pids)));
            assert_eq!(observed.cpu_time, Some(sampled(group.is_some())));
            let soft = plan(&all(Enforcement::Soft), group);
            match has.cpu {
                // Nobody can watch that.
                false => assert!(soft.unwrap_err().needs.contains("cpu controller")),
                true => {
                    let memory = if has.memory {
                        Means::Group
                    } else {
                        Means::Sampling
                    };
                    assert_eq!(soft.expect("it has that").memory, Some(memory));
                }
            }
        }
    }

    #[test]
    fn each_hard_limit_needs_its_own() {
        let none = ResourceLimits::default();
        for (limits, needs) in [
            (none.memory_bytes(1 << 20), MEMORY),
            (none.pids(1), PIDS),
            (none.milli_cpus(500), CPU),
        ] {
            let bare = plan(&limits, Some(Capable::default()));
            assert_eq!(bare.expect_err("refused").needs, needs);
        }
        let time = none.cpu_time(Duration::from_secs(1));
        assert_eq!(plan(&time, None).expect_err("refused").needs, GROUP);
        // Every group counts processor time.
        assert!(plan(&time, Some(Capable::default())).is_ok());
        assert_eq!(
            plan(&none.pids(1).enforcement(Enforcement::Soft), None).map(|it| it.memory),
            Ok(None)
        );
    }
}
