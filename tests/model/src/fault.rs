//! What can go wrong, each as often as the budget allows; and the owner that comes after it.

use crate::state::{Mind, Owner, State};
use crate::world;

/// Owners at one time at most: the one with the domain, and one that does not know that it lost it.
const OWNERS_MAX: usize = 2;

/// Something that goes wrong, or somebody who comes after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A process takes the lock and the next epoch.
    OwnerComes,
    /// The owner in this place is killed.
    OwnerDies(usize),
    /// The helper of this operation is killed. Right after or before the owner, this is both at once.
    HelperDies(usize),
    /// The power fails: no process is left, and another boot follows.
    PowerFails,
    /// The owner loses its lock without noticing.
    LockIsLost,
}

/// What can go wrong now.
pub fn possible(state: &State, faults: &mut Vec<Fault>) {
    if !state.locked && state.owners.len() < OWNERS_MAX {
        faults.push(Fault::OwnerComes);
    }
    if state.left.crashes > 0 {
        faults.extend((0..state.owners.len()).map(Fault::OwnerDies));
    }
    if state.left.losses > 0 {
        let living = (0..state.ops.len()).filter(|at| state.ops[*at].world.helper.lives());
        faults.extend(living.map(Fault::HelperDies));
    }
    if state.left.power > 0 && state.epoch > 0 {
        faults.push(Fault::PowerFails);
    }
    if state.left.locks > 0 && state.locked {
        faults.push(Fault::LockIsLost);
    }
}

/// Lets something happen that is possible.
pub fn happen(state: &mut State, fault: Fault) {
    match fault {
        Fault::OwnerComes => {
            state.epoch += 1;
            state.locked = true;
            state.owners.push(Owner {
                epoch: state.epoch,
                poisoned: false,
                serving: false,
                minds: vec![Mind::Idle; state.ops.len()],
            });
        }
        Fault::OwnerDies(place) => {
            state.left.crashes -= 1;
            // The lock is the newest owner's, if it is anybody's.
            if state.owners.remove(place).epoch == state.epoch {
                state.locked = false;
            }
        }
        Fault::HelperDies(at) => {
            state.left.losses -= 1;
            world::kill_helper(&mut state.ops[at].world);
        }
        Fault::PowerFails => {
            state.left.power -= 1;
            state.owners.clear();
            state.locked = false;
            state.boot += 1;
            for op in &mut state.ops {
                world::power_fails(&mut op.world);
            }
        }
        Fault::LockIsLost => {
            state.left.locks -= 1;
            state.locked = false;
        }
    }
}
