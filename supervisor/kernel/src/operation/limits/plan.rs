//! By which means each limit of an operation can be seen to, or why it cannot. Pure.

use crate::error::ExecuteError;
use crate::limits::{Enforcement, ResourceLimits, cpus};

/// Refuses limits that cannot be enforced as they are asked for.
pub(in crate::operation) fn admissible(limits: &ResourceLimits) -> Result<(), ExecuteError> {
    let refused = |why: &str, remedy: &str| ExecuteError::LimitsRefused {
        limit: first(limits),
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    };
    match limits.enforcement {
        Enforcement::Hard => Err(refused(
            "this release gives operations no control group of their own",
            "run it without limits",
        )),
        Enforcement::Soft | Enforcement::Observe => Err(refused(
            "this release does not watch what operations use",
            "run it without limits",
        )),
    }
}

/// The first of the limits, in words.
fn first(limits: &ResourceLimits) -> String {
    let ResourceLimits {
        memory_max_bytes,
        pids_max,
        milli_cpus,
        cpu_time,
        enforcement,
    } = limits;
    let what = match (memory_max_bytes, pids_max, milli_cpus, cpu_time) {
        (Some(bytes), ..) => format!("{bytes} bytes of memory"),
        (None, Some(pids), ..) => format!("{pids} processes"),
        (None, None, Some(milli), _) => format!("{} processors", cpus(*milli)),
        (None, None, None, time) => {
            let time_ms = time.unwrap_or_default().as_millis();
            format!("{time_ms} ms of processor time")
        }
    };
    format!("the limit of {what} ({enforcement})")
}
