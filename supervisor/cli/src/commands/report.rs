//! What `run` and `attach` have to say of their own: on standard error, one short block, only when there is
//! something to say.

mod delegated;
mod limits;
mod stop_action;
mod swept;

use std::fmt::Write as _;

use xioflow_kernel::journal::{Adjudication, Outcome, TerminationReason};
use xioflow_kernel::{
    Active, Decision, Domain, LeasesAre, OperationResult, SurvivorRecord, Verdict,
};

use crate::exit::Code;
use crate::output;

pub(super) use swept::swept_as;

/// Survivors named in one line, and settled operations in one block.
const NAMED_MAX: usize = 5;

/// Says what was settled of an earlier owner's work. It may be that of others, and much of it: what needs
/// somebody is told whole, of the rest the first few.
pub(crate) fn recovered(domain: &Domain, quiet: bool) {
    let (decisions, swept) = (domain.recovered(), domain.swept_groups());
    for group in swept.iter().filter(|it| !quiet || !it.removed) {
        output::complain(&swept_as(group));
    }
    let needs_somebody = |decision: &&Decision| decision.leases == LeasesAre::Kept;
    let (isolated, settled): (Vec<_>, Vec<_>) = decisions.iter().partition(needs_somebody);
    for decision in isolated {
        output::complain(&format!(
            "{}\n  hint: `xioflow recover` says what to look for, and how to decide",
            settled_as(decision)
        ));
    }
    if quiet {
        return;
    }
    for decision in settled.iter().take(NAMED_MAX) {
        output::complain(&settled_as(decision));
    }
    let more = settled.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        output::complain(&format!(
            "{more} more operations of an earlier owner were settled; `xioflow list` shows them"
        ));
    }
}

/// Says that processes were moved for the control group of an operation, before that runs.
pub(super) fn host_moved(active: &Active) {
    let Some(moved) = &active.host_moved else {
        return;
    };
    let processes = match moved.processes {
        1 => "1 process was".to_owned(),
        many => format!("{many} processes were"),
    };
    output::complain(&format!(
        "{processes} moved to the control group {}, so that limits can be set beside it",
        moved.to.display()
    ));
}

fn settled_as(decision: &Decision) -> String {
    let what = what(decision.verdict);
    let by_hand = decision.guidance.as_ref();
    let by_hand = by_hand.map_or_else(String::new, |it| format!("\n  hint: {it}"));
    format!(
        "operation {} of an earlier owner {what} ({}){by_hand}",
        decision.operation_id, decision.evidence
    )
}

/// What is said of an operation that was settled.
pub(super) const fn what(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::CleanedUnspawned => "never ran",
        Verdict::SettledByLastWord => "has ended; its helper saw how",
        Verdict::MarkedDead => "is gone; how it ended was not seen",
        Verdict::StoppedAliveProcess => {
            "ran without a helper; what could be identified of it was ended, and it keeps its leases"
        }
        Verdict::Isolated => "cannot be proven to have ended and keeps its leases",
    }
}

/// Explains a result where its exit status alone would not, with a note on how it came about.
pub(crate) fn result(result: &OperationResult, note: Option<String>, code: Code, quiet: bool) {
    let mut lines: Vec<String> = ending(result, code).into_iter().collect();
    if !quiet {
        lines.extend(survivors(result));
        lines.extend(limits::killed_for_others(result).map(str::to_owned));
        lines.extend(server_hint(result));
        lines.extend(outside(result));
        lines.extend(
            result
                .spill_error
                .iter()
                .map(|error| format!("output was not stored: {error}")),
        );
        lines.extend(gaps(result));
        lines.extend(unseen_output(result).map(str::to_owned));
    }
    lines.extend(note);
    if !lines.is_empty() {
        output::complain(&lines.join("\n  "));
    }
}

/// What may live that this tree did not start. Where a stop action has done its work, that was what was to be done.
fn outside(result: &OperationResult) -> Vec<String> {
    match &result.stop_action {
        Some(action) if action.succeeded() => Vec::new(),
        Some(action) => {
            let mut lines = delegated::lines(result);
            lines.extend(stop_action::line(action));
            lines
        }
        None => delegated::lines(result),
    }
}

/// What was still in a pipe when a supervisor died is known to nobody, also where the end itself was seen.
fn unseen_output(result: &OperationResult) -> Option<&'static str> {
    let ended = result.exit_code.is_some() || result.signal.is_some();
    if !ended || result.spawn_failure.is_some() || result.output_complete.is_some() {
        return None;
    }
    Some(match result.termination_reason {
        // That its supervisor died has been said.
        Some(TerminationReason::CrashDetected) => "what it printed last may be missing",
        _ => "its supervisor died while it ran: what it printed last may be missing",
    })
}

