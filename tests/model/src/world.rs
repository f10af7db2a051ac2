//! What helpers and commands do by themselves, one step at a time. Nothing here is a rule of the product: it is what the
//! product has to cope with.

use xioflow_kernel::rules::{Fate, Said};
use xioflow_protocol::Exit;

use crate::mutation::Mutation;
use crate::state::{Helper, Reply, Root, State, Stray, WordFile, World};

/// A clean exit.
pub const OK: Exit = Exit::Exited { code: 0 };
/// An exit that is none.
pub const FAILED: Exit = Exit::Exited { code: 1 };
/// The end by a signal of the ladder, or of whoever kills.
pub const KILLED: Exit = Exit::Signaled {
    signal: 9,
    core: false,
};

/// A step of helper or command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The helper opens the gate, and the program is executed.
    OpenGate,
    /// It opens the gate, and the program cannot be executed.
    ExecFails,
    /// The command has its effect.
    Act,
    /// The command leaves a process behind in a session of its own.
    LeaveStray,
    /// That process ends by itself.
    StrayEnds,
    /// The command ends by itself.
    Exit(Exit),
    /// The helper reads that it shall end the tree.
    HearStop,
    /// It sees that its supervisor is gone.
    HearLoss,
    /// It begins to end what the command has left behind.
    StopSurvivors,
    /// Its ladder, or its wait, is over: the tree is empty, or it is not.
    Finish {
        /// Whether it is.
        empty: bool,
    },
    /// It writes its last word and goes.
    WriteWord,
    /// It cannot write it, and goes.
    LoseWord,
    /// It reads that its account is recorded, and goes.
    Leave,
    /// An earlier helper of the same id writes its last word.
    GhostWrites,
}

/// The steps that are possible for one operation.
pub fn possible(state: &State, at: usize, steps: &mut Vec<Step>) {
    let world = &state.ops[at].world;
    command_steps(state, world, steps);
    let peer_lives = state.owner_lives(world.peer);
    let ended = !matches!(world.root, Root::Running { .. } | Root::Gated);
    match world.helper {
        Helper::None | Helper::Left | Helper::Killed => {}
        Helper::AtGate if world.asked.release => steps.extend([Step::OpenGate, Step::ExecFails]),
        Helper::AtGate if peer_lives => {}
        Helper::AtGate => steps.push(Step::HearLoss),
        Helper::Holding => {
            if world.asked.stop {
                steps.push(Step::HearStop);
            }
            if !peer_lives {
                steps.push(Step::HearLoss);
            }
            match (ended, world.stray) {
                (true, Stray::Alive) => steps.push(Step::StopSurvivors),
                (true, _) => steps.push(Step::Finish { empty: true }),
                (false, _) => {}
            }
        }
        Helper::Stopping => {
            steps.push(Step::Finish { empty: true });
            if world.stray == Stray::Alive {
                steps.push(Step::Finish { empty: false });
            }
        }
        Helper::Over(_) => {
            if world.asked.recorded {
                steps.push(Step::Leave);
            }
            if !peer_lives {
                steps.push(Step::WriteWord);
                if state.left.losses > 0 {
                    steps.push(Step::LoseWord);
                }
            }
        }
    }
    if world.ghost {
        steps.push(Step::GhostWrites);
    }
}

fn command_steps(state: &State, world: &World, steps: &mut Vec<Step>) {
    if let Root::Running { acted } = world.root {
        // Who exits with 0 has done what it was for.
        steps.push(if acted { Step::Exit(OK) } else { Step::Act });
        steps.push(Step::Exit(FAILED));
        if world.stray == Stray::None && state.left.strays > 0 {
            steps.push(Step::LeaveStray);
        }
    }
    if world.stray == Stray::Alive {
        steps.push(Step::StrayEnds);
    }
}

/// Takes a step that is possible.
pub fn take(state: &mut State, at: usize, step: Step, mutation: Option<Mutation>) {
    match step {
        Step::LeaveStray => state.left.strays -= 1,
        Step::LoseWord => state.left.losses -= 1,
        _ => {}
    }
    let world = &mut state.ops[at].world;
    match step {
        Step::OpenGate => {
            world.asked.release = false;
            world.gate_opened = true;
            world.root = Root::Running { acted: false };
            world.helper = Helper::Holding;
            world.said.push(Reply::Running);
        }
        Step::ExecFails => {
            world.asked.release = false;
            world.root = Root::NeverRan;
            world.said.push(Reply::LaunchFailed);
            world.helper = Helper::Over(Said {
                fate: Fate::NotExecuted,
                empty: true,
            });
        }
        Step::Act => {
            world.root = Root::Running { acted: true };
            world.effects += 1;
        }
        Step::LeaveStray => world.stray = Stray::Alive,
        Step::StrayEnds => world.stray = Stray::Gone,
        Step::Exit(exit) => end_root(world, exit),
        Step::HearStop | Step::StopSurvivors => {
            world.asked.stop = false;
            stop(world);
        }
        Step::HearLoss => hear_loss(world),
        Step::Finish { empty } => finish(world, empty, mutation),
        Step::WriteWord => {
            if let Helper::Over(said) = world.helper {
                world.word = WordFile::Own(said);
            }
            world.helper = Helper::Left;
        }
        Step::LoseWord | Step::Leave => world.helper = Helper::Left,
        Step::GhostWrites => {
            world.ghost = false;
            world.word = WordFile::Foreign;
        }
    }
}

fn end_root(world: &mut World, exit: Exit) {
    let seen = world.helper.lives();
    world.root = Root::Ended { exit, seen };
    if seen {
        world.said.push(Reply::Exited(exit));
    }
}

fn stop(world: &mut World) {
    world.signalled = true;
    world.helper = Helper::Stopping;
}

fn hear_loss(world: &mut World) {
    if world.helper == Helper::AtGate {
        world.root = Root::NeverRan;
        world.helper = Helper::Over(Said {
            fate: Fate::NeverRan,
            empty: true,
        });
    } else {
        world.host_lost = true;
        stop(world);
    }
}

fn finish(world: &mut World, empty: bool, mutation: Option<Mutation>) {
    if matches!(world.root, Root::Running { .. }) {
        end_root(world, KILLED);
    }
    if empty && world.stray == Stray::Alive && mutation != Some(Mutation::HelperLies) {
        world.stray = Stray::Gone;
    }
    let exit = match world.root {
        Root::Ended { exit, seen: true } => Some(exit),
        _ => None,
    };
    world
        .said
        .push(if empty { Reply::Empty } else { Reply::Remains });
    let fate = Fate::Ran {
        exit,
        stopped: world.host_lost,
        signalled: world.signalled,
    };
    world.helper = Helper::Over(Said { fate, empty });
}

/// The helper is killed; what stands at its gate ends with it, and the rest goes on.
pub fn kill_helper(world: &mut World) {
    world.helper = Helper::Killed;
    if world.root == Root::Gated {
        world.root = Root::NeverRan;
    }
}

/// The power fails: no process is left.
pub fn power_fails(world: &mut World) {
    if world.helper.lives() {
        kill_helper(world);
    }
    if matches!(world.root, Root::Running { .. }) {
        world.root = Root::Ended {
            exit: KILLED,
            seen: false,
        };
    }
    if world.stray == Stray::Alive {
        world.stray = Stray::Gone;
    }
    world.asked = crate::state::Asked::default();
    world.ghost = false;
}
