//! What an owner does once it serves: the way of one operation from its submission to its result. `recovery` is what it does
//! before that.

use xioflow_journal::{Outcome, RunStatus, TerminationReason};
use xioflow_kernel::DomainBudget;
use xioflow_kernel::rules::{Cause, Claim, Heard, LeaseTable, Talk, outcome_of};
use xioflow_protocol::{Exit, LaunchFailure, Reply as Message, Stage, TreeEnd, Usage};

use crate::mutation::Mutation;
use crate::state::{
    Asked, Cancel, Ending, Helper, Mind, Owner, Reply, Root, Row, State, Stray, WordFile, World,
};
use crate::world::KILLED;

/// The one lease that all operations want.
const LEASE: &str = "workspace";

/// A step of an owner with one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Takes a submission: the lease in memory, a helper, the command at its gate.
    Submit,
    /// Its helper is gone before anything was recorded; whoever submitted is told so.
    GiveUp,
    /// Writes the first commit.
    WriteOpening,
    /// What was written becomes durable, or is refused.
    MakeDurable,
    /// Opens the gate.
    Release,
    /// Finds that the helper is gone and the gate was never opened.
    NeverReleased,
    /// Takes what the helper has said.
    Hear,
    /// Finds that the helper is gone.
    LoseHelper {
        /// Whether this process adopts what the helper held.
        adopts: bool,
    },
    /// Records a wish to cancel.
    RecordStop,
    /// Passes it on.
    TellStop,
    /// Writes the second commit.
    WriteClosing,
    /// Somebody says of an indeterminate operation what is to become of its lease.
    Adjudicate {
        /// Whether they say that it has stopped.
        stopped: bool,
    },
}

/// The steps that are possible for an owner that serves.
pub fn possible(
    state: &State,
    owner: &Owner,
    at: usize,
    mutation: Option<Mutation>,
    acts: &mut Vec<Act>,
) {
    let op = &state.ops[at];
    let world = &op.world;
    let helper_is_lost = world.peer == owner.epoch && world.helper == Helper::Killed;
    match owner.minds[at] {
        Mind::Idle => idle(state, owner, at, mutation, acts),
        Mind::Gated if helper_is_lost => acts.push(Act::GiveUp),
        Mind::Gated
            if mutation == Some(Mutation::GateBeforeCommit)
                && !world.asked.release
                && world.root == Root::Gated =>
        {
            acts.extend([Act::WriteOpening, Act::Release]);
        }
        Mind::Gated => acts.push(Act::WriteOpening),
        Mind::Opening | Mind::Closing(_) => acts.push(Act::MakeDurable),
        Mind::Open if helper_is_lost => acts.push(Act::NeverReleased),
        Mind::Open => acts.push(Act::Release),
        Mind::Released { heard, cancel } => {
            if usize::from(heard) < world.said.len() {
                acts.push(Act::Hear);
            } else if helper_is_lost {
                acts.extend([
                    Act::LoseHelper { adopts: false },
                    Act::LoseHelper { adopts: true },
                ]);
            }
            match cancel {
                Cancel::No if state.left.cancels > 0 => acts.push(Act::RecordStop),
                Cancel::Recorded => acts.push(Act::TellStop),
                Cancel::No | Cancel::Told => {}
            }
        }
        Mind::Ended(_) => acts.push(Act::WriteClosing),
        Mind::LookedAtHelper(_) | Mind::Looked(_) | Mind::Concluding(_) => {}
    }
}

fn idle(state: &State, owner: &Owner, at: usize, mutation: Option<Mutation>, acts: &mut Vec<Act>) {
    if owner.poisoned {
        return;
    }
    let op = &state.ops[at];
    let is_new =
        op.row.is_none() || (mutation == Some(Mutation::RunsAgain) && op.world.effects < 2);
    if is_new && admits(state, owner, at, mutation) {
        acts.push(Act::Submit);
    }
    let Some(row) = &op.row else { return };
    let unclear = row
        .result
        .is_some_and(|result| result.outcome == Outcome::Indeterminate);
    if !unclear || row.adjudicated {
        return;
    }
    acts.push(Act::Adjudicate { stopped: false });
    let found = row.boot == state.boot
        && (op.world.helper.lives() || matches!(op.world.root, Root::Running { .. } | Root::Gated));
    if !found {
        acts.push(Act::Adjudicate { stopped: true });
    }
}

/// Whether the lease can be had, by the product's table: what this owner has found in the record, and has begun itself.
fn admits(state: &State, owner: &Owner, at: usize, mutation: Option<Mutation>) -> bool {
    let mut table = LeaseTable::new(DomainBudget::default());
    let lease = Claim::of_resources(&[LEASE.to_owned()]);
    for (other, op) in state.ops.iter().enumerate() {
        let name = other.to_string();
        let is_recorded = op.row.as_ref().is_some_and(|row| row.lease);
        if owner.minds[other] != Mind::Idle {
            table.restore(&name, &lease);
        } else if is_recorded && mutation != Some(Mutation::ForgetsLease) {
            table.restore(&name, &lease);
            table.keep(&name);
        }
    }
    table.try_take(&format!("new {at}"), &lease).is_ok()
}

