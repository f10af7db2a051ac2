//! What the tree of one operation may use, in the words of whoever asks for it. Pure: `operation/limits`
//! sees to it, `told` is what a result says of it.

mod told;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::TIMEOUT_MAX;

pub use told::{
    Limit, LimitEvents, LimitMeans, LimitsReport, Means, PressureReport, StallReport, UsageReport,
    UsageSource,
};

/// How a limit is seen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// By the kernel, in a control group of the operation's own. Where that cannot be had the submission is refused
    /// ([`ExecuteError::LimitsRefused`](crate::ExecuteError::LimitsRefused)); nothing is weakened.
    #[default]
    Hard,
    /// By watching: whoever goes beyond a limit is stopped. In between it may use more.
    Soft,
    /// Not at all. What was used is recorded, and which limits that was more than.
    Observe,
}

impl Enforcement {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::Observe => "observe",
        }
    }
}

impl std::fmt::Display for Enforcement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Least limit of memory, in bytes: below it no program of a usual system begins, so it is a slip of the unit.
pub const MEMORY_LIMIT_MIN_BYTES: u64 = 1 << 20;

/// Greatest limit of memory, in bytes: what the record can hold as a number.
pub const MEMORY_LIMIT_MAX_BYTES: u64 = i64::MAX as u64;

/// Greatest limit of processes: no kernel has more of them, and none takes more for a limit (`PID_MAX_LIMIT`).
pub const PIDS_LIMIT_MAX: u64 = 1 << 22;

/// Least limit of processors, in thousandths of one: the scheduler's least share is 1 ms of each 100 ms.
pub const MILLI_CPUS_MIN: u32 = 10;

/// Greatest limit of processors, in thousandths of one: no kernel runs on more.
pub const MILLI_CPUS_MAX: u32 = 8192 * 1000;

/// What everything that an operation starts may use, together.
///
/// A new one has no limits; one without any is refused ([`InvalidLimits::None`]).
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use xioflow_kernel::{Enforcement, ResourceLimits};
///
/// let limits = ResourceLimits::default()
///     .memory_bytes(512 << 20)
///     .pids(256)
///     .milli_cpus(1500)
///     .cpu_time(Duration::from_secs(60))
///     .enforcement(Enforcement::Soft);
/// assert!(limits.validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// Memory, in bytes.
    #[serde(rename = "maxMemoryBytes", default)]
    pub memory_max_bytes: Option<u64>,
    /// Processes and threads at one time.
    #[serde(rename = "maxPids", default)]
    pub pids_max: Option<u64>,
    /// Processors at one time, in thousandths of one.
    #[serde(rename = "maxMilliCpus", default)]
    pub milli_cpus: Option<u32>,
    /// Processor time in all.
    #[serde(rename = "maxCpuTimeMs", with = "millis", default)]
    pub cpu_time: Option<Duration>,
    /// How they are seen to.
    #[serde(default)]
    pub enforcement: Enforcement,
}

/// Limits that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimits {
    /// There is none.
    #[error(
        "there is no limit to be enforced: name one of memory, processes, processors, processor time"
    )]
    None,
    /// No program fits, or no record.
    #[error(
        "a memory limit of {bytes} bytes is none: it is at least {MEMORY_LIMIT_MIN_BYTES} bytes (1 MiB), below which \
         no program begins, and at most {MEMORY_LIMIT_MAX_BYTES}"
    )]
    Memory {
        /// What was asked for.
        bytes: u64,
    },
    /// No process fits, or no kernel has as many.
    #[error("a limit of {pids} processes is none: it is at least 1 and at most {PIDS_LIMIT_MAX}")]
    Pids {
        /// What was asked for.
        pids: u64,
    },
    /// Less than a scheduler can give, or more than there are anywhere.
    #[error("a limit of {} processors is none: it is at least 0.01 and at most 8192", cpus(*milli_cpus))]
    Cpus {
        /// What was asked for, in thousandths of a processor.
        milli_cpus: u32,
    },
    /// Nothing can run in it, or no record can hold it.
    #[error("a limit of {} ms of processor time is none: it is at least 1 ms, and at most {} ms", cpu_time.as_millis(), TIMEOUT_MAX.as_millis())]
    CpuTime {
        /// What was asked for.
        cpu_time: Duration,
    },
}

/// A number of processors for people.
pub(crate) fn cpus(milli_cpus: u32) -> String {
    let (whole, milli) = (milli_cpus / 1000, milli_cpus % 1000);
    match milli {
        0 => whole.to_string(),
        _ => format!("{whole}.{milli:03}")
            .trim_end_matches('0')
            .to_owned(),
    }
}

