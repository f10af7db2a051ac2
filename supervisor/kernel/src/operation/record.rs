//! The commits of one operation: one before its gate opens, one with its result.

use std::os::fd::AsFd;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use xioflow_journal::{
    Change, CommitError, CommitReceipt, Finish, NewOperation, OperationKind, Outcome, Output,
    Rejected, RunStatus, TerminationReason,
};
use xioflow_protocol::Identity;

use super::act::act;
use super::admit::millis;
use super::gate::Gated;
use super::launch::Admitted;
use super::namespace::HeldNamespace;
use super::settle::{Facts, apply_spawn_failure, settle};
use super::supervise::{Ending, Observed};
use super::{Membership, Spec};
use crate::clock;
use crate::control::Control;
use crate::delegation::Seen;
use crate::domain::Inner;
use crate::error::ExecuteError;
use crate::observe::{self, Holders};
use crate::output::{Drain, Drained, hex};
use crate::resources::FOLDER_PREFIX;
use crate::result::{OperationResult, ProcessIdentity, SpawnFailure, StreamPart};
use crate::stop_action::{Declared, StopActionResult};
use crate::unrecorded::Ended;

/// Commits the intent, the leases and the identity of a command that waits at its gate.
pub(super) fn commit_launch(
    inner: &Inner,
    admitted: &Admitted,
    gated: &Gated,
) -> Result<(), ExecuteError> {
    // One whose result may find no room either must not begin.
    inner.record_unrecorded()?;
    let mut changes = opening(admitted, &admitted.spec.leases, register);
    changes.push(Change::ActivateOperation {
        operation_id: admitted.id.clone(),
        process_identity: as_json(&root_identity(gated, &admitted.spec)),
        holder: gated
            .link
            .greeting()
            .and_then(|hello| hello.identity.as_ref())
            .map_or(Value::Null, |holder| as_json(&plain_identity(holder))),
    });
    inner.journal.commit(changes)?;
    Ok(())
}

/// Records an operation whose command could not be started: never active, in one commit.
pub(super) fn failed_launch(
    inner: &Inner,
    admitted: Admitted,
    failure: SpawnFailure,
) -> Result<OperationResult, ExecuteError> {
    let mut result = blank(&admitted);
    apply_spawn_failure(&mut result, failure);
    let mut changes = opening(&admitted, &admitted.spec.leases, register);
    changes.extend(closing(&admitted.spec.membership, &result, Vec::new()));
    inner.journal.commit(changes)?;
    Ok(result)
}

/// Records an operation that was cancelled before anything of it ran. The wish is still in the
/// mailbox: there was nobody to pass it on to.
pub(super) fn cancelled_before_launch(
    inner: &Inner,
    admitted: Admitted,
    control: &Control,
) -> Result<OperationResult, ExecuteError> {
    let mut result = blank(&admitted);
    let reason = control.stop_wish().map(|wish| wish.reason);
    result.status = Outcome::Cancelled;
    result.termination_reason = reason.or(Some(TerminationReason::UserCancelled));
    // Nothing of it was ever intended to be there: no lease, and no event but that of its result.
    let mut changes = opening(&admitted, &[], |new| Change::AddOperation(Box::new(new)));
    changes.extend(closing(&admitted.spec.membership, &result, Vec::new()));
    inner.journal.commit(changes)?;
    Ok(result)
}

/// Records an operation whose time was over before anything of it ran: its standard input is a
/// FIFO, and nobody came to write it.
pub(super) fn timed_out_before_launch(
    inner: &Inner,
    admitted: Admitted,
) -> Result<OperationResult, ExecuteError> {
    let mut result = blank(&admitted);
    result.status = Outcome::Failed;
    result.termination_reason = Some(TerminationReason::TimedOut);
    let input = admitted.spec.command.stdin.subject().unwrap_or_default();
    result.reason = Some(format!(
        "nothing of the command ran, for {input} had no writer"
    ));
    let mut changes = opening(&admitted, &admitted.spec.leases, register);
    changes.extend(closing(&admitted.spec.membership, &result, Vec::new()));
    inner.journal.commit(changes)?;
    Ok(result)
}

