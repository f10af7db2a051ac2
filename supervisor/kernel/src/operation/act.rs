//! Runs what was declared for the end of an operation, once, between the end of its tree and its result.
//!
//! It goes the way of a command: a helper of its own, a gate that opens when its process is on record, a time
//! limit. Whatever becomes of it is part of the operation's result, and changes nothing of how the command
//! ended; only a tree of it that cannot be proven to have ended leaves the operation without a proof.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use xioflow_journal::{Change, Stream, TerminationReason};
use xioflow_killpoint as killpoint;

use super::admit::millis;
use super::gate::{Gated, bring_to_gate, discard};
use super::launch::{Admitted, release, spawn_failure};
use super::record::{as_json, plain_identity, root_identity};
use super::settle::{Facts, indeterminate, settle};
use super::supervise::{Ending, Observed, Supervision, supervise};
use super::{DescendantPolicy, Membership, Spec, WhenActive};
use crate::command::Command;
use crate::control::Control;
use crate::domain::Inner;
use crate::driver::Driver;
use crate::error::ExecuteError;
use crate::guidance;
use crate::helper::HelperLink;
use crate::observe::Holders;
use crate::output::Feeds;
use crate::result::{OperationResult, TreeSettlement};
use crate::stdin::Stdin;
use crate::stop_action::{Declared, StopAction, StopActionResult, why_not_due};

/// What is kept of each of its streams, in bytes. It is part of a result, and nothing of it is stored elsewhere.
const OUTPUT_MAX_BYTES: usize = 16 * 1024;

/// How long it may take to end after its time.
const GRACE: Duration = Duration::from_secs(1);

/// How long its pipes may stay open when its tree is gone.
const DRAIN: Duration = Duration::from_millis(500);

/// The helper of one that was run, which stays until the result is on record: dying before that, it leaves a
/// last word.
pub(super) struct Acted {
    link: HelperLink,
    may_hold_a_tree: bool,
}

impl Acted {
    /// Parts from it.
    pub(super) fn part(mut self, inner: &Inner, is_recorded: bool) {
        if is_recorded {
            self.link.account_recorded();
        }
        match is_recorded && !self.may_hold_a_tree {
            true => inner.helpers.retire(self.link),
            false => inner.helpers.abandon(self.link),
        }
    }
}

/// Runs the stop action of an operation if there is one and it is due, and says in the result what became of it.
pub(super) fn act(
    inner: &Inner,
    admitted: &Admitted,
    result: &mut OperationResult,
    has_run: bool,
    control: &Arc<Control>,
) -> Option<Acted> {
    let action = admitted.spec.command.stop_action.as_ref()?;
    let mut told = StopActionResult::of(Declared::of(action));
    let mut acted = None;
    match why_not_due(action.when, has_run, result) {
        Some(why) => told.was_not_due(why),
        None => {
            acted = run(
                inner,
                &of_action(admitted, action),
                control,
                &mut told,
                result,
            );
            if !told.succeeded() {
                told.advise();
            }
        }
    }
    result.stop_action = Some(told);
    acted
}

fn run(
    inner: &Inner,
    action: &Admitted,
    control: &Arc<Control>,
    told: &mut StopActionResult,
    result: &mut OperationResult,
) -> Option<Acted> {
    killpoint::pass(|| "stop-action:before-begun");
    let begun = Instant::now();
    let mut gated = match bring(inner, action, control) {
        Ok(gated) => gated,
        Err(NotBegun(why, failure)) => {
            told.was_not_due(&why);
            told.spawn_failure = failure.map(|failure| *failure);
            return None;
        }
    };
    killpoint::pass(|| "stop-action:begun");
    let released = release(&mut gated.link);
    let feeds = Feeds::default();
    let supervision = Supervision::new(inner, gated, action, control, &feeds, released);
    let observed = supervise(supervision);
    let acted = conclude(action, observed, told, result);
    told.duration_ms = Some(millis(begun.elapsed()));
    killpoint::pass(|| "stop-action:over");
    Some(acted)
}

/// Why it never got past its gate.
struct NotBegun(String, Option<Box<crate::result::SpawnFailure>>);

/// Brings it to its gate and puts its process on record.
fn bring(inner: &Inner, action: &Admitted, control: &Control) -> Result<Gated, NotBegun> {
    let failed = |error: ExecuteError| NotBegun(chain(&error), None);
    let stdin = action.spec.command.stdin.open(None, control, None);
    let stdin =
        stdin.map_err(|_| NotBegun("there is no standard input for it".to_owned(), None))?;
    let gated = match bring_to_gate(inner, action, stdin.as_ref(), None).map_err(failed)? {
        Ok(gated) => gated,
        Err(failure) => {
            let failure = spawn_failure(action, &failure);
            return Err(NotBegun(failure.message.clone(), Some(Box::new(failure))));
        }
    };
    let holder = gated
        .link
        .greeting()
        .and_then(|hello| hello.identity.as_ref());
    let change = Change::BeginStopAction {
        operation_id: action.id.clone(),
        process_identity: as_json(&root_identity(&gated, &action.spec)),
        holder: holder.map_or(Value::Null, |holder| as_json(&plain_identity(holder))),
    };
    match inner.journal.commit(vec![change]) {
        Ok(_) => Ok(gated),
        Err(error) => {
            let error = ExecuteError::from(error);
            let why = NotBegun(chain(&error), None);
            match error.may_be_recorded() {
                // Its last word tells whoever finds it on record that nothing of it ran.
                true => inner.helpers.abandon(gated.link),
                false => discard(inner, gated),
            }
            Err(why)
        }
    }
}

