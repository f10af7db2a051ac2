//! What the observations of one operation mean. Pure: observations in, result out.

use xioflow_journal::{Outcome, Stream, TerminationReason};
use xioflow_protocol::{
    Exit, GATE_CLOSED_EXIT, LaunchFailure, Stage, Survivor, SurvivorEnd, TreeEnd, WhyAlive,
};

use super::limits::Used;
use super::supervise::{Ending, Net};
use crate::clock::{self, Gaps};
use crate::driver::Driver;
use crate::guidance;
use crate::helper::HelperLost;
use crate::names::signal_name;
use crate::observe::Holders;
use crate::result::{
    Evidence, OperationResult, PipeHolder, Reuse, Scope, SpawnFailure, StopRecord, SurvivorRecord,
    TreeSettlement,
};
use crate::stop::StopRequest;

/// What is known at the end.
pub(super) struct Facts<'a> {
    pub(super) operation_id: &'a str,
    pub(super) run_id: &'a str,
    /// The one that holds.
    pub(super) driver: Driver,
    pub(super) ending: &'a Ending,
    /// The exit that was reported before the helper was lost, if it was.
    pub(super) early_exit: Option<Exit>,
    pub(super) running: bool,
    pub(super) stop: Option<&'a StopRequest>,
    /// The last signal of a ladder that the helper reported.
    pub(super) signalled: Option<i32>,
    /// What it has used.
    pub(super) used: &'a Used,
    pub(super) undrained: &'a [Stream],
    pub(super) holders: Holders,
    pub(super) gaps: Gaps,
    pub(super) duration_ms: Option<u64>,
}

/// Makes the result, still without output.
pub(super) fn settle(facts: Facts<'_>) -> OperationResult {
    let mut result = OperationResult::blank(facts.operation_id, facts.run_id);
    result.driver = Some(facts.driver);
    result.duration_ms = facts.duration_ms;
    result.supervisor_gap_ms = facts.gaps.late_ms();
    result.suspended_ms = facts.gaps.suspended_ms();
    facts.used.tell(&mut result);
    match facts.ending {
        Ending::Empty(end) => settle_over(&mut result, end, &facts),
        // What has ended can do nothing any more, whoever has still to wait for it.
        Ending::Remains(end) if only_unreaped(end) => settle_over(&mut result, end, &facts),
        Ending::Remains(end) => {
            result.stop = facts.stop.map(|stop| stop_record(stop, end.last_signal));
            settle_end(&mut result, end, Cause::Remains);
        }
        Ending::NotExecuted(failure) => {
            let stop = facts.stop.filter(|_| facts.signalled.is_some());
            match (failure.stage, stop) {
                (Stage::Gate, Some(stop)) => {
                    stopped_at_gate(&mut result, stop, facts.signalled);
                }
                _ => not_executed(&mut result, failure),
            }
        }
        Ending::NeverReleased { lost, gone } => never_released(&mut result, lost, *gone),
        Ending::Ended {
            lost,
            by,
            end,
            empty,
        } => {
            result.stop = facts.stop.map(|stop| stop_record(stop, end.last_signal));
            ended_here(&mut result, (lost, *by), end, *empty);
            if !facts.running && end.exit == AT_GATE {
                forget_exit(&mut result, lost);
            }
        }
        Ending::Lost(lost) => {
            apply_exit(&mut result, facts.early_exit);
            result.stop = facts.stop.map(|stop| stop_record(stop, facts.signalled));
            isolated(&mut result, lost, facts.running);
        }
    }
    held_open(&mut result, facts.undrained, facts.holders);
    result
}

/// Nothing of the tree can do anything any more.
fn settle_over(result: &mut OperationResult, end: &TreeEnd, facts: &Facts<'_>) {
    // A wish to stop counts only if a signal was sent for it: a command that ended in the same
    // instant ended by itself, or by a limit.
    let stop = facts.stop.filter(|_| end.last_signal.is_some());
    result.stop = stop.map(|stop| stop_record(stop, end.last_signal));
    let reason = stop.map(|stop| stop.reason);
    let reason = reason.or_else(|| facts.used.verdict(stop.is_some()));
    let cause = reason.map_or(Cause::ByItself, Cause::Stop);
    settle_end(result, end, cause);
}

