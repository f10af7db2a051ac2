//! Decides whether a submission runs at all: valid, not a repetition, its resources free.
//!
//! What is refused here leaves no trace. The order is that of the checks' cost to the caller: what
//! can be known without waiting comes first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xioflow_journal::{Change, Operation, OperationStatus, Outcome, Query, ReplayMode};

use super::claim::{claim, settle_stored_max};
use super::launch::{Admitted, launch};
use super::limits;
use super::{Active, Membership, Spec, stored_result};
use crate::admission::Allocation;
use crate::caller::Caller;
use crate::control::Control;
use crate::domain::{Inner, is_unfinished};
use crate::error::{ExecuteError, OPERATION_ID_MAX_BYTES, TIMEOUT_MAX};
use crate::fingerprint::{Inputs, fingerprint};
use crate::flight::{Flight, Joined, Submission};
use crate::output::{Feed, Feeds};
use crate::resources;
use crate::result::{OperationResult, Reuse};

/// Executes a submission from beginning to end.
pub(super) fn execute(
    inner: &Inner,
    mut spec: Spec,
    control: &Arc<Control>,
    feed: Option<Arc<Feed>>,
) -> Result<OperationResult, ExecuteError> {
    let submitted = Instant::now();
    check_spec(&spec)?;
    // This one may ask for what has ended, or for its resources. If that cannot be recorded still, it finds out.
    inner.record_unrecorded().ok();
    let mut caller = spec.caller.take().unwrap_or_else(Caller::own);
    caller.validate()?;
    let variables = caller.take_variables();
    let environment = spec.command.environment.resolve(variables)?;
    let folder = caller.folder_of(&spec.command)?;
    let input = caller.input_of(&spec.command)?;
    spec.leases = resources::admissible(std::mem::take(&mut spec.leases), &caller)?;
    let fingerprint = fingerprint(&Inputs {
        command: &spec.command,
        cwd: &folder.path,
        streams_stdin: spec.stdin_stream.is_some(),
        resources: &spec.leases,
        timeout_ms: spec.timeout.map(millis),
        limits: spec.limits.as_ref(),
    });
    let id = spec.id.clone();
    control.set_operation(&id);
    check_run(inner, &spec.membership)?;
    let feeds = Arc::new(Feeds::default());
    let run_id = spec.membership.run_id().to_owned();
    let new = || {
        Flight::new(
            fingerprint.clone(),
            run_id.clone(),
            Arc::clone(control),
            Arc::clone(&feeds),
        )
    };
    let in_flight = loop {
        match inner.flights.submit(&id, new, &fingerprint) {
            Submission::First(guard) => break guard,
            Submission::Same(flight) => {
                tell_joined(inner, &flight, &mut spec)?;
                join(&flight, &id, control, feed.as_ref())?;
                // If the one that was joined was refused before anything ran, this one may run.
                if let Some(recorded) = inner.journal.operation(&id)? {
                    let mode = flight.replay_mode();
                    return replay(inner, &spec, recorded, &fingerprint, mode);
                }
            }
            Submission::Other(flight) => return other(inner, &spec, &flight, fingerprint),
            Submission::Closed => return Err(ExecuteError::DomainClosed),
        }
    };
    // An id that was made here is new.
    if spec.id_is_chosen
        && let Some(recorded) = inner.journal.operation(&id)?
    {
        in_flight.note_answered();
        return replay(inner, &spec, recorded, &fingerprint, ReplayMode::Recorded);
    }
    limits::admissible(inner, &spec)?;
    if let Some(feed) = feed {
        feeds.add(feed);
    }
    settle_stored_max(&mut spec, &inner.leases.budget());
    let driver = spec.command.driver.resolved(inner.groups.are_offered());
    let admitted = Admitted {
        id,
        driver,
        fingerprint,
        caller,
        folder,
        input,
        environment,
        spec,
        submitted,
        stdin_waited: Duration::ZERO,
        is_stop_action: false,
    };
    with_leases(inner, admitted, control, &feeds)
}

