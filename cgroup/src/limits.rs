//! The limits of a leaf, and what is written for them. Pure.
//!
//! Neighbours: `leaf` writes it; `device` finds the disk of a path.

use crate::controller::{Controller, Controllers};

/// What a leaf may use. What is null is left as it is: without limit in a new leaf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// `memory.max`: at this the kernel kills the whole leaf. It takes swap away as well.
    /// The kernel rounds down to whole pages.
    pub memory_max_bytes: Option<u64>,
    /// `memory.high`: above this the leaf is slowed down and its memory reclaimed; none is killed.
    pub memory_high_bytes: Option<u64>,
    /// `pids.max`: processes and threads.
    pub pids_max: Option<u64>,
    /// `cpu.max`.
    pub cpu_max: Option<CpuMax>,
    /// `io.max`, one entry for each disk.
    pub io_max: Vec<IoMax>,
}

/// Processor time per period, of all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuMax {
    /// Microseconds of processor time in each period; at least 1000.
    pub quota_us: u64,
    /// Length of a period in microseconds, 1000 to 1000000.
    pub period_us: u64,
}

/// Limits for one disk; what is null stays without limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoMax {
    /// Major and minor number of the whole disk, not of a partition.
    pub device: (u32, u32),
    /// Bytes read per second.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_per_second: Option<u64>,
    /// Read operations per second.
    pub reads_per_second: Option<u64>,
    /// Write operations per second.
    pub writes_per_second: Option<u64>,
}

/// A limit that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Nothing could run with it.
    #[error("{file} of 0 lets nothing run; leave it out for no limit")]
    Zero {
        /// The control file.
        file: &'static str,
    },
    /// Outside of what the kernel takes.
    #[error("{what} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// What it is about, with its unit.
        what: &'static str,
        /// What was asked.
        value: u64,
        /// The least that the kernel takes.
        min: u64,
        /// The most that the kernel takes.
        max: u64,
    },
}

/// One value for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) file: &'static str,
    pub(crate) value: String,
    /// Whether the kernel may be without that file.
    pub(crate) optional: bool,
}

/// `PID_MAX_LIMIT` of 64-bit Linux: the most processes that there can be. `pids.max` takes no
/// number above it, and there a limit means nothing.
const PIDS_MAX: u64 = 4 << 20;

/// What the kernel takes as a period of `cpu.max`, and the least quota (sched/core.c).
const CPU_PERIOD_US_MIN: u64 = 1_000;
const CPU_PERIOD_US_MAX: u64 = 1_000_000;
/// The most that the kernel counts with (`MAX_BW`), far more than any machine has processors for.
const CPU_QUOTA_US_MAX: u64 = (1 << 44) - 1;

impl Limits {
    /// The controllers that have to be handed down for them.
    #[must_use]
    pub fn controllers(&self) -> Controllers {
        let memory = self.memory_max_bytes.is_some() || self.memory_high_bytes.is_some();
        let needed = [
            (memory, Controller::Memory),
            (self.pids_max.is_some(), Controller::Pids),
            (self.cpu_max.is_some(), Controller::Cpu),
            (!self.io_max.is_empty(), Controller::Io),
        ];
        let needed = needed.into_iter().filter(|(needed, _)| *needed);
        needed.map(|(_, controller)| controller).collect()
    }

    /// Checks them without asking the kernel.
    ///
    /// # Errors
    /// [`LimitError`] names the first that cannot be meant.
    pub fn check(&self) -> Result<(), LimitError> {
        let zero = [
            ("memory.max", self.memory_max_bytes),
            ("memory.high", self.memory_high_bytes),
            ("pids.max", self.pids_max),
        ];
        if let Some((file, _)) = zero.into_iter().find(|(_, value)| *value == Some(0)) {
            return Err(LimitError::Zero { file });
        }
        self.io_max.iter().try_for_each(IoMax::check)?;
        self.cpu_max.map_or(Ok(()), CpuMax::check)
    }

    /// What is written, in this order. Swap goes before memory, so that a limit never drives a
    /// process that is already there into swap.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        if let Some(bytes) = self.memory_max_bytes {
            settings.push(Setting::optional("memory.swap.max", "0"));
            settings.push(Setting::optional("memory.oom.group", "1"));
            settings.push(Setting::new("memory.max", bytes));
        }
        settings.extend(
            self.memory_high_bytes
                .map(|bytes| Setting::new("memory.high", bytes)),
        );
        settings.extend(
            self.pids_max
                .map(|count| Setting::new("pids.max", pids(count))),
        );
        settings.extend(self.cpu_max.map(|cpu| Setting::new("cpu.max", cpu.value())));
        settings.extend(
            self.io_max
                .iter()
                .map(|io| Setting::new("io.max", io.value())),
        );
        settings
    }
}

impl Setting {
    #[expect(clippy::needless_pass_by_value, reason = "numbers and strings alike")]
    fn new(file: &'static str, value: impl ToString) -> Self {
        Self {
            file,
            value: value.to_string(),
            optional: false,
        }
    }

    fn optional(file: &'static str, value: &str) -> Self {
        Self {
            optional: true,
            ..Self::new(file, value)
        }
    }
}

fn pids(count: u64) -> String {
    match count <= PIDS_MAX {
        true => count.to_string(),
        false => "max".to_owned(),
    }
}

impl CpuMax {
    fn check(self) -> Result<(), LimitError> {
        in_range(
            "cpu.max period (us)",
            self.period_us,
            CPU_PERIOD_US_MIN,
            CPU_PERIOD_US_MAX,
        )?;
        in_range(
            "cpu.max quota (us)",
            self.quota_us,
            CPU_PERIOD_US_MIN,
            CPU_QUOTA_US_MAX,
        )
    }

