//! What became of stop actions whose supervisor died. One that had a process has a tree and a helper of its own,
//! and is judged by the same table as a command; nothing is run here, neither again nor for the first time.

use std::path::Path;

use xioflow_journal::{Outcome, Query};
use xioflow_protocol::{Exit, LastWord};

use super::decide::{Case, Conclusion, Verdict};
use super::unfinished::Unfinished;
use super::{Decision, LeasesAre};
use crate::error::ExecuteError;
use crate::guidance;
use crate::names::signal_name;
use crate::operation::{indeterminate, name_survivors};
use crate::result::{OperationResult, TreeSettlement};
use crate::stop_action::{Declared, StopActionResult, why_not_due};

/// Lays the actions that have begun beside their operations, so that they are waited for and ended with them.
/// Gives the places of these operations, in the order of their actions.
pub(super) fn lay_beside(
    all: &mut Vec<Unfinished>,
    journal: &impl Query,
    holders: &Path,
) -> Result<Vec<usize>, ExecuteError> {
    let (mut owners, mut actions) = (Vec::new(), Vec::new());
    for (at, unfinished) in all.iter().enumerate() {
        if let Some(action) = unfinished.begun_action(journal, holders)? {
            owners.push(at);
            actions.push(action);
        }
    }
    all.append(&mut actions);
    Ok(owners)
}

/// Gives the actions to the operations that they belong to.
pub(super) fn put_back(all: &mut Vec<Unfinished>, owners: Vec<usize>) {
    let actions = all.split_off(all.len() - owners.len());
    for (at, action) in owners.into_iter().zip(actions) {
        all[at].action = Some(Box::new(action));
    }
}

/// Says in a result what became of the stop action that was declared. One whose end is not proven takes the proof
/// from the operation, and its leases stay.
pub(super) fn tell(unfinished: &Unfinished, result: &mut OperationResult, decision: &mut Decision) {
    let budget = unfinished.operation.resource_budget.as_ref();
    let Some(declared) = Declared::in_budget(budget) else {
        return;
    };
    let when = declared.when;
    let mut told = StopActionResult::of(declared);
    match &unfinished.action {
        Some(action) => judge(action, &mut told, result, decision),
        None => match why_not_due(when, has_run(decision), result) {
            Some(why) => told.was_not_due(why),
            None => {
                told.was_not_due(
                    "its supervisor died before it was run, and recovery runs nothing",
                );
                told.advise();
            }
        },
    }
    decision.guidance.clone_from(&told.guidance);
    result.stop_action = Some(told);
}

/// Whether anything of the command may have run, by what was decided of it.
fn has_run(decision: &Decision) -> bool {
    decision.verdict != Verdict::CleanedUnspawned
}

fn judge(
    action: &Unfinished,
    told: &mut StopActionResult,
    result: &mut OperationResult,
    decision: &mut Decision,
) {
    let concluded = action.conclusion();
    told.ran = match concluded.case {
        Case::NeverRan | Case::NotExecuted | Case::GateNeverOpened => Some(false),
        Case::Told | Case::Remains | Case::RemainsAreGone | Case::RemainsOfEarlierBoot => {
            Some(true)
        }
        _ => None,
    };
    match concluded.exit {
        Some(Exit::Exited { code }) => told.exit_code = Some(code),
        Some(Exit::Signaled { signal, .. }) => told.signal = Some(signal_name(signal)),
        None => {}
    }
    told.reason =
        Some("its supervisor died before its end was recorded; what it printed is lost".to_owned());
    told.tree_settlement = Some(settlement(action, concluded.case));
    if !told.succeeded() {
        told.advise();
    }
    if !concluded.frees_leases() {
        isolate(action, &concluded, told, result, decision);
    }
}

/// What its helper saw of its tree.
fn settlement(action: &Unfinished, case: Case) -> TreeSettlement {
    let survived = |word: &LastWord| word.end.survivors_total > 0 && word.end.last_signal.is_some();
    match (case, action.word.said()) {
        (Case::Told, Some(word)) if survived(word) => TreeSettlement::Reaped,
        (Case::Told | Case::NeverRan | Case::NotExecuted, _) => TreeSettlement::Empty,
        _ => TreeSettlement::Unverified,
    }
}

fn isolate(
    action: &Unfinished,
    concluded: &Conclusion,
    told: &mut StopActionResult,
    result: &mut OperationResult,
    decision: &mut Decision,
) {
    name_survivors(result, &action.stopped.left);
    decision.signalled.extend(&action.stopped.signalled);
    decision.leases = LeasesAre::Kept;
    decision.status = Outcome::Indeterminate;
    decision.verdict = concluded.verdict;
    told.reason = Some("its supervisor died, and its end is not proven".to_owned());
    if result.status == Outcome::Indeterminate {
        return;
    }
    let operation_id = result.operation_id.clone();
    indeterminate(
        result,
        "its stop action had begun when its supervisor died, and is not proven to have ended"
            .to_owned(),
        &guidance::adjudicate(
            &operation_id,
            "look for processes of the stop action and end them",
        ),
    );
}
