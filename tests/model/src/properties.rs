//! What must hold of every state, what must hold once everything has come to rest, and what must be seen at all.
//!
//! Rest stands for "eventually": a run of the model has an end, since a test shows that it has no circle, and everything that must
//! come to pass at some time has done so there.

use stateright::Property;
use xioflow_journal::{Outcome, RunStatus};
use xioflow_kernel::rules::Case;
use xioflow_protocol::Exit;

use crate::Domain;
use crate::state::{Ending, Helper, Op, Root, Row, State, WordFile};
use crate::world::OK;

/// All of them.
#[must_use]
pub fn all() -> Vec<Property<Domain>> {
    let mut all = always();
    all.extend(at_rest());
    all.extend(seen());
    all
}

/// The names of those that must hold, so that a test can go through them.
#[must_use]
pub fn promises() -> Vec<&'static str> {
    always()
        .into_iter()
        .chain(at_rest())
        .map(|property| property.name)
        .collect()
}

fn always() -> Vec<Property<Domain>> {
    vec![
        Property::always("TypeOK", |_, state: &State| each(state, is_well_formed)),
        Property::always("NoFakeRunning", |_, state: &State| {
            each_row(state, |row| row.done || row.identity)
        }),
        Property::always("NoPrematureRelease", |_, state: &State| {
            each(state, keeps_what_may_act)
        }),
        Property::always("AtMostOnce", |_, state: &State| {
            each(state, |op| op.world.effects <= 1)
        }),
        Property::always("NoFakeSuccess", |_, state: &State| {
            each(state, is_true_success)
        }),
        Property::always("IndeterminateHoldsLease", |_, state: &State| {
            each_row(state, |row| !is_unclear(row) || row.lease)
        }),
        Property::always("GateBeforeEffect", |_, state: &State| {
            each(state, is_behind_its_gate)
        }),
        Property::always("DoneHasResult", |_, state: &State| {
            each_row(state, |row| row.done == row.result.is_some())
        }),
        Property::always("NoFalseFailure", |_, state: &State| {
            each(state, is_truly_unspawned)
        }),
        Property::always("OneResult", |_, state: &State| {
            each_row(state, |row| row.results <= 1)
        }),
        Property::always("FencedOwnerChangesNothing", |_, state: &State| {
            !state.stale_write
        }),
        Property::always("ExitOnlyWhenObserved", |_, state: &State| {
            each(state, has_seen_its_exit)
        }),
        Property::always("OneHolder", |_, state: &State| {
            state
                .ops
                .iter()
                .filter(|op| op.row.as_ref().is_some_and(|row| row.lease))
                .count()
                <= 1
        }),
        Property::always("RunFollows", |_, state: &State| {
            each_row(state, is_run_true)
        }),
    ]
}

fn at_rest() -> Vec<Property<Domain>> {
    vec![
        Property::always("EventuallySettled", |model: &Domain, state: &State| {
            !model.is_at_rest(state) || each_row(state, |row| row.done)
        }),
        Property::always("NoOrphanAtRest", |model: &Domain, state: &State| {
            !model.is_at_rest(state) || each(state, |op| !op.world.may_act() || is_isolated(op))
        }),
    ]
}

/// States without which the others would prove little.
fn seen() -> Vec<Property<Domain>> {
    vec![
        Property::sometimes(
            "an exit after the owner's death is told",
            |_, state: &State| {
                has_case(state, Case::Told, |ending| {
                    ending.outcome == Outcome::Succeeded
                })
            },
        ),
        Property::sometimes("a cancel is told by a last word", |_, state: &State| {
            has_case(state, Case::Told, |ending| {
                ending.outcome == Outcome::Cancelled
            })
        }),
        Property::sometimes("a gate that never opened", |_, state: &State| {
            has_case(state, Case::NeverRan, |_| true)
        }),
        Property::sometimes(
            "a program that could not be executed",
            |_, state: &State| has_case(state, Case::NotExecuted, |_| true),
        ),
        Property::sometimes("a tree that remains", |_, state: &State| {
            has_case(state, Case::Remains, |_| true)
        }),
        Property::sometimes("a helper that is still at work", |_, state: &State| {
            has_case(state, Case::HolderLives, |_| true)
        }),
        Property::sometimes("an end by recovery", |_, state: &State| {
            has_case(state, Case::Ended, |_| true)
        }),
        Property::sometimes(
            "an end that recovery could not bring",
            |_, state: &State| has_case(state, Case::NotEnded, |_| true),
        ),
        Property::sometimes("silence", |_, state: &State| {
            has_case(state, Case::HolderGone, |_| true)
        }),
        Property::sometimes("another boot", |_, state: &State| {
            has_case(state, Case::EarlierBoot, |_| true)
        }),
        Property::sometimes(
            "a tree that remained until another boot",
            |_, state: &State| has_case(state, Case::RemainsOfEarlierBoot, |_| true),
        ),
        Property::sometimes("a last word of somebody else", |_, state: &State| {
            has_case(state, Case::UnusableWord, |_| true)
        }),
        Property::sometimes("a last word for nobody", |_, state: &State| {
            state
                .ops
                .iter()
                .any(|op| op.row.is_none() && op.world.word != WordFile::None)
        }),
        Property::sometimes("a commit is refused", |_, state: &State| state.fenced),
        Property::sometimes(
            "recovery is interrupted and done again",
            |_, state: &State| {
                state
                    .ops
                    .iter()
                    .filter_map(|op| op.row.as_ref())
                    .any(|row| {
                        row.result.is_some_and(|ending| {
                            ending.case.is_some() && ending.by >= row.epoch + 2
                        })
                    })
            },
        ),
        Property::sometimes("a lease is free again", |_, state: &State| {
            state
                .ops
                .iter()
                .any(|op| op.row.as_ref().is_some_and(|row| row.adjudicated))
        }),
        Property::sometimes("it succeeds", |_, state: &State| {
            has_live(state, |ending| ending.outcome == Outcome::Succeeded)
        }),
        Property::sometimes("it is cancelled", |_, state: &State| {
            has_live(state, |ending| ending.outcome == Outcome::Cancelled)
        }),
        Property::sometimes("its helper is lost", |_, state: &State| {
            has_live(state, |ending| ending.outcome == Outcome::Indeterminate)
        }),
    ]
}

