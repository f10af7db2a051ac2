//! What an owner does before it serves: it settles what it found, by the product's table. Each step can be the last one of
//! its owner.

use xioflow_journal::{OperationKind, OperationStatus, Outcome, RunStatus, TerminationReason};
use xioflow_kernel::rules::{
    Attempt, Case, Conclusion, Fate, Init, Known, Leaf, Liveness, Observed, Provenance, Recorded,
    Ruling, RunFacts, Said, Word, converge, decide,
};

use crate::mutation::Mutation;
use crate::owner::{close, may_write};
use crate::state::{Ending, Helper, Look, Mind, Owner, Root, Row, State, Stray, WordFile};
use crate::world::{KILLED, OK};

/// A step of recovery with one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Looks whether the helper lives.
    LookAtHelper,
    /// Reads its last word, and looks whether the command lives.
    LookAtRest,
    /// The helper has gone, or its time is over.
    EndWait,
    /// Ends what it can identify.
    Attempt {
        /// Whether all of that ended.
        confirmed: bool,
        /// Whether what the command has left behind was found through it, and ended as well.
        stray: bool,
    },
    /// Writes the result.
    WriteResult,
    /// The result becomes durable, or is refused.
    MakeDurable,
}

/// The steps that are possible for an owner that does not serve yet.
pub fn possible(
    state: &State,
    owner: &Owner,
    at: usize,
    mutation: Option<Mutation>,
    acts: &mut Vec<Act>,
) {
    let op = &state.ops[at];
    let Some(row) = op.row.as_ref().filter(|row| !row.done) else {
        return;
    };
    match owner.minds[at] {
        Mind::Idle => acts.push(Act::LookAtHelper),
        Mind::LookedAtHelper(_) => acts.push(Act::LookAtRest),
        Mind::Looked(look) => match decide(&recorded(row), &look) {
            Ruling::Wait if mutation == Some(Mutation::ForgetsWait) => {}
            Ruling::Wait => acts.push(Act::EndWait),
            Ruling::Stop => attempts(state, at, acts),
            Ruling::Conclude(_) => acts.push(Act::WriteResult),
        },
        Mind::Concluding(_) => acts.push(Act::MakeDurable),
        _ => {}
    }
}

fn attempts(state: &State, at: usize, acts: &mut Vec<Act>) {
    let world = &state.ops[at].world;
    acts.push(Act::Attempt {
        confirmed: true,
        stray: false,
    });
    // Without the command nobody is found through it.
    if matches!(world.root, Root::Running { .. }) {
        acts.push(Act::Attempt {
            confirmed: false,
            stray: false,
        });
        if world.stray == Stray::Alive {
            acts.push(Act::Attempt {
                confirmed: true,
                stray: true,
            });
        }
    }
}

/// Takes a step that is possible.
pub fn take(state: &mut State, owner: usize, at: usize, act: Act, mutation: Option<Mutation>) {
    let mind = match (act, state.owners[owner].minds[at]) {
        (Act::LookAtHelper, _) => {
            let nothing = Observed {
                word: Word::None,
                holder: Liveness::CannotTell,
                init: Init::Untold,
                leaf: Leaf::Untold,
                root: Liveness::CannotTell,
                waited: false,
                attempt: Attempt::NotTried,
            };
            Mind::LookedAtHelper(Look {
                holder: helper_now(state, at),
                ..nothing
            })
        }
        (Act::LookAtRest, Mind::LookedAtHelper(look)) => {
            let word = word_now(state, at, mutation);
            Mind::Looked(Look {
                word,
                root: root_now(state, at),
                ..look
            })
        }
        (Act::EndWait, Mind::Looked(look)) => Mind::LookedAtHelper(Look {
            holder: helper_now(state, at),
            waited: true,
            ..look
        }),
        (Act::Attempt { confirmed, stray }, Mind::Looked(look)) => {
            let attempt = attempt(state, at, confirmed, stray);
            Mind::Looked(Look { attempt, ..look })
        }
        (Act::WriteResult, Mind::Looked(look)) => match state.ops[at]
            .row
            .as_ref()
            .map(|row| decide(&recorded(row), &look))
        {
            Some(Ruling::Conclude(conclusion)) => Mind::Concluding(changed(conclusion, mutation)),
            _ => Mind::Idle,
        },
        (Act::MakeDurable, Mind::Concluding(conclusion)) => {
            make_durable(state, owner, at, conclusion, mutation);
            Mind::Idle
        }
        (_, other) => other,
    };
    state.owners[owner].minds[at] = mind;
}

/// What is recorded of it, in the terms of the table.
#[must_use]
pub fn recorded(row: &Row) -> Recorded {
    let known = if row.identity { Known::Yes } else { Known::No };
    Recorded {
        kind: OperationKind::Process,
        status: if row.stop.is_some() {
            OperationStatus::Stopping
        } else {
            OperationStatus::Active
        },
        spawn_gated: Some(true),
        root: known,
        holder: known,
        stop: row.stop,
        provenance: Provenance::Here,
    }
}