/// Takes a step that is possible, all but making durable.
pub fn take(state: &mut State, owner: usize, at: usize, act: Act, mutation: Option<Mutation>) {
    let epoch = state.owners[owner].epoch;
    let mind = match act {
        Act::Submit => {
            submit(state, owner, at);
            Mind::Gated
        }
        Act::GiveUp => Mind::Idle,
        Act::WriteOpening => Mind::Opening,
        Act::Release if state.owners[owner].minds[at] == Mind::Gated => {
            state.ops[at].world.asked.release = true;
            Mind::Gated
        }
        Act::Release => {
            if state.ops[at].world.root == Root::Gated {
                state.ops[at].world.asked.release = true;
            }
            Mind::Released {
                heard: 0,
                cancel: Cancel::No,
            }
        }
        Act::NeverReleased => Mind::Ended(Ending {
            unspawned: true,
            ..ending(Outcome::Failed, None, epoch)
        }),
        Act::Hear => hear(state, owner, at),
        Act::LoseHelper { adopts } => lose_helper(state, owner, at, adopts),
        Act::RecordStop => return record_stop(state, owner, at, mutation),
        Act::TellStop => {
            state.ops[at].world.asked.stop = true;
            cancelling(state, owner, at, Cancel::Told)
        }
        Act::WriteClosing => match state.owners[owner].minds[at] {
            Mind::Ended(ending) => Mind::Closing(ending),
            other => other,
        },
        Act::Adjudicate { .. } => return adjudicate(state, owner, at, mutation),
        Act::MakeDurable => return make_durable(state, owner, at, mutation),
    };
    state.owners[owner].minds[at] = mind;
}

/// A newer owner's launch counts, since only that can be recorded; that of one that lost the domain stands at its gate until it
/// is refused.
fn submit(state: &mut State, owner: usize, at: usize) {
    let epoch = state.owners[owner].epoch;
    let others = state.owners.iter().filter(|other| other.epoch != epoch);
    let is_under_way = others
        .into_iter()
        .any(|other| other.minds[at] != Mind::Idle);
    let world = &mut state.ops[at].world;
    if epoch != state.epoch && is_under_way {
        world.ghost = true;
    } else {
        launch(world, epoch);
    }
}

/// A helper of this owner's, with the command at its gate. What there was of the same id before is over or goes on alone.
fn launch(world: &mut World, epoch: u8) {
    let word = match world.word {
        WordFile::Own(_) => WordFile::Foreign,
        other => other,
    };
    *world = World {
        helper: Helper::AtGate,
        peer: epoch,
        asked: Asked::default(),
        said: Vec::new(),
        root: Root::Gated,
        stray: world.stray,
        gate_opened: false,
        signalled: false,
        host_lost: false,
        effects: world.effects,
        word,
        ghost: world.ghost || world.helper.lives(),
    };
}

fn ending(outcome: Outcome, exit: Option<Exit>, by: u8) -> Ending {
    Ending {
        outcome,
        exit,
        unspawned: false,
        case: None,
        by,
    }
}

/// Takes everything that was said, by the product's rule on what may be said after what.
fn hear(state: &State, owner: usize, at: usize) -> Mind {
    let Owner { epoch, minds, .. } = &state.owners[owner];
    let world = &state.ops[at].world;
    let Mind::Released { cancel, .. } = minds[at] else {
        return minds[at];
    };
    let mut talk = Talk::begin();
    let mut exit = None;
    for reply in &world.said {
        if let Reply::Exited(how) = reply {
            exit = Some(*how);
        }
        let heard = talk
            .hear(message(*reply, exit, world))
            .expect("a true helper is understood");
        let made = match heard {
            Heard::NotExecuted => Ending {
                unspawned: true,
                ..ending(Outcome::Failed, None, *epoch)
            },
            Heard::Empty(end) => ending(
                outcome_of(end.exit, cause(&end, cancel)).0,
                end.exit,
                *epoch,
            ),
            Heard::Remains(end) => ending(outcome_of(end.exit, Cause::Remains).0, end.exit, *epoch),
            Heard::Nothing | Heard::Running | Heard::Exited => continue,
        };
        return Mind::Ended(made);
    }
    let heard = u8::try_from(world.said.len()).expect("a helper says little");
    Mind::Released { heard, cancel }
}

/// As in live work: a wish that no signal followed came too late to be the cause.
fn cause(end: &TreeEnd, cancel: Cancel) -> Cause {
    match (cancel, end.last_signal) {
        (Cancel::Told, Some(_)) => Cause::Stop(TerminationReason::UserCancelled),
        _ => Cause::ByItself,
    }
}