/// Whether everybody who is left is a zombie. Those beyond the list may be anything.
fn only_unreaped(end: &TreeEnd) -> bool {
    let all_are_listed = end.survivors.len() == usize::try_from(end.survivors_total).unwrap_or(0);
    let alive = |survivor: &Survivor| matches!(survivor.end, SurvivorEnd::Alive(_));
    let unreaped = |survivor: &Survivor| survivor.end == SurvivorEnd::Unreaped;
    all_are_listed && end.survivors.iter().any(unreaped) && !end.survivors.iter().any(alive)
}

/// The child stood behind the open gate when it was stopped: no program refused to be executed.
fn stopped_at_gate(result: &mut OperationResult, stop: &StopRequest, signalled: Option<i32>) {
    result.status = stopped(stop.reason);
    result.termination_reason = Some(stop.reason);
    result.stop = Some(stop_record(stop, signalled));
    result.tree_settlement = Some(TreeSettlement::Empty);
    result.scope = result.tree_scope();
}

fn never_released(result: &mut OperationResult, lost: &HelperLost, gone: bool) {
    result.status = Outcome::Failed;
    result.termination_reason = Some(TerminationReason::CrashDetected);
    result.scope = Scope::DirectChild;
    result.tree_settlement = Some(match gone {
        true => TreeSettlement::Empty,
        false => TreeSettlement::Unverified,
    });
    result.reason = Some(format!(
        "{lost} before its gate was opened; nothing of the command ran"
    ));
}

fn ended_here(
    result: &mut OperationResult,
    (lost, by): (&HelperLost, Net),
    end: &TreeEnd,
    empty: bool,
) {
    let cause = if empty {
        Cause::HelperLost
    } else {
        Cause::Remains
    };
    settle_end(result, end, cause);
    // Whoever waited for the tree before this process did knows what it used.
    result.cpu_time_ms = None;
    result.peak_memory_bytes = None;
    result.usage_source = None;
    let fate = match by {
        Net::Adoption => "what it held was adopted and ended",
        Net::PidNamespace => "the kernel has ended what it held, with its pid namespace",
        Net::ControlGroup => "the kernel has ended what it held, all that was in its control group",
    };
    if by != Net::Adoption {
        // Who else was ended by that was not seen.
        result.tree_settlement = Some(TreeSettlement::Reaped);
        result.residual_processes_reaped = true;
    }
    result
        .reason
        .get_or_insert_with(|| format!("{lost}; {fate}"));
}

/// How a child ends whose gate is closed instead of opened. A command can end like that as well.
const AT_GATE: Option<Exit> = Some(Exit::Exited {
    code: GATE_CLOSED_EXIT,
});

/// The helper was gone before it could say that the program runs, and what stood at the gate has ended as one
/// does that never got past it. That is no exit of the command, or nobody can tell.
fn forget_exit(result: &mut OperationResult, lost: &HelperLost) {
    result.exit_code = None;
    result.evidence = Evidence::Unobserved;
    result.reason = Some(format!(
        "{lost} when its gate was to be opened; nothing shows that the command ran, and nothing of what it started is left"
    ));
}

fn isolated(result: &mut OperationResult, lost: &HelperLost, running: bool) {
    let started = if running {
        "the command ran"
    } else {
        "the command may have run"
    };
    indeterminate(
        result,
        format!("{lost}; {started}, and what became of its tree was not seen"),
        &guidance::adjudicate(
            &result.operation_id.clone(),
            "look for processes of the command and end them",
        ),
    );
}

fn not_executed(result: &mut OperationResult, failure: &LaunchFailure) {
    let subject = String::from_utf8_lossy(&failure.subject).into_owned();
    let subject = (!subject.is_empty()).then_some(subject);
    let failure = SpawnFailure::new(failure.stage.name(), failure.errno, subject);
    apply_spawn_failure(result, failure);
}