/// An error with its causes, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Writes what was seen of it into its part of the result.
fn conclude(
    action: &Admitted,
    observed: Observed,
    told: &mut StopActionResult,
    result: &mut OperationResult,
) -> Acted {
    let ended = settle(Facts {
        operation_id: &action.id,
        run_id: action.spec.membership.run_id(),
        ending: &observed.ending,
        driver: action.driver,
        early_exit: observed.exit,
        running: observed.running,
        stop: observed.stop.as_ref(),
        signalled: observed.signalled,
        used: &observed.used,
        // Who holds its pipes is of no concern: what it printed is a note.
        undrained: &[],
        holders: Holders::default(),
        gaps: observed.gaps,
        duration_ms: None,
    });
    let may_hold_a_tree = matches!(observed.ending, Ending::Lost(_) | Ending::Ended { .. });
    for drain in observed.drains {
        let stream = drain.stream();
        let kept = drain.into_kept();
        told.is_truncated |= kept.truncated;
        let text = String::from_utf8_lossy(&kept.bytes).into_owned();
        match stream {
            Stream::Stdout => told.stdout = text,
            Stream::Stderr => told.stderr = text,
        }
    }
    told.ran = match &observed.ending {
        Ending::NotExecuted(_) | Ending::NeverReleased { .. } => Some(false),
        _ => observed.running.then_some(true),
    };
    let timed_out = ended.termination_reason == Some(TerminationReason::TimedOut);
    told.timed_out = (told.ran != Some(false)).then_some(timed_out);
    if timed_out && told.ran == Some(false) {
        told.reason = Some("its time was over before it began".to_owned());
    }
    if ended.stop.is_some() && !timed_out {
        told.reason = Some("it was killed, since somebody would not wait for it".to_owned());
    }
    told.take_end(ended, result);
    Acted {
        link: observed.link,
        may_hold_a_tree,
    }
}

impl StopActionResult {
    /// Takes over how its own tree ended. Where that is not proven, the end of the operation is not.
    fn take_end(&mut self, ended: OperationResult, result: &mut OperationResult) {
        let is_proven = matches!(
            ended.tree_settlement,
            Some(TreeSettlement::Empty | TreeSettlement::Reaped)
        );
        self.reason = self.reason.take().or(ended.reason);
        self.exit_code = ended.exit_code;
        self.signal = ended.signal;
        self.spawn_failure = ended.spawn_failure;
        self.tree_settlement = ended.tree_settlement;
        self.residual_pids.clone_from(&ended.residual_pids);
        if is_proven {
            return;
        }
        // Whoever decides about the operation looks for them.
        result.survivors_total = result.survivors_total.saturating_add(ended.survivors_total);
        result.survivors.extend(ended.survivors);
        result.residual_pids.extend(ended.residual_pids);
        let why = self.reason.as_deref().unwrap_or("its end was not seen");
        let operation_id = result.operation_id.clone();
        indeterminate(
            result,
            format!("its stop action is not proven to have ended: {why}"),
            &guidance::adjudicate(
                &operation_id,
                "look for processes of the stop action and end them",
            ),
        );
    }
}

/// The submission of an action: as the command's, with its words.
fn of_action(admitted: &Admitted, action: &StopAction) -> Admitted {
    let command = Command {
        program: action.program.clone(),
        args: action.args.clone(),
        stdin: Stdin::Null,
        merges_stderr: false,
        stop_action: None,
        // It is about work outside, and may have to see the processes there.
        driver: Driver::Reaper,
        ..admitted.spec.command.clone()
    };
    Admitted {
        id: admitted.id.clone(),
        driver: Driver::Reaper,
        fingerprint: String::new(),
        caller: admitted.caller.clone(),
        folder: admitted.folder.clone(),
        input: None,
        environment: admitted.environment.clone(),
        spec: Spec {
            command,
            caller: None,
            id: admitted.id.clone(),
            id_is_chosen: false,
            name: None,
            timeout: Some(action.timeout),
            timeout_grace: GRACE,
            // It is to end what the command has left, also where that used too much.
            limits: None,
            leases: Vec::new(),
            wait: Duration::ZERO,
            max_output_bytes: OUTPUT_MAX_BYTES,
            drain_timeout: DRAIN,
            // Nothing: it is in the result.
            max_stored_bytes: Some(0),
            descendants: DescendantPolicy::Stop,
            detached: false,
            membership: Membership::Of {
                run_id: admitted.spec.membership.run_id().to_owned(),
            },
            stdin_stream: None,
            when_active: WhenActive::nobody(),
        },
        submitted: Instant::now(),
        stdin_waited: Duration::ZERO,
        is_stop_action: true,
    }
}