/// The result of an operation of which nothing has run.
fn blank(admitted: &Admitted) -> OperationResult {
    let mut result = OperationResult::blank(&admitted.id, admitted.spec.membership.run_id());
    result.driver = Some(admitted.driver);
    result.no_new_privs = Some(admitted.spec.command.no_new_privs);
    result.timeout_ms = admitted.spec.timeout.map(millis);
    result.environment = Some(admitted.environment.names.clone());
    result.duration_ms = Some(millis(admitted.submitted.elapsed()));
    // Nothing has run that could have printed, or handed anything over.
    result.output_complete = Some(true);
    if let Some(action) = &admitted.spec.command.stop_action {
        let mut told = StopActionResult::of(Declared::of(action));
        told.was_not_due("nothing of the command ran");
        result.stop_action = Some(told);
    }
    result
}

/// A helper passes a request to end on to its tree, whoever sent it.
const ENDED_UNASKED: &str =
    "its helper was told to end by a signal that its supervisor did not send, and ended the tree";

/// Makes the result of what was observed and commits it.
pub(super) fn finish(
    inner: &Inner,
    admitted: &Admitted,
    observed: Observed,
    control: &Arc<Control>,
) -> Result<OperationResult, ExecuteError> {
    let holders = pipe_holders(&observed.drains);
    let mut result = settle(Facts {
        operation_id: &admitted.id,
        run_id: admitted.spec.membership.run_id(),
        driver: admitted.driver,
        ending: &observed.ending,
        early_exit: observed.exit,
        running: observed.running,
        stop: observed.stop.as_ref(),
        signalled: observed.signalled,
        used: &observed.used,
        undrained: &observed.undrained,
        holders,
        gaps: observed.gaps,
        duration_ms: Some(millis(admitted.submitted.elapsed())),
    });
    result.no_new_privs = Some(admitted.spec.command.no_new_privs);
    if let Some(error) = observed.used.blinded(observed.stop.as_ref()) {
        result.reason.get_or_insert(error);
    }
    if observed.ended_unasked {
        result
            .reason
            .get_or_insert_with(|| ENDED_UNASKED.to_owned());
    }
    result.timeout_ms = admitted.spec.timeout.map(millis);
    result.environment = Some(admitted.environment.names.clone());
    let has_run = has_run(&observed.ending);
    if has_run {
        let mut seen = Seen::default();
        seen.of_command(&admitted.spec.command);
        seen.extend(observed.delegated);
        seen.of_survivors(&result.survivors);
        result.delegated = Some(seen.into_vec());
    }
    let mut outputs = Vec::new();
    let mut leftovers = Vec::new();
    let mut output_complete = true;
    for drain in observed.drains {
        let Drained {
            kept,
            is_complete,
            output,
            leftover,
        } = drain.finish();
        output_complete &= is_complete;
        outputs.push(output.clone());
        leftovers.extend(leftover);
        result.set_stream(StreamPart {
            kept: kept.bytes,
            truncated: kept.truncated,
            output,
        });
    }
    result.output_complete = Some(output_complete);
    // The leases are kept meanwhile, and the command's own helper waits: nothing is settled yet.
    let acted = act(inner, admitted, &mut result, has_run, control);
    result.duration_ms = Some(millis(admitted.submitted.elapsed()));
    let mut changes = closing(&admitted.spec.membership, &result, outputs);
    if let Some(order) = observed.order.encode() {
        let operation_id = admitted.id.clone();
        // Before the result, after which nothing of an operation changes.
        let keep = Change::KeepOutputOrder {
            operation_id,
            order,
        };
        changes.insert(0, keep);
    }
    let committed = commit_end(inner, &mut changes);
    let mut link = observed.link;
    if committed.is_ok() {
        link.account_recorded();
    }
    if let Some(acted) = acted {
        acted.part(inner, committed.is_ok());
    }
    if let Some(group) = observed.group {
        group.part(may_hold_somebody(&observed.ending));
    }
    match observed.ending {
        // It may hold a tree.
        Ending::Lost(_) | Ending::Ended { .. } => inner.helpers.abandon(link),
        // It has its last word to write, and the time that takes.
        _ if committed.is_err() => inner.helpers.abandon(link),
        Ending::Empty(_)
        | Ending::Remains(_)
        | Ending::NotExecuted(_)
        | Ending::NeverReleased { .. } => inner.helpers.retire(link),
    }
    if let Err(source) = committed {
        let result = Box::new(result);
        let ended = Ended {
            result: result.clone(),
            changes,
        };
        inner.unrecorded.keep(ended, &source);
        return Err(ExecuteError::Unrecorded {
            result,
            source: Box::new(source),
        });
    }
    for mut leftover in leftovers {
        leftover.remove();
        if let Some(error) = leftover.error() {
            result.spill_error.get_or_insert_with(|| error.to_owned());
        }
    }
    Ok(result)
}