/// The line that goes with every exit status that is not simply the command's own.
fn ending(result: &OperationResult, code: Code) -> Option<String> {
    let id = &result.operation_id;
    if let Some(failure) = &result.spawn_failure {
        let hint = failure
            .hint
            .as_ref()
            .map(|hint| format!("\n  hint: {hint}"));
        return Some(format!("{}{}", failure.message, hint.unwrap_or_default()));
    }
    match (result.status, result.termination_reason) {
        (Outcome::Indeterminate, _) => {
            let reason = result.reason.as_deref().unwrap_or("its end was not seen");
            let after = wish(result);
            let mut text = format!("the end of operation {id}{after} cannot be proven: {reason}");
            if let Some(decided) = &result.adjudication {
                let Adjudication { verdict, actor, .. } = decided;
                write!(text, "\n  adjudicated: {verdict} by {actor:?}").ok();
                // The decision changes nothing about what the id stands for.
                text += "\n  hint: to run the command after all, give it another --op";
            } else if let Some(guidance) = &result.recovery_guidance {
                write!(text, "\n  hint: {guidance}").ok();
            }
            Some(text)
        }
        (_, Some(TerminationReason::CrashDetected)) => {
            let reason = result.reason.as_deref().unwrap_or("its supervisor died");
            Some(format!("operation {id} was cut short: {reason}"))
        }
        (_, Some(TerminationReason::TimedOut)) => Some(format!(
            "timed out after {}{}{}",
            limit(result),
            escalation(result),
            before_it_ran(result)
        )),
        (Outcome::Failed, Some(_)) if let Some(text) = limits::exceeded(result) => {
            Some(format!("{text}{}", escalation(result)))
        }
        (Outcome::Cancelled, Some(TerminationReason::ClientLost)) => Some(format!(
            "cancelled, since the client that asked for it went away{}",
            escalation(result)
        )),
        (Outcome::Cancelled, _) => Some(format!("cancelled{}", escalation(result))),
        _ => match (&result.signal, code) {
            (Some(signal), _) => Some(format!("the command was ended by {signal}")),
            (None, Code::Indeterminate) => Some(format!(
                "operation {id} is gone and nobody saw how it ended"
            )),
            _ => None,
        },
    }
}

/// What was asked of an operation whose end is not known.
fn wish(result: &OperationResult) -> &'static str {
    match result.stop.as_ref().map(|stop| stop.reason) {
        Some(TerminationReason::TimedOut) => ", whose time was over,",
        Some(TerminationReason::UserCancelled) => ", which was cancelled,",
        Some(TerminationReason::ClientLost) => ", whose client went away,",
        Some(_) | None => "",
    }
}

/// The time that it had. Records of releases that did not keep it say how long it took in all.
fn limit(result: &OperationResult) -> String {
    result
        .timeout_ms
        .or(result.duration_ms)
        .map_or_else(|| "its time".to_owned(), crate::duration::format_ms)
}

fn escalation(result: &OperationResult) -> String {
    let signal = result
        .stop
        .as_ref()
        .and_then(|stop| stop.last_signal.as_deref());
    match signal {
        Some("SIGKILL") => "; it had to be killed".to_owned(),
        Some(signal) => format!("; it ended on {signal}"),
        None => String::new(),
    }
}

/// Why there was nothing to end.
fn before_it_ran(result: &OperationResult) -> String {
    match (&result.stop, &result.reason) {
        (None, Some(reason)) => format!("; {reason}"),
        _ => String::new(),
    }
}

/// What is missing of the stored output. Live it has passed through all the same.
fn gaps(result: &OperationResult) -> Vec<String> {
    let streams = [("stdout", result.stdout_gap), ("stderr", result.stderr_gap)];
    let gaps = streams
        .into_iter()
        .filter_map(|(stream, gap)| Some((stream, gap?)));
    gaps.map(|(stream, gap)| {
        format!(
            "bytes {} to {} of {stream} were not stored: that was more than --max-stored, or than the domain has room for",
            gap.from, gap.to
        )
    })
    .collect()
}

fn survivors(result: &OperationResult) -> Option<String> {
    // Those of a stopped tree are what was asked to be stopped.
    if result.survivors_total == 0 || result.stop.is_some() {
        return None;
    }
    let named: Vec<String> = result
        .survivors
        .iter()
        .take(NAMED_MAX)
        .map(describe)
        .collect();
    let total = result.survivors_total as usize;
    let more = total.saturating_sub(named.len());
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    let (noun, were) = if total == 1 {
        ("process", "was")
    } else {
        ("processes", "were")
    };
    let fate = match (
        result.residual_pids.is_empty(),
        result.residual_processes_reaped,
    ) {
        (false, _) => format!("{were} stopped as far as possible"),
        (true, true) => format!("{were} ended"),
        (true, false) => "ended without being asked".to_owned(),
    };
    let who = match named.is_empty() {
        true => "; /proc does not show who".to_owned(),
        false => format!(": {}{more}", named.join(", ")),
    };
    Some(format!(
        "{total} {noun} outlived the command and {fate}{who}"
    ))
}

/// A command that succeeds and leaves a process that had to be ended looks like the start of a server.
fn server_hint(result: &OperationResult) -> Option<String> {
    let ended = result.residual_processes_reaped && result.stop.is_none();
    (ended && result.status == Outcome::Succeeded).then(|| {
        "hint: if it was meant to go on, run it in the foreground, or keep the operation open by \
         --descendants wait"
            .to_owned()
    })
}

fn describe(survivor: &SurvivorRecord) -> String {
    let how = match (
        &survivor.signal,
        survivor.exit_code,
        survivor.why_alive.as_deref(),
    ) {
        (Some(signal), _, _) => signal.clone(),
        (None, Some(code), _) => format!("exit {code}"),
        (None, None, Some(why)) => format!("alive: {why}"),
        (None, None, None) => "gone".to_owned(),
    };
    format!("{} (pid {}, {how})", survivor.command, survivor.pid)
}
