//! What a result says of limits and of what was used.

use serde::{Deserialize, Serialize};
use xioflow_journal::TerminationReason;

use super::ResourceLimits;

/// A limit that something can be stopped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
    /// Processor time.
    CpuTime,
}

impl Limit {
    /// Why an operation has ended that went beyond it.
    #[must_use]
    pub const fn reason(self) -> TerminationReason {
        match self {
            Self::Memory => TerminationReason::MemoryExceeded,
            Self::Pids => TerminationReason::PidsExceeded,
            Self::CpuTime => TerminationReason::CpuExceeded,
        }
    }
}

/// By which means a limit is seen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// The kernel lets the control group of the operation have no more.
    Kernel,
    /// What its control group counts is watched, without any loss of time.
    Group,
    /// Its processes are looked at, ten times a second. What comes and goes in between is not seen.
    Sampling,
    /// Nobody sees to it; what its control group has counted is told.
    Recorded,
}

/// The means for each limit that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitMeans {
    /// For memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Means>,
    /// For processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<Means>,
    /// For processors at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Means>,
    /// For processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Means>,
}

/// The limits of one operation, and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitsReport {
    /// What was asked for.
    #[serde(flatten)]
    pub asked: ResourceLimits,
    /// How it was seen to.
    pub means: LimitMeans,
    /// Which of them were reached, whatever followed from that.
    pub reached: Vec<Limit>,
}

/// What an operation has used. What the system did not tell is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// Who counted.
    pub source: UsageSource,
    /// The most memory that it had at one time, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most processes and threads that it had at one time.
    pub pids_peak: Option<u64>,
    /// Processor time in its programs, in microseconds.
    pub cpu_user_us: Option<u64>,
    /// Processor time in the kernel, in microseconds.
    pub cpu_system_us: Option<u64>,
    /// Bytes read from disks.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to disks.
    pub io_write_bytes: Option<u64>,
    /// How long it had to wait for what it needed.
    pub pressure: Option<PressureReport>,
}

impl UsageReport {
    /// One in which nothing is known.
    pub(crate) fn nothing(source: UsageSource) -> Self {
        Self {
            source,
            memory_peak_bytes: None,
            pids_peak: None,
            cpu_user_us: None,
            cpu_system_us: None,
            io_read_bytes: None,
            io_write_bytes: None,
            pressure: None,
        }
    }
}

/// Who counted what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The kernel, in the control group of the operation.
    Cgroup,
    /// Its supervisor, by a look ten times a second. Shared pages may count more than once.
    Sampling,
}

/// How long an operation had to wait, as the kernel's "pressure stall information" has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PressureReport {
    /// For a processor.
    pub cpu: StallReport,
    /// For memory.
    pub memory: StallReport,
    /// For disks.
    pub io: StallReport,
}

/// How long somebody, and everybody, had to wait for one thing, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StallReport {
    /// At least one process.
    pub some_us: Option<u64>,
    /// All of them at the same time.
    pub full_us: Option<u64>,
}

/// How often the control group of an operation met its limits, as the kernel has counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitEvents {
    /// It went above `memory.high` and was slowed down.
    pub memory_high: Option<u64>,
    /// It was about to go above `memory.max`, and memory was reclaimed.
    pub memory_max: Option<u64>,
    /// Nothing more could be reclaimed.
    pub memory_oom: Option<u64>,
    /// A process of it was ended for memory, by whatever limit.
    pub memory_oom_kill: Option<u64>,
    /// All of it was ended for memory.
    pub memory_oom_group_kill: Option<u64>,
    /// A process was not made, for its `pids.max`.
    pub pids_max: Option<u64>,
}