fn apply_end(result: &mut OperationResult, end: &TreeEnd) {
    apply_exit(result, end.exit);
    result.scope = match result.tree_scope() {
        // What its group says could not be read: then it rests on the helper's children alone.
        Scope::ContainmentCgroup if end.group_empty.is_none() => Scope::SubreaperTree,
        scope => scope,
    };
    result.survivors = end.survivors.iter().map(survivor_record).collect();
    result.survivors_total = end.survivors_total;
    // Those that were waited for, or ended before the first signal, ended by themselves.
    let reaped = end.survivors_total > 0 && end.last_signal.is_some();
    result.residual_processes_reaped = reaped;
    result.tree_settlement = Some(if reaped {
        TreeSettlement::Reaped
    } else {
        TreeSettlement::Empty
    });
    result.residual_pids = pids(end, |end| matches!(end, SurvivorEnd::Alive(_)));
    result.unreaped_pids = pids(end, |end| *end == SurvivorEnd::Unreaped);
    let ended = |survivor: &Survivor| matches!(survivor.end, SurvivorEnd::Ended(_));
    // Usage is that of the processes that were waited for.
    if end.exit.is_none() && !end.survivors.iter().any(ended) {
        return;
    }
    // Of a helper whose numbers are made up, no more comes than a number that is made up.
    let usage = end.usage;
    result.cpu_time_ms = Some(usage.user_us.saturating_add(usage.system_us) / 1000);
    result.peak_memory_bytes = Some(usage.max_rss_kib.saturating_mul(1024));
    result.usage_source = Some("wait4".to_owned());
}

fn pids(end: &TreeEnd, wanted: fn(&SurvivorEnd) -> bool) -> Vec<u32> {
    let survivors = end.survivors.iter();
    survivors
        .filter(|survivor| wanted(&survivor.end))
        .map(|survivor| survivor.process.pid)
        .collect()
}

/// Writes the exit exactly as it was seen; nothing stands for one that was not.
fn apply_exit(result: &mut OperationResult, exit: Option<Exit>) {
    match exit {
        Some(Exit::Exited { code }) => result.exit_code = Some(code),
        Some(Exit::Signaled { signal, core }) => {
            result.signal = Some(signal_name(signal));
            result.core_dumped = Some(core);
        }
        None => return,
    }
    result.evidence = Evidence::Observed;
}

/// Why a tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(feature = "rules"),
    expect(unreachable_pub, reason = "public for `rules`, which is a feature")
)]
pub enum Cause {
    /// Nobody made it.
    ByItself,
    /// It was stopped for this reason.
    Stop(TerminationReason),
    /// It was stopped because its supervisor was gone.
    HostLost,
    /// It was ended by its supervisor because its helper was gone.
    HelperLost,
    /// It did not: some of it is left.
    Remains,
}

/// Writes the end of a tree into a result: what was seen, and what that means.
pub(crate) fn settle_end(result: &mut OperationResult, end: &TreeEnd, cause: Cause) {
    apply_end(result, end);
    let (status, reason) = outcome_of(end.exit, cause);
    if status == Outcome::Indeterminate {
        result.tree_settlement = Some(TreeSettlement::Unverified);
        return remains(result);
    }
    result.status = status;
    result.termination_reason = reason;
}

/// What an exit means, whether it was seen or not, in a tree that ended for this cause.
#[cfg_attr(
    not(feature = "rules"),
    expect(unreachable_pub, reason = "public for `rules`, which is a feature")
)]
#[must_use]
pub fn outcome_of(exit: Option<Exit>, cause: Cause) -> (Outcome, Option<TerminationReason>) {
    let (status, reason) = match (cause, exit) {
        (Cause::Remains, _) => return (Outcome::Indeterminate, None),
        (Cause::Stop(reason), _) => (stopped(reason), reason),
        (Cause::HostLost | Cause::HelperLost, _) => {
            (Outcome::Failed, TerminationReason::CrashDetected)
        }
        (Cause::ByItself, None) => (Outcome::Failed, TerminationReason::ExitUnobserved),
        (Cause::ByItself, Some(Exit::Exited { code: 0 })) => {
            (Outcome::Succeeded, TerminationReason::Completed)
        }
        (Cause::ByItself, Some(_)) => (Outcome::Failed, TerminationReason::Completed),
    };
    (status, Some(reason))
}