/// Tells a submission that it has joined, unless the other one is a repetition that is only answered.
fn tell_joined(inner: &Inner, flight: &Flight, spec: &mut Spec) -> Result<(), ExecuteError> {
    if !spec.when_active.is_awaited() {
        return Ok(());
    }
    let recorded = inner.journal.operation(&spec.id)?;
    if recorded.is_none_or(|recorded| is_unfinished(recorded.status)) {
        spec.when_active.tell(|| Active {
            operation_id: spec.id.clone(),
            run_id: flight.run_id.clone(),
            joined: true,
            host_moved: None,
        });
    }
    Ok(())
}

/// Waits for the operation of another submission, and shares its output meanwhile.
fn join(
    flight: &Flight,
    id: &str,
    control: &Arc<Control>,
    feed: Option<&Arc<Feed>>,
) -> Result<(), ExecuteError> {
    if let Some(feed) = feed {
        flight.feeds.add_joiner(Arc::clone(feed));
    }
    control.set_joined(true);
    flight.enter(control);
    let joined = flight.wait(control);
    // If that one was refused, this submission may become the operation itself.
    control.set_joined(false);
    match joined {
        Joined::Landed => Ok(()),
        Joined::Abandoned => {
            if let Some(feed) = feed {
                flight.feeds.remove(feed);
            }
            Err(ExecuteError::JoinAbandoned {
                operation_id: id.to_owned(),
            })
        }
    }
}

/// Answers one that meets an operation with other inputs under its id. What is recorded says whose the
/// id is; the one in flight may be about to be refused itself.
fn other(
    inner: &Inner,
    spec: &Spec,
    flight: &Flight,
    fingerprint: String,
) -> Result<OperationResult, ExecuteError> {
    match inner.journal.operation(&spec.id)? {
        Some(recorded) => replay(inner, spec, recorded, &fingerprint, ReplayMode::Recorded),
        None => Err(ExecuteError::IdConflict {
            operation_id: spec.id.clone(),
            existing_fingerprint: flight.fingerprint.clone(),
            requested_fingerprint: fingerprint,
            status: OperationStatus::Pending,
            run_id: flight.run_id.clone(),
        }),
    }
}

/// A Run that its host opened must still be open, also for a result that is only replayed. The
/// commit checks it again.
fn check_run(inner: &Inner, membership: &Membership) -> Result<(), ExecuteError> {
    let Membership::Of { run_id } = membership else {
        return Ok(());
    };
    let problem = match inner.journal.run(run_id)? {
        None => "there is no such run".to_owned(),
        Some(run) if run.status.is_terminal() => format!("it has ended as {}", run.status),
        Some(_) => return Ok(()),
    };
    Err(ExecuteError::RunClosed {
        run_id: run_id.clone(),
        problem,
    })
}

fn with_leases(
    inner: &Inner,
    admitted: Admitted,
    control: &Arc<Control>,
    feeds: &Feeds,
) -> Result<OperationResult, ExecuteError> {
    let Admitted { id, spec, .. } = &admitted;
    let claim = claim(spec, &inner.leases.budget())?;
    match inner.leases.allocate(id, &claim, spec.wait, control) {
        Allocation::Granted => {}
        Allocation::Cancelled => {
            return super::record::cancelled_before_launch(inner, admitted, control);
        }
        Allocation::Closed => return Err(ExecuteError::DomainClosed),
        Allocation::Refused(conflict) => {
            return Err(ExecuteError::ResourceConflict {
                resource: conflict.resource,
                holder: conflict.holder,
                scarcity: conflict.scarcity,
                requested_by: admitted.id,
                waited_ms: millis(admitted.submitted.elapsed()),
            });
        }
    }
    let id = admitted.id.clone();
    let result = launch(inner, admitted, control, feeds);
    match &result {
        // Its end is not proven. It keeps its resources; the journal says the same.
        Ok(result) if result.status == Outcome::Indeterminate => inner.leases.keep(&id),
        // For the journal it has not ended.
        Err(ExecuteError::Unrecorded { .. }) => {}
        _ => inner.leases.release(&id),
    }
    result
}

