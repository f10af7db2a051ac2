//! Every interleaving of launch, crash, recovery and stop of one or two operations, within bounds.
//!
//! The state ([`state`]) is what is durable, what lives, and what each owner has in memory. What follows from what is found is
//! decided by the product's own rules, called here as they are: recovery's table and the end of Runs (`recovery`), the lease
//! table, what a helper may say after what, and what an exit means (`owner`). Of the model's own is how the world moves
//! (`world`), what can go wrong (`fault`), and that a commit compares the epoch. [`properties`] says what must hold of every state;
//! a [`Mutation`] is a fault on purpose, by which tests show that the properties can fail.

#![forbid(unsafe_code)]

pub mod fault;
pub mod mutation;
pub mod owner;
pub mod properties;
pub mod recovery;
pub mod state;
pub mod world;

use stateright::{Model, Property};

pub use fault::Fault;
pub use mutation::Mutation;
pub use state::{Budget, State};

/// A domain with some operations, and what may go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Domain {
    /// How many operations are submitted, 1 or 2. Both want the same lease.
    pub operations: usize,
    /// What may go wrong.
    pub budget: Budget,
    /// What is wrong on purpose.
    pub mutation: Option<Mutation>,
}

/// What moves a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Something goes wrong, or an owner comes.
    Fault(Fault),
    /// Helper or command of an operation do something.
    World(usize, world::Step),
    /// The owner in this place recovers.
    Recover(usize, usize, recovery::Act),
    /// It has recovered, and serves.
    Serve(usize),
    /// The owner in this place goes on with an operation.
    Own(usize, usize, owner::Act),
}

impl Model for Domain {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::begin(self.operations, self.budget)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let (mut faults, mut steps, mut recovers, mut acts) = (vec![], vec![], vec![], vec![]);
        fault::possible(state, &mut faults);
        actions.extend(faults.into_iter().map(Action::Fault));
        for at in 0..state.ops.len() {
            world::possible(state, at, &mut steps);
            actions.extend(steps.drain(..).map(|step| Action::World(at, step)));
        }
        for (place, owner) in state.owners.iter().enumerate() {
            if !owner.serving && !owner.poisoned && recovery::is_over(state) {
                actions.push(Action::Serve(place));
            }
            for at in 0..state.ops.len() {
                if owner.serving {
                    owner::possible(state, owner, at, self.mutation, &mut acts);
                } else if !owner.poisoned {
                    recovery::possible(state, owner, at, self.mutation, &mut recovers);
                }
                actions.extend(acts.drain(..).map(|act| Action::Own(place, at, act)));
                actions.extend(
                    recovers
                        .drain(..)
                        .map(|act| Action::Recover(place, at, act)),
                );
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Fault(fault) => fault::happen(&mut state, fault),
            Action::World(at, step) => world::take(&mut state, at, step, self.mutation),
            Action::Recover(place, at, act) => {
                recovery::take(&mut state, place, at, act, self.mutation)
            }
            Action::Serve(place) => recovery::serve(&mut state, place),
            Action::Own(place, at, act) => owner::take(&mut state, place, at, act, self.mutation),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Domain {
    /// Whether nothing more can happen but what goes wrong: what must come to pass has done so by now.
    #[must_use]
    pub fn is_at_rest(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        actions.iter().all(|action| match action {
            Action::Fault(fault) => *fault != Fault::OwnerComes,
            // Nobody has to say anything, and a stranger may live for ever.
            Action::Own(_, _, owner::Act::Adjudicate { .. } | owner::Act::RecordStop)
            | Action::World(_, world::Step::StrayEnds) => true,
            Action::World(..) | Action::Recover(..) | Action::Serve(_) | Action::Own(..) => false,
        })
    }
}