/// What an operation is that was stopped for this reason.
fn stopped(reason: TerminationReason) -> Outcome {
    match reason {
        TerminationReason::UserCancelled | TerminationReason::ClientLost => Outcome::Cancelled,
        _ => Outcome::Failed,
    }
}

fn remains(result: &mut OperationResult) {
    // Who is left was not ended, whatever became of the others.
    result.residual_processes_reaped = false;
    let left = result.survivors.iter().filter(|it| it.end == "alive");
    let mut left: Vec<String> = left.map(why_left).collect();
    let unnamed = (result.survivors_total as usize).saturating_sub(result.survivors.len());
    if unnamed > 0 {
        left.push(format!("{unnamed} that could only be counted"));
    }
    let left = match left.as_slice() {
        [] => "none of those that are listed".to_owned(),
        some => some.join(", "),
    };
    indeterminate(
        result,
        format!("processes could not be ended: {left}"),
        &guidance::adjudicate(
            &result.operation_id.clone(),
            "end them, as their owner or when what they wait for is over",
        ),
    );
}

/// Who is left and why, with what somebody needs to end it.
fn why_left(survivor: &SurvivorRecord) -> String {
    let SurvivorRecord {
        command, pid, uid, ..
    } = survivor;
    let why = survivor.why_alive.as_deref().unwrap_or("unknown");
    match uid {
        Some(uid) if why == "permission" => {
            format!("{command} (pid {pid}, no permission: it belongs to uid {uid})")
        }
        _ => format!("{command} (pid {pid}, {why})"),
    }
}

/// A stream that is still open although nothing of the tree is left is held by a stranger.
fn held_open(result: &mut OperationResult, undrained: &[Stream], holders: Holders) {
    if undrained.is_empty() {
        return;
    }
    let streams: Vec<&str> = undrained.iter().map(|stream| stream.as_str()).collect();
    let are = if streams.len() == 1 { "is" } else { "are" };
    let who = who_holds(&holders);
    result.held_open_by = holders.found;
    if result.status != Outcome::Indeterminate || result.reason.is_none() {
        indeterminate(
            result,
            format!(
                "{} {are} still held open by {who}, outside the tree",
                streams.join(" and ")
            ),
            &guidance::adjudicate(
                &result.operation_id.clone(),
                "the output may be incomplete; see whether that process works for the command",
            ),
        );
    }
}

/// Each holder once, whatever it holds.
fn who_holds(holders: &Holders) -> String {
    let mut named: Vec<String> = Vec::new();
    for PipeHolder { command, pid, .. } in &holders.found {
        let name = format!("{command} (pid {pid})");
        if !named.contains(&name) {
            named.push(name);
        }
    }
    match (named.is_empty(), holders.uninspected) {
        (false, _) => named.join(", "),
        (true, 0) => "a process that could not be found".to_owned(),
        (true, hidden) => {
            format!("a process that could not be found ({hidden} may not be looked into)")
        }
    }
}

/// Adds processes that are left to a result, with those of them that live among the residuals.
pub(crate) fn name_survivors(result: &mut OperationResult, left: &[Survivor]) {
    result.survivors.extend(left.iter().map(survivor_record));
    result.survivors_total = u32::try_from(result.survivors.len()).unwrap_or(u32::MAX);
    let alive = left
        .iter()
        .filter(|it| matches!(it.end, SurvivorEnd::Alive(_)));
    result.residual_pids.extend(alive.map(|it| it.process.pid));
}

pub(crate) fn indeterminate(result: &mut OperationResult, reason: String, advice: &str) {
    result.status = Outcome::Indeterminate;
    result.termination_reason = None;
    result.reason = Some(reason);
    result.recovery_guidance = Some(advice.to_owned());
}