/// Whether anything of the command can have run.
fn has_run(ending: &Ending) -> bool {
    !matches!(
        ending,
        Ending::NotExecuted(_) | Ending::NeverReleased { .. }
    )
}

/// Whether somebody of the tree may be left in its control group.
fn may_hold_somebody(ending: &Ending) -> bool {
    match ending {
        Ending::Remains(_) | Ending::Lost(_) => true,
        Ending::Ended { empty, .. } => !empty,
        Ending::NeverReleased { gone, .. } => !gone,
        Ending::Empty(_) | Ending::NotExecuted(_) => false,
    }
}

/// Commits a result. A Run that its host has ended meanwhile stays as it is, whatever its last operation came
/// to: that never changes.
fn commit_end(inner: &Inner, changes: &mut Vec<Change>) -> Result<CommitReceipt, CommitError> {
    match inner.journal.commit(changes.clone()) {
        Err(CommitError::Rejected(Rejected::RunEnded { .. })) => {
            changes.retain(|change| !matches!(change, Change::EndRun { .. }));
            inner.journal.commit(changes.clone())
        }
        committed => committed,
    }
}

fn pipe_holders(drains: &[Drain; 2]) -> Holders {
    let mut holders = Holders::default();
    for drain in drains {
        let inode = drain
            .pipe()
            .and_then(|pipe| rustix::fs::fstat(pipe.as_fd()).ok());
        let Some(inode) = inode.map(|stat| stat.st_ino) else {
            continue;
        };
        if let Some(of_this) = observe::pipe_holders(inode, drain.stream()) {
            holders.found.extend(of_this.found);
            holders.uninspected = holders.uninspected.max(of_this.uninspected);
        }
    }
    holders
}

/// The steps that make an operation known.
fn opening(admitted: &Admitted, leases: &[String], add: fn(NewOperation) -> Change) -> Vec<Change> {
    let spec = &admitted.spec;
    let mut changes = Vec::with_capacity(4);
    let name = spec
        .name
        .clone()
        .unwrap_or_else(|| spec.command.display_name());
    if let Membership::Own { task, run } = &spec.membership {
        let mut task = (**task).clone();
        if task.name.is_empty() {
            task.name.clone_from(&name);
        }
        changes.push(Change::SaveTask(task));
        changes.push(Change::AddRun((**run).clone()));
    }
    changes.push(add(NewOperation {
        id: admitted.id.clone(),
        run_id: spec.membership.run_id().to_owned(),
        kind: OperationKind::Process,
        name,
        input_fingerprint: admitted.fingerprint.clone(),
        required_resources: leases.to_vec(),
        mutation_roots: mutation_roots(leases),
        capability_id: None,
        timeout_ms: spec.timeout.map(millis),
        resource_budget: Some(budget(spec)),
        spawn_gated: Some(true),
    }));
    changes
}