fn message(reply: Reply, exit: Option<Exit>, world: &World) -> Message {
    let end = TreeEnd {
        exit,
        survivors: Vec::new(),
        survivors_total: 0,
        usage: Usage::default(),
        last_signal: world.signalled.then_some(15),
        group_empty: None,
    };
    match reply {
        Reply::Running => Message::Running,
        Reply::LaunchFailed => Message::LaunchFailed(LaunchFailure {
            stage: Stage::Exec,
            errno: 2,
            subject: Vec::new().into(),
        }),
        Reply::Exited(exit) => Message::RootExited { exit },
        Reply::Empty => Message::TreeEmpty(end),
        Reply::Remains => Message::TreeRemains(end),
    }
}

/// The command is killed through its descriptor. The rest comes to this process if it adopts orphans; else nothing can
/// be said of it.
fn lose_helper(state: &mut State, owner: usize, at: usize, adopts: bool) -> Mind {
    let epoch = state.owners[owner].epoch;
    let world = &mut state.ops[at].world;
    let exit = world.said.iter().find_map(|reply| match reply {
        Reply::Exited(exit) => Some(*exit),
        _ => None,
    });
    if matches!(world.root, Root::Running { .. }) {
        world.root = Root::Ended {
            exit: KILLED,
            seen: false,
        };
    }
    if !adopts {
        return Mind::Ended(ending(Outcome::Indeterminate, exit, epoch));
    }
    if world.stray == Stray::Alive {
        world.stray = Stray::Gone;
    }
    Mind::Ended(ending(outcome_of(exit, Cause::HelperLost).0, exit, epoch))
}

fn record_stop(state: &mut State, owner: usize, at: usize, mutation: Option<Mutation>) {
    state.left.cancels -= 1;
    if may_write(state, owner, mutation)
        && let Some(row) = &mut state.ops[at].row
    {
        row.stop = Some(TerminationReason::UserCancelled);
    }
    // Recorded or not, the command is stopped.
    let mind = cancelling(state, owner, at, Cancel::Recorded);
    state.owners[owner].minds[at] = mind;
}

fn cancelling(state: &State, owner: usize, at: usize, cancel: Cancel) -> Mind {
    match state.owners[owner].minds[at] {
        Mind::Released { heard, .. } => Mind::Released { heard, cancel },
        other => other,
    }
}

fn adjudicate(state: &mut State, owner: usize, at: usize, mutation: Option<Mutation>) {
    if may_write(state, owner, mutation)
        && let Some(row) = &mut state.ops[at].row
    {
        row.adjudicated = true;
        row.lease = false;
    }
}

/// Whether a commit of this owner is taken: its epoch is compared inside of the transaction. One that is refused has
/// poisoned its owner.
pub fn may_write(state: &mut State, owner: usize, mutation: Option<Mutation>) -> bool {
    let is_newest = state.owners[owner].epoch == state.epoch;
    if is_newest || matches!(mutation, Some(Mutation::NoFence | Mutation::SecondResult)) {
        state.stale_write |= !is_newest;
        return true;
    }
    state.fenced = true;
    state.owners[owner].poisoned = true;
    false
}

fn make_durable(state: &mut State, owner: usize, at: usize, mutation: Option<Mutation>) {
    let mind = state.owners[owner].minds[at];
    let epoch = state.owners[owner].epoch;
    if !may_write(state, owner, mutation) {
        // The helper is left alone with what it holds, and does then what it does.
        state.owners[owner].minds[at] = Mind::Idle;
        if state.ops[at].world.peer == epoch {
            state.ops[at].world.peer = 0;
        }
        return;
    }
    let boot = state.boot;
    let op = &mut state.ops[at];
    let next = match mind {
        Mind::Opening => {
            op.row = Some(opened(epoch, boot, mutation));
            Mind::Open
        }
        Mind::Closing(ending) => {
            if let Some(row) = &mut op.row {
                close(row, ending, run_of(ending.outcome), mutation);
            }
            if op.world.peer == epoch {
                op.world.asked.recorded = true;
            }
            Mind::Idle
        }
        other => other,
    };
    state.owners[owner].minds[at] = next;
}

fn opened(epoch: u8, boot: u8, mutation: Option<Mutation>) -> Row {
    Row {
        identity: mutation != Some(Mutation::NoIdentity),
        epoch,
        boot,
        lease: mutation != Some(Mutation::NoLease),
        stop: None,
        done: false,
        result: None,
        results: 0,
        adjudicated: false,
        run: RunStatus::Running,
    }
}

/// Records a result once; the lease goes with it unless the end is not proven.
pub fn close(row: &mut Row, ending: Ending, run: RunStatus, mutation: Option<Mutation>) {
    if row.done && mutation != Some(Mutation::SecondResult) {
        return;
    }
    row.done = true;
    row.results += 1;
    row.result = (mutation != Some(Mutation::NoResult)).then_some(ending);
    row.run = run;
    row.lease = ending.outcome == Outcome::Indeterminate && mutation != Some(Mutation::FreesAlways);
}

/// What an operation that ends does to a Run of its own.
fn run_of(outcome: Outcome) -> RunStatus {
    match outcome {
        Outcome::Succeeded => RunStatus::Succeeded,
        Outcome::Failed => RunStatus::Failed,
        Outcome::Cancelled => RunStatus::Cancelled,
        Outcome::Indeterminate => RunStatus::Indeterminate,
    }
}