/// Answers from the record, and journals that.
fn replay(
    inner: &Inner,
    spec: &Spec,
    recorded: Operation,
    fingerprint: &str,
    mode: ReplayMode,
) -> Result<OperationResult, ExecuteError> {
    if recorded.input_fingerprint != fingerprint {
        return Err(ExecuteError::IdConflict {
            operation_id: recorded.id,
            existing_fingerprint: recorded.input_fingerprint,
            requested_fingerprint: fingerprint.to_owned(),
            status: recorded.status,
            run_id: recorded.run_id,
        });
    }
    let recorded = settled(inner, recorded)?;
    let mode = match (recorded.outcome, mode) {
        (Some(Outcome::Indeterminate), ReplayMode::Recorded) => ReplayMode::Indeterminate,
        (_, mode) => mode,
    };
    note_replay(inner, spec, &recorded, mode)?;
    let reused = match mode {
        ReplayMode::Joined => Reuse::JoinedInFlight,
        ReplayMode::Recorded | ReplayMode::Indeterminate => Reuse::ReplayedRecorded,
    };
    recorded_result(inner, recorded, spec.max_output_bytes, reused)
}

/// One that has its result. For the journal it may lack it because there was no room: then it is recorded
/// now, or whoever asks is told what it came to all the same.
fn settled(inner: &Inner, recorded: Operation) -> Result<Operation, ExecuteError> {
    if !is_unfinished(recorded.status) {
        return Ok(recorded);
    }
    let id = &recorded.id;
    if let Err(source) = inner.record_unrecorded()
        && let Some(result) = inner.unrecorded.result_of(id)
    {
        let source = Box::new(source);
        return Err(ExecuteError::Unrecorded { result, source });
    }
    match inner.journal.operation(id)? {
        Some(now) if !is_unfinished(now.status) => Ok(now),
        _ => Err(ExecuteError::RecoveryRequired {
            operation_id: recorded.id,
            status: recorded.status,
            run_id: recorded.run_id,
        }),
    }
}

/// The result of another submission, with at most `limit` bytes of each stream.
pub(super) fn recorded_result(
    inner: &Inner,
    recorded: Operation,
    limit: usize,
    reused: Reuse,
) -> Result<OperationResult, ExecuteError> {
    let recorded = settled(inner, recorded)?;
    let outputs = inner.journal.outputs(&recorded.id)?;
    let mut result = stored_result(&recorded, &outputs, inner.artifacts.path(), limit)?;
    result.replayed = true;
    result.reused = reused;
    Ok(result)
}

fn note_replay(
    inner: &Inner,
    spec: &Spec,
    recorded: &Operation,
    mode: ReplayMode,
) -> Result<(), ExecuteError> {
    let calling_run_id = match &spec.membership {
        Membership::Of { run_id } => run_id.clone(),
        // Nothing is executed, so no Run is made for it.
        Membership::Own { .. } => recorded.run_id.clone(),
    };
    inner.journal.commit(vec![Change::NoteReplay {
        operation_id: recorded.id.clone(),
        mode,
        calling_run_id,
        original_run_id: recorded.run_id.clone(),
        original_status: recorded.status,
    }])?;
    Ok(())
}

/// Checks everything that can be known of it without asking anybody.
pub(crate) fn check_spec(spec: &Spec) -> Result<(), ExecuteError> {
    spec.command.validate()?;
    if let Some(timeout) = spec.timeout.filter(|timeout| *timeout > TIMEOUT_MAX) {
        return Err(ExecuteError::InvalidTimeout { timeout });
    }
    if let Some(limits) = &spec.limits {
        limits.validate()?;
    }
    if spec.id.is_empty() || spec.id.len() > OPERATION_ID_MAX_BYTES {
        return Err(ExecuteError::InvalidId { len: spec.id.len() });
    }
    Ok(())
}

pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
