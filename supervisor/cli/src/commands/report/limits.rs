//! What is said of an operation that went beyond a limit.

use xioflow_kernel::OperationResult;
use xioflow_kernel::journal::TerminationReason;

use crate::duration::format_ms;
use crate::size::format_size;

/// Whose limit it was that a process was killed for, where it was not its own. A person would look at the command.
pub(super) fn killed_for_others(result: &OperationResult) -> Option<&'static str> {
    let killed = result.limit_events.as_ref()?.memory_oom_kill?;
    let is_own = result.termination_reason == Some(TerminationReason::MemoryExceeded);
    (killed > 0 && !is_own).then_some(
        "the kernel killed a process of it for want of memory, for a limit that is above its own or that it has set itself",
    )
}

/// Which limit it was, and what was seen; `None` for any other reason.
pub(super) fn exceeded(result: &OperationResult) -> Option<String> {
    let asked = result.limits.as_ref().map(|limits| limits.asked);
    let usage = result.usage.as_ref();
    Some(match result.termination_reason? {
        TerminationReason::MemoryExceeded => {
            let max = asked.and_then(|asked| asked.memory_max_bytes);
            let limit = max.map_or_else(String::new, |max| format!(" of {}", format_size(max)));
            let peak = usage.and_then(|usage| usage.memory_peak_bytes);
            let peak = peak.map(|peak| format!("; it had {} at most", format_size(peak)));
            format!(
                "its memory limit{limit} was exceeded{}",
                peak.unwrap_or_default()
            )
        }
        TerminationReason::PidsExceeded => {
            let max = asked.and_then(|asked| asked.pids_max);
            let limit = max.map_or_else(String::new, |max| format!(" of {max}"));
            let peak = usage.and_then(|usage| usage.pids_peak);
            let peak = peak.map(|peak| format!("; it had {peak} at one time"));
            format!(
                "its limit{limit} processes was exceeded{}",
                peak.unwrap_or_default()
            )
        }
        TerminationReason::CpuExceeded => {
            let max = asked.and_then(|asked| asked.cpu_time);
            let limit = max.map_or_else(String::new, |max| {
                let max_ms = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
                format!(" of {}", format_ms(max_ms))
            });
            let used = result
                .cpu_time_ms
                .map(|used| format!("; it used {}", format_ms(used)));
            format!(
                "its limit{limit} of processor time was used up{}",
                used.unwrap_or_default()
            )
        }
        _ => return None,
    })
}