fn helper_now(state: &State, at: usize) -> Liveness {
    liveness(state, at, state.ops[at].world.helper.lives())
}

fn root_now(state: &State, at: usize) -> Liveness {
    let root = state.ops[at].world.root;
    liveness(
        state,
        at,
        matches!(root, Root::Gated | Root::Running { .. }),
    )
}

fn liveness(state: &State, at: usize, lives: bool) -> Liveness {
    let boot = state.ops[at].row.as_ref().map(|row| row.boot);
    match lives {
        _ if boot != Some(state.boot) => Liveness::OtherBoot,
        true => Liveness::Alive,
        false => Liveness::Gone,
    }
}

fn word_now(state: &State, at: usize, mutation: Option<Mutation>) -> Word {
    match state.ops[at].world.word {
        WordFile::None => Word::None,
        WordFile::Own(said) if mutation == Some(Mutation::AnyEnd) => Word::Said(Said {
            empty: true,
            ..said
        }),
        WordFile::Own(said) => Word::Said(said),
        WordFile::Foreign if mutation == Some(Mutation::AnyWord) => Word::Said(Said {
            fate: Fate::NeverRan,
            empty: true,
        }),
        WordFile::Foreign => Word::Unusable,
    }
}

/// Signals reach the command only while it lives; what it has left behind is found through it, or not.
fn attempt(state: &mut State, at: usize, confirmed: bool, stray: bool) -> Attempt {
    let world = &mut state.ops[at].world;
    if !matches!(world.root, Root::Running { .. }) {
        return Attempt::NothingFound;
    }
    if !confirmed {
        return Attempt::Unconfirmed;
    }
    world.root = Root::Ended {
        exit: KILLED,
        seen: world.helper == Helper::Holding,
    };
    if stray {
        world.stray = Stray::Gone;
    }
    Attempt::Confirmed
}

/// The conclusion, or what a fault makes of it.
fn changed(conclusion: Conclusion, mutation: Option<Mutation>) -> Conclusion {
    let failed = Some(TerminationReason::CrashDetected);
    match (mutation, conclusion.case) {
        (Some(Mutation::TrustsSilence), Case::HolderGone)
        | (Some(Mutation::DeniesRun), Case::Ended) => Conclusion {
            status: Outcome::Failed,
            reason: failed,
            ..conclusion
        },
        (Some(Mutation::GuessesSuccess), Case::EarlierBoot) => Conclusion {
            status: Outcome::Succeeded,
            reason: Some(TerminationReason::Completed),
            ..conclusion
        },
        (Some(Mutation::GuessesExit), Case::EarlierBoot) => Conclusion {
            exit: Some(OK),
            ..conclusion
        },
        _ => conclusion,
    }
}

fn make_durable(
    state: &mut State,
    owner: usize,
    at: usize,
    conclusion: Conclusion,
    mutation: Option<Mutation>,
) {
    if !may_write(state, owner, mutation) {
        return;
    }
    let by = state.owners[owner].epoch;
    let Some(row) = &mut state.ops[at].row else {
        return;
    };
    let denies = mutation == Some(Mutation::DeniesRun) && conclusion.case == Case::Ended;
    let never_ran = [Case::NeverRan, Case::NotExecuted, Case::GateNeverOpened];
    let ending = Ending {
        outcome: conclusion.status,
        exit: conclusion.exit,
        unspawned: denies || never_ran.contains(&conclusion.case),
        case: Some(conclusion.case),
        by,
    };
    let run = if mutation == Some(Mutation::ForgetsRun) {
        row.run
    } else {
        run_after(row, &conclusion)
    };
    close(row, ending, run, mutation);
}

/// The Run whose only operation has this end now, and whose owner died.
fn run_after(row: &Row, conclusion: &Conclusion) -> RunStatus {
    let unclear = u64::from(conclusion.status == Outcome::Indeterminate);
    let facts = RunFacts {
        status: row.run,
        operations: 1,
        unfinished: 0,
        unclear,
        owner_died: true,
    };
    converge(&facts).map_or(row.run, |(status, _)| status)
}

/// Everything is settled: last words that nobody needs are removed, and the owner serves.
pub fn serve(state: &mut State, owner: usize) {
    for op in &mut state.ops {
        let is_told = match &op.row {
            Some(row) => row
                .result
                .is_some_and(|result| result.outcome != Outcome::Indeterminate),
            None => true,
        };
        if is_told {
            op.world.word = WordFile::None;
        }
    }
    state.owners[owner].serving = true;
    state.owners[owner].minds.fill(Mind::Idle);
}

/// Whether everything that an owner has found is settled.
#[must_use]
pub fn is_over(state: &State) -> bool {
    state
        .ops
        .iter()
        .all(|op| op.row.as_ref().is_none_or(|row| row.done))
}