impl ResourceLimits {
    /// Limits its memory: anonymous memory, the page cache that it causes, and what the kernel has for it.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_max_bytes = Some(bytes);
        self
    }

    /// Limits the number of its processes, threads included.
    #[must_use]
    pub fn pids(mut self, pids: u64) -> Self {
        self.pids_max = Some(pids);
        self
    }

    /// Limits how many processors it uses at one time, in thousandths of one. It is slowed, and not ended.
    #[must_use]
    pub fn milli_cpus(mut self, milli_cpus: u32) -> Self {
        self.milli_cpus = Some(milli_cpus);
        self
    }

    /// Limits the processor time that all of it uses together.
    #[must_use]
    pub fn cpu_time(mut self, cpu_time: Duration) -> Self {
        self.cpu_time = Some(cpu_time);
        self
    }

    /// Sets how they are seen to; hard by default.
    #[must_use]
    pub fn enforcement(mut self, enforcement: Enforcement) -> Self {
        self.enforcement = enforcement;
        self
    }

    /// Checks everything that can be known of them without asking a system.
    ///
    /// # Errors
    /// [`InvalidLimits`] names the first that cannot be meant.
    pub fn validate(&self) -> Result<(), InvalidLimits> {
        let Self {
            memory_max_bytes,
            pids_max,
            milli_cpus,
            cpu_time,
            enforcement: _,
        } = *self;
        if self.are_none() {
            return Err(InvalidLimits::None);
        }
        let memory = MEMORY_LIMIT_MIN_BYTES..=MEMORY_LIMIT_MAX_BYTES;
        if let Some(bytes) = memory_max_bytes.filter(|bytes| !memory.contains(bytes)) {
            return Err(InvalidLimits::Memory { bytes });
        }
        if let Some(pids) = pids_max.filter(|pids| !(1..=PIDS_LIMIT_MAX).contains(pids)) {
            return Err(InvalidLimits::Pids { pids });
        }
        let cpus = MILLI_CPUS_MIN..=MILLI_CPUS_MAX;
        if let Some(milli_cpus) = milli_cpus.filter(|milli| !cpus.contains(milli)) {
            return Err(InvalidLimits::Cpus { milli_cpus });
        }
        let time = Duration::from_millis(1)..=TIMEOUT_MAX;
        match cpu_time.filter(|asked| !time.contains(asked)) {
            Some(cpu_time) => Err(InvalidLimits::CpuTime { cpu_time }),
            None => Ok(()),
        }
    }

    /// Whether nothing is limited.
    fn are_none(&self) -> bool {
        self.memory_max_bytes.is_none()
            && self.pids_max.is_none()
            && self.milli_cpus.is_none()
            && self.cpu_time.is_none()
    }

    /// Puts them into the budget of an operation that is about to be recorded.
    pub(crate) fn put_into(&self, budget: &mut Value) {
        let ours = serde_json::to_value(self).unwrap_or_default();
        if let (Value::Object(budget), Value::Object(ours)) = (budget, ours) {
            budget.extend(ours.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }

    /// All of it as one text, for a fingerprint. The words never change.
    pub(crate) fn as_input(&self) -> String {
        let Self {
            memory_max_bytes,
            pids_max,
            milli_cpus,
            cpu_time,
            enforcement,
        } = self;
        let cpu_time_ms = cpu_time.map(|it| it.as_millis());
        format!("{memory_max_bytes:?} {pids_max:?} {milli_cpus:?} {cpu_time_ms:?} {enforcement}")
    }
}

/// A length of time as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the shape that serde asks for")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let millis = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        millis.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn none() -> ResourceLimits {
        ResourceLimits::default()
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for limits in [
            none(),
            none().enforcement(Enforcement::Observe),
            none().memory_bytes(0),
            none().memory_bytes(512),
            none().memory_bytes(u64::MAX),
            none().pids(0),
            none().pids(PIDS_LIMIT_MAX + 1),
            none().milli_cpus(0),
            none().milli_cpus(9),
            none().milli_cpus(u32::MAX),
            none().cpu_time(Duration::ZERO),
            none().cpu_time(Duration::MAX),
        ] {
            assert!(limits.validate().is_err(), "{limits:?}");
        }
        for limits in [
            none().memory_bytes(MEMORY_LIMIT_MIN_BYTES),
            none().pids(1),
            none().milli_cpus(MILLI_CPUS_MIN),
            none().cpu_time(Duration::from_millis(1)),
        ] {
            assert_eq!(limits.validate(), Ok(()), "{limits:?}");
        }
    }

    #[test]
    fn what_is_recorded_is_what_there_is() {
        let limits = none()
            .memory_bytes(64 << 20)
            .cpu_time(Duration::from_secs(2))
            .enforcement(Enforcement::Soft);
        let mut budget = json!({"maxOutputBytes": 1});
        limits.put_into(&mut budget);
        assert_eq!(
            budget,
            json!({
                "maxOutputBytes": 1, "maxMemoryBytes": 64 << 20, "maxCpuTimeMs": 2000,
                "enforcement": "soft",
            })
        );
    }

    #[test]
    fn processors_are_written_as_people_do() {
        assert_eq!(
            [10, 500, 1500, 2000, 1255].map(cpus),
            ["0.01", "0.5", "1.5", "2", "1.255"]
        );
    }
}
