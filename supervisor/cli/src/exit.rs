//! Exit statuses: documented, and each with its meaning.

use std::process::ExitCode;

use xioflow_kernel::journal::{Outcome, TerminationReason};
use xioflow_kernel::{OperationResult, Reuse, signal_number};

/// An exit status of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Done.
    Ok,
    /// The command's own.
    Command(u8),
    /// The answer is no: doctor found the host not ready, an operation is not there.
    No,
    /// The command line makes no sense.
    Usage,
    /// Asked for something that this host, or this release, cannot enforce.
    Unavailable,
    /// A fault of ours or of the system under us.
    Internal,
    /// The domain cannot be opened.
    CannotOpen,
    /// Somebody else has what is needed.
    Busy,
    /// The operation id was used with other inputs.
    IdConflict,
    /// The end of the operation cannot be proven.
    Indeterminate,
    /// The command's time was over.
    TimedOut,
}

impl Code {
    /// The number.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Command(code) => code,
            Self::No => 1,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::CannotOpen => 73,
            Self::Busy => 75,
            Self::IdConflict => 76,
            Self::Indeterminate => 79,
            Self::TimedOut => 124,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// A shell adds this to the number of the signal that ended a command.
const SIGNAL_BASE: i32 = 128;

/// The exit status for a result. `cancelled_by` is the signal that cancelled the operation, if
/// one reached this program.
pub(crate) fn of_result(result: &OperationResult, cancelled_by: Option<i32>) -> Code {
    match result.termination_reason {
        // While this program watched, only the loss of a helper or of the arbiter is recorded so.
        Some(TerminationReason::CrashDetected)
            if result.reused != Reuse::ReplayedRecorded
                && result.status != Outcome::Indeterminate =>
        {
            Code::Internal
        }
        _ => of_recorded(result, cancelled_by),
    }
}

/// The same for a result that was there before.
pub(crate) fn of_recorded(result: &OperationResult, cancelled_by: Option<i32>) -> Code {
    match (result.status, result.termination_reason) {
        (Outcome::Indeterminate, _) => Code::Indeterminate,
        (_, Some(TerminationReason::TimedOut)) => Code::TimedOut,
        (Outcome::Cancelled, _) => by_signal(cancelled_by.unwrap_or(SIGINT)),
        (Outcome::Failed, Some(reason)) if result.exit_code == Some(0) && is_limit(reason) => {
            by_last_signal(result)
        }
        // The command had ended well when the rest of its tree was cut short: that is no success.
        (Outcome::Failed, _) if result.exit_code == Some(0) => Code::Internal,
        _ => of_exit(result),
    }
}

/// Whether an operation with this reason went beyond a limit.
fn is_limit(reason: TerminationReason) -> bool {
    matches!(
        reason,
        TerminationReason::MemoryExceeded
            | TerminationReason::PidsExceeded
            | TerminationReason::CpuExceeded
    )
}

/// A command that makes a success of being stopped, or whose children alone were ended, is told by the signal: that
/// of its supervisor, else that with which the kernel ends.
fn by_last_signal(result: &OperationResult) -> Code {
    let sent = result
        .stop
        .as_ref()
        .and_then(|stop| stop.last_signal.as_deref());
    by_signal(sent.and_then(signal_number).unwrap_or(SIGKILL))
}

const SIGKILL: i32 = 9;

/// Number of the signal that Ctrl-C sends.
pub(crate) const SIGINT: i32 = 2;

fn of_exit(result: &OperationResult) -> Code {
    let signal = result.signal.as_deref().and_then(signal_number);
    match (result.exit_code, signal) {
        (Some(code), _) => Code::Command(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => by_signal(signal),
        // Its exit was not observed, so there is no status to hand on.
        (None, None) => Code::Indeterminate,
    }
}

/// What a shell says of a command that was ended by this signal.
pub(crate) fn by_signal(signal: i32) -> Code {
    Code::Command(u8::try_from(SIGNAL_BASE + signal).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(fields: serde_json::Value) -> OperationResult {
        let mut all = json!({
            "operationId": "op", "runId": "run", "status": "failed", "exitCode": null,
            "signal": null, "coreDumped": null, "terminationReason": "completed",
            "spawnFailure": null, "evidence": "observed", "treeSettlement": "empty",
            "scope": "subreaper_tree", "survivors": [], "survivorsTotal": 0,
            "residualProcessesReaped": false, "residualPids": [], "heldOpenBy": [], "stop": null,
            "cpuTimeMs": null, "peakMemoryBytes": null, "usageSource": null, "isTruncated": false,
            "stdoutTruncated": false, "stderrTruncated": false, "stdoutBytes": 0,
            "stderrBytes": 0, "stdoutHash": null, "stderrHash": null, "stdoutRef": null,
            "stderrRef": null, "stdoutSpillError": null, "stderrSpillError": null,
            "outputRef": null, "outputHash": null, "spillError": null, "reason": null,
            "recoveryGuidance": null, "durationMs": 1, "completedAt": "2026-01-01T00:00:00.000Z",
        });
        let (all_fields, fields) = (all.as_object_mut().unwrap(), fields);
        all_fields.extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn the_table_of_exit_statuses() {
        for (fields, signal, expected) in [
            (json!({"status": "succeeded", "exitCode": 0}), None, 0),
            (json!({"exitCode": 3}), None, 3),
            (json!({"exitCode": 255}), None, 255),
            (json!({"signal": "SIGKILL"}), None, 137),
            (json!({"signal": "SIGRTMIN+2"}), None, 164),
            (
                json!({"exitCode": 0, "terminationReason": "timed_out"}),
                None,
                124,
            ),
            (
                json!({"status": "cancelled", "signal": "SIGINT"}),
                Some(2),
                130,
            ),
            (json!({"status": "cancelled", "exitCode": 0}), Some(15), 143),
            (json!({"status": "cancelled", "exitCode": 0}), None, 130),
            (json!({"status": "indeterminate", "exitCode": 0}), None, 79),
            (json!({"terminationReason": "exit_unobserved"}), None, 79),
            (
                json!({"signal": "SIGKILL", "terminationReason": "memory_exceeded"}),
                None,
                137,
            ),
            (
                json!({"exitCode": 3, "terminationReason": "pids_exceeded"}),
                None,
                3,
            ),
            (
                json!({"exitCode": 0, "terminationReason": "pids_exceeded"}),
                None,
                137,
            ),
            (
                json!({"exitCode": 0, "terminationReason": "cpu_exceeded",
                       "stop": {"reason": "cpu_exceeded", "lastSignal": "SIGTERM"}}),
                None,
                143,
            ),
            (
                json!({"exitCode": 0, "terminationReason": "crash_detected"}),
                None,
                70,
            ),
        ] {
            let code = of_result(&result(fields.clone()), signal);
            assert_eq!(code.number(), expected, "{fields}");
        }
    }

    /// A recorded failure is none of success, however often it is asked for.
    #[test]
    fn what_was_cut_short_is_told_by_its_end_and_never_as_success() {
        for (fields, expected) in [
            (json!({"exitCode": 0}), 70),
            (json!({"exitCode": 3}), 3),
            (json!({"signal": "SIGTERM"}), 143),
        ] {
            let mut recorded = result(fields.clone());
            recorded.termination_reason = Some(TerminationReason::CrashDetected);
            recorded.reused = Reuse::ReplayedRecorded;
            assert_eq!(of_result(&recorded, None).number(), expected, "{fields}");
            assert_eq!(of_recorded(&recorded, None).number(), expected, "{fields}");
        }
    }
}
