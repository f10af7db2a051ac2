//! Hostile and unlucky trees under the real helper: none escapes, none is missed in the count, nobody else is
//! signalled.
//!
//! `held` launches one and judges its end, `leaf` is a second witness that knows nothing of parents and groups. The
//! shapes are made by the fixture (`tests/fixture/src/shapes`).

mod commanded;
mod held;
mod killed;
mod large;
mod leaf;
mod reuse;
mod rounds;
mod shapes;
mod signalled;
mod strangers;
mod stuck;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A number from the environment, for runs beyond what a suite has time for.
fn number(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: {text} is no number")),
        Err(_) => usual,
    }
}

/// One at a time: trees that take all the processors there are would only make each other slow.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