/// A command that did not start: exit status 127 by convention, and why.
pub(crate) fn apply_spawn_failure(result: &mut OperationResult, failure: SpawnFailure) {
    result.status = Outcome::Failed;
    result.termination_reason = Some(TerminationReason::Completed);
    result.exit_code = Some(if failure.is_not_found() { 127 } else { 126 });
    result.evidence = Evidence::Observed;
    result.tree_settlement = Some(TreeSettlement::Empty);
    result.scope = result.tree_scope();
    result.spawn_failure = Some(failure);
}

fn survivor_record(survivor: &Survivor) -> SurvivorRecord {
    let process = &survivor.process;
    let (end, exit_code, signal, why_alive) = match survivor.end {
        SurvivorEnd::Ended(Exit::Exited { code }) => ("exited", Some(code), None, None),
        SurvivorEnd::Ended(Exit::Signaled { signal, .. }) => {
            ("signaled", None, Some(signal_name(signal)), None)
        }
        SurvivorEnd::GoneUnobserved => ("gone", None, None, None),
        SurvivorEnd::Unreaped => ("unreaped", None, None, None),
        SurvivorEnd::Alive(why) => ("alive", None, None, Some(why_alive_name(why))),
    };
    SurvivorRecord {
        pid: process.pid,
        start_ticks: process.start_ticks,
        command: String::from_utf8_lossy(&process.command).into_owned(),
        uid: process.uid,
        end: end.to_owned(),
        exit_code,
        signal,
        why_alive: why_alive.map(str::to_owned),
    }
}

fn why_alive_name(why: WhyAlive) -> &'static str {
    match why {
        WhyAlive::Uninterruptible => "uninterruptible",
        WhyAlive::Permission => "permission",
        WhyAlive::Unknown => "unknown",
    }
}

fn stop_record(stop: &StopRequest, last_signal: Option<i32>) -> StopRecord {
    StopRecord {
        reason: stop.reason,
        last_signal: last_signal.map(signal_name),
    }
}

impl OperationResult {
    /// A result in which nothing was observed yet.
    pub(crate) fn blank(operation_id: &str, run_id: &str) -> Self {
        Self {
            operation_id: operation_id.to_owned(),
            run_id: run_id.to_owned(),
            status: Outcome::Indeterminate,
            exit_code: None,
            signal: None,
            core_dumped: None,
            termination_reason: None,
            spawn_failure: None,
            evidence: Evidence::Unobserved,
            tree_settlement: None,
            scope: Scope::Unknown,
            driver: None,
            no_new_privs: None,
            survivors: Vec::new(),
            survivors_total: 0,
            residual_processes_reaped: false,
            residual_pids: Vec::new(),
            unreaped_pids: Vec::new(),
            held_open_by: Vec::new(),
            delegated: None,
            stop: None,
            stop_action: None,
            cpu_time_ms: None,
            peak_memory_bytes: None,
            usage_source: None,
            limits: None,
            usage: None,
            limit_events: None,
            resource_sampling_error: None,
            stdout: String::new(),
            stderr: String::new(),
            stdout_base64: None,
            stderr_base64: None,
            is_truncated: false,
            output_complete: None,
            stdout_truncated: false,
            stderr_truncated: false,
            stdout_bytes: 0,
            stderr_bytes: 0,
            stdout_lines: None,
            stderr_lines: None,
            stdout_hash: None,
            stderr_hash: None,
            stdout_ref: None,
            stderr_ref: None,
            stdout_pruned_at: None,
            stderr_pruned_at: None,
            stdout_gap: None,
            stderr_gap: None,
            stdout_spill_error: None,
            stderr_spill_error: None,
            output_ref: None,
            output_hash: None,
            spill_error: None,
            reason: None,
            recovery_guidance: None,
            recovery_case: None,
            adjudication: None,
            supervisor_gap_ms: None,
            suspended_ms: None,
            timeout_ms: None,
            environment: None,
            duration_ms: None,
            completed_at: clock::now_text(),
            replayed: false,
            reused: Reuse::Executed,
        }
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
