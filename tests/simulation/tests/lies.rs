//! A world that lies is one in which a promise is broken: checks that never speak would be of no use.
//!
//! In a process of its own: the hook that keeps thousands of wanted panics quiet is the process's.

use std::panic::{set_hook, take_hook};

use xioflow_simulation::{Lie, finding, script_of};

/// Scripts within which each lie has to be found, by the promise that it breaks.
const ROUNDS: u64 = 3000;

fn is_found(lie: Lie) -> bool {
    let tells = |number| {
        let told = finding(&script_of(number), Some(lie)).unwrap_or_default();
        let first = told.lines().next().unwrap_or_default();
        lie.breaks().iter().any(|promise| first.contains(promise))
    };
    (0..ROUNDS).any(tells)
}

#[test]
fn every_lie_is_found_out() {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let missed: Vec<Lie> = Lie::ALL.into_iter().filter(|&lie| !is_found(lie)).collect();
    set_hook(hook);
    assert_eq!(missed, [], "these lies break nothing that is checked");
}