fn each(state: &State, holds: impl Fn(&Op) -> bool) -> bool {
    state.ops.iter().all(holds)
}

fn each_row(state: &State, holds: impl Fn(&Row) -> bool) -> bool {
    state.ops.iter().filter_map(|op| op.row.as_ref()).all(holds)
}

fn has_case(state: &State, case: Case, also: impl Fn(&Ending) -> bool) -> bool {
    let results = state.ops.iter().filter_map(|op| op.row.as_ref()?.result);
    results
        .into_iter()
        .any(|ending| ending.case == Some(case) && also(&ending))
}

fn has_live(state: &State, is_it: impl Fn(&Ending) -> bool) -> bool {
    let results = state.ops.iter().filter_map(|op| op.row.as_ref()?.result);
    results
        .into_iter()
        .any(|ending| ending.case.is_none() && is_it(&ending))
}

fn outcome(op: &Op) -> Option<Outcome> {
    Some(op.row.as_ref()?.result?.outcome)
}

/// Indeterminate, and nobody has said what becomes of it.
fn is_unclear(row: &Row) -> bool {
    row.result
        .is_some_and(|ending| ending.outcome == Outcome::Indeterminate)
        && !row.adjudicated
}

fn is_isolated(op: &Op) -> bool {
    outcome(op) == Some(Outcome::Indeterminate)
}

/// What can be said of a state at all: a helper that holds has something to hold, and what is unfinished has its lease.
fn is_well_formed(op: &Op) -> bool {
    let world = &op.world;
    let holds = match world.helper {
        Helper::AtGate => world.root == Root::Gated,
        Helper::Over(_) => !matches!(world.root, Root::Gated | Root::Running { .. }),
        Helper::None => world.root == Root::None,
        Helper::Holding | Helper::Stopping => world.root != Root::None,
        Helper::Left | Helper::Killed => world.root != Root::Gated,
    };
    holds && op.row.as_ref().is_none_or(|row| row.done || row.lease) && world.said.len() <= 3
}

/// A lease that is free stands for a tree that can do nothing any more, or for somebody's word.
fn keeps_what_may_act(op: &Op) -> bool {
    let is_kept = op
        .row
        .as_ref()
        .is_some_and(|row| row.lease || row.adjudicated);
    is_kept || !op.world.may_act()
}

fn is_true_success(op: &Op) -> bool {
    let saw_it = op.world.root
        == Root::Ended {
            exit: OK,
            seen: true,
        };
    outcome(op) != Some(Outcome::Succeeded) || (op.world.effects == 1 && saw_it)
}

fn is_behind_its_gate(op: &Op) -> bool {
    let is_recorded = op.row.as_ref().is_some_and(|row| row.identity);
    op.world.effects == 0 || (is_recorded && op.world.gate_opened)
}

fn is_truly_unspawned(op: &Op) -> bool {
    let unspawned = op
        .row
        .as_ref()
        .and_then(|row| row.result)
        .is_some_and(|ending| ending.unspawned);
    !unspawned || (op.world.effects == 0 && !op.world.may_act())
}

/// An exit that is recorded is the true one, and its helper saw it.
fn has_seen_its_exit(op: &Op) -> bool {
    let recorded: Option<Exit> = op
        .row
        .as_ref()
        .and_then(|row| row.result)
        .and_then(|ending| ending.exit);
    recorded.is_none_or(|exit| op.world.root == Root::Ended { exit, seen: true })
}

/// A Run of one operation ends with it, and no better than it.
fn is_run_true(row: &Row) -> bool {
    let Some(ending) = row.result else {
        return !row.done || row.run.is_terminal();
    };
    match ending.outcome {
        Outcome::Indeterminate => row.run == RunStatus::Indeterminate,
        Outcome::Succeeded => row.run.is_terminal(),
        Outcome::Failed | Outcome::Cancelled => {
            row.run.is_terminal() && row.run != RunStatus::Succeeded
        }
    }
}