    fn value(self) -> String {
        format!("{} {}", self.quota_us, self.period_us)
    }
}

impl IoMax {
    const fn fields(&self) -> [(&'static str, Option<u64>); 4] {
        [
            ("rbps", self.read_bytes_per_second),
            ("wbps", self.write_bytes_per_second),
            ("riops", self.reads_per_second),
            ("wiops", self.writes_per_second),
        ]
    }

    fn check(&self) -> Result<(), LimitError> {
        let zero = self.fields().iter().any(|(_, value)| *value == Some(0));
        match zero {
            true => Err(LimitError::Zero { file: "io.max" }),
            false => Ok(()),
        }
    }

    /// `major:minor rbps=… …`, with all four, so that what an earlier call limited is free again.
    fn value(&self) -> String {
        let (major, minor) = self.device;
        let mut value = format!("{major}:{minor}");
        for (name, limit) in self.fields() {
            let limit = limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string());
            value.push_str(&format!(" {name}={limit}"));
        }
        value
    }
}

fn in_range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), LimitError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(LimitError::OutOfRange {
            what,
            value,
            min,
            max,
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(limits: &Limits) -> Vec<(&'static str, String)> {
        let settings = limits.settings().into_iter();
        settings
            .map(|setting| (setting.file, setting.value))
            .collect()
    }

    fn pairs(expected: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        expected
            .iter()
            .map(|(file, value)| (*file, (*value).to_owned()))
            .collect()
    }

    #[test]
    fn no_limit_writes_nothing_and_needs_no_controller() {
        let limits = Limits::default();
        assert!(limits.settings().is_empty());
        assert!(limits.controllers().is_empty());
        assert_eq!(limits.check(), Ok(()));
    }

    #[test]
    fn a_memory_limit_takes_swap_away_and_kills_the_whole_leaf() {
        let limits = Limits {
            memory_max_bytes: Some(4096),
            ..Limits::default()
        };
        let expected = [
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("memory.max", "4096"),
        ];
        assert_eq!(written(&limits), pairs(&expected));
        assert_eq!(limits.controllers(), Controllers::parse("memory"));
    }

    #[test]
    fn a_soft_memory_limit_leaves_swap_alone() {
        let limits = Limits {
            memory_high_bytes: Some(8192),
            ..Limits::default()
        };
        assert_eq!(written(&limits), pairs(&[("memory.high", "8192")]));
        assert_eq!(limits.controllers(), Controllers::parse("memory"));
    }

    #[test]
    fn the_rest_is_written_as_the_kernel_reads_it() {
        let limits = Limits {
            pids_max: Some(16),
            cpu_max: Some(CpuMax {
                quota_us: 150_000,
                period_us: 100_000,
            }),
            io_max: vec![IoMax {
                device: (8, 16),
                write_bytes_per_second: Some(1 << 20),
                ..IoMax::default()
            }],
            ..Limits::default()
        };
        let expected = [
            ("pids.max", "16"),
            ("cpu.max", "150000 100000"),
            ("io.max", "8:16 rbps=max wbps=1048576 riops=max wiops=max"),
        ];
        assert_eq!(written(&limits), pairs(&expected));
        assert_eq!(limits.controllers(), Controllers::parse("cpu pids io"));
    }

    #[test]
    fn zero_is_refused_by_its_file() {
        let zero = |limits: Limits| match limits.check() {
            Err(LimitError::Zero { file }) => file,
            other => panic!("{other:?}"),
        };
        let none = Limits::default;
        assert_eq!(
            zero(Limits {
                memory_max_bytes: Some(0),
                ..none()
            }),
            "memory.max"
        );
        assert_eq!(
            zero(Limits {
                memory_high_bytes: Some(0),
                ..none()
            }),
            "memory.high"
        );
        assert_eq!(
            zero(Limits {
                pids_max: Some(0),
                ..none()
            }),
            "pids.max"
        );
        let still = IoMax {
            reads_per_second: Some(0),
            ..IoMax::default()
        };
        assert_eq!(
            zero(Limits {
                io_max: vec![still],
                ..none()
            }),
            "io.max"
        );
    }

    #[test]
    fn processor_time_is_within_what_the_kernel_takes() {
        let check = |quota_us, period_us| {
            CpuMax {
                quota_us,
                period_us,
            }
            .check()
        };
        assert_eq!(check(1_000, 1_000), Ok(()));
        assert_eq!(check(8_000_000, 1_000_000), Ok(()));
        for (quota_us, period_us) in [
            (999, 100_000),
            (0, 100_000),
            (u64::MAX, 100_000),
            (1_000, 999),
            (1_000, 1_000_001),
        ] {
            assert!(
                check(quota_us, period_us).is_err(),
                "{quota_us} {period_us}"
            );
        }
    }

    #[test]
    fn more_processes_than_there_can_be_is_no_limit() {
        assert_eq!(pids(PIDS_MAX), "4194304");
        assert_eq!(pids(PIDS_MAX + 1), "max");
        assert_eq!(pids(u64::MAX), "max");
    }

    proptest! {
        #[test]
        fn whatever_is_written_needs_its_controller(
            memory in proptest::option::of(1u64..),
            high in proptest::option::of(1u64..),
            pids in proptest::option::of(1u64..),
        ) {
            let limits = Limits {
                memory_max_bytes: memory,
                memory_high_bytes: high,
                pids_max: pids,
                ..Limits::default()
            };
            prop_assert_eq!(limits.check(), Ok(()));
            for setting in limits.settings() {
                let controller = setting.file.split('.').next().expect("a name");
                let needed = Controllers::parse(controller);
                prop_assert_eq!(needed.without(limits.controllers()), Controllers::NONE);
                prop_assert!(!setting.value.is_empty());
            }
        }
    }
}
