//! What the tree of one operation may use, as `op.execProcess` says it.

use serde::{Deserialize, Serialize};

/// Limits on everything that an operation starts, together. At least one of the numbers is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Memory, in bytes; at least 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory_bytes: Option<u64>,
    /// Processes and threads at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pids: Option<u64>,
    /// Processors at one time, in thousandths of one; at least 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_milli_cpus: Option<u32>,
    /// Processor time in all, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cpu_time_ms: Option<u64>,
    /// How they are seen to.
    #[serde(default)]
    pub enforcement: Enforcement,
}

/// How limits are seen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// By the kernel, or the request is refused with `limits_refused`.
    #[default]
    Hard,
    /// By watching and stopping.
    Soft,
    /// Not at all: what was used is recorded.
    Observe,
}