fn budget(spec: &Spec) -> Value {
    let mut budget = json!({
        "maxOutputBytes": spec.max_output_bytes,
        "maxStoredBytes": spec.stored_bytes_max(),
    });
    if let Some(limits) = &spec.limits {
        limits.put_into(&mut budget);
    }
    if let Some(action) = &spec.command.stop_action {
        Declared::of(action).put_into(&mut budget);
    }
    budget
}

fn register(new: NewOperation) -> Change {
    Change::RegisterOperation(Box::new(new))
}

/// Without an explicit list, the folders that an operation leases are those it may write.
fn mutation_roots(leases: &[String]) -> Vec<String> {
    leases
        .iter()
        .filter_map(|lease| lease.strip_prefix(FOLDER_PREFIX))
        .map(str::to_owned)
        .collect()
}

/// The steps that give it its result, and end the Run that was made for it.
fn closing(membership: &Membership, result: &OperationResult, outputs: Vec<Output>) -> Vec<Change> {
    let mut changes = vec![finish_change(result, outputs)];
    let ended = match (membership, result.status) {
        // An operation that cannot be proven ended takes its Run along, whoever opened that.
        (_, Outcome::Indeterminate) => {
            Some((RunStatus::Indeterminate, TerminationReason::ExitUnobserved))
        }
        (Membership::Of { .. }, _) => None,
        (Membership::Own { .. }, Outcome::Succeeded) => {
            Some((RunStatus::Succeeded, TerminationReason::Completed))
        }
        (Membership::Own { .. }, Outcome::Failed) => Some((
            RunStatus::Failed,
            result
                .termination_reason
                .unwrap_or(TerminationReason::Completed),
        )),
        (Membership::Own { .. }, Outcome::Cancelled) => Some((
            RunStatus::Cancelled,
            result
                .termination_reason
                .unwrap_or(TerminationReason::UserCancelled),
        )),
    };
    if let Some((status, reason)) = ended {
        changes.push(Change::EndRun {
            run_id: result.run_id.clone(),
            status,
            reason,
        });
    }
    changes
}

/// The step that records a result; leases are freed unless the end is not proven.
pub(crate) fn finish_change(result: &OperationResult, outputs: Vec<Output>) -> Change {
    Change::FinishOperation(Box::new(Finish {
        operation_id: result.operation_id.clone(),
        outcome: result.status,
        result: as_json(&result.as_recorded()),
        outputs: outputs.into_iter().filter(worth_keeping).collect(),
        release_resources: result.status != Outcome::Indeterminate,
    }))
}

/// A stream that printed nothing needs no row: the result says so.
fn worth_keeping(output: &Output) -> bool {
    output.total_bytes > 0 || output.spill_error.is_some()
}

pub(super) fn root_identity(gated: &Gated, spec: &Spec) -> ProcessIdentity {
    ProcessIdentity {
        pgid: Some(gated.root.pid),
        command_fingerprint: Some(command_fingerprint(spec)),
        pid_namespace: gated.namespace.as_ref().map(HeldNamespace::record),
        ..plain_identity(&gated.root)
    }
    .in_group(gated.group.as_ref().map(|group| group.leaf().place()))
}

pub(super) fn plain_identity(identity: &Identity) -> ProcessIdentity {
    ProcessIdentity {
        pid: identity.pid,
        pgid: None,
        start_ticks: identity.start_ticks,
        boot_id: hex(&identity.boot_id),
        pidfd_inode: identity.pidfd_inode,
        os_start_time: clock::start_text(identity.start_ticks),
        command_fingerprint: None,
        namespaces: observe::own_namespaces(),
        pid_namespace: None,
        cgroup_path: None,
        cgroup_id: None,
        cgroup_namespace: None,
    }
}

/// SHA-256 over program and arguments, each with its length. For audits only.
fn command_fingerprint(spec: &Spec) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut hash = Sha256::new();
    for part in std::iter::once(&spec.command.program).chain(&spec.command.args) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize())
}

/// Our own types as JSON; they have string keys only, so this cannot fail.
pub(super) fn as_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("our records are JSON")
}
