//! The person who settles what cannot be proven: ends what is left of an operation, and says so.

use std::time::Duration;

use rustix::process::Signal;
use xioflow_kernel::journal::{Operation, OperationFilter, Outcome, Query};

use crate::ground::Ground;
use crate::victims;
use crate::worker::no_panic;

/// How long it looks away between two rounds.
const QUIET: Duration = Duration::from_millis(1500);
/// Exit status of what was refused because something lives or nobody can tell.
const NOT_PROVEN: i32 = 79;

/// Settles until the work is over; says how many.
pub(crate) fn settle_meanwhile(ground: &Ground<'_>) -> u32 {
    let mut settled = 0;
    while !ground.is_over() {
        ground.pause(QUIET);
        settled += settle(ground);
    }
    settled
}

/// Settles what is left when nobody works any more; says how many.
///
/// The first owner after the last one has to recover before anybody can settle.
pub(crate) fn settle_at_the_end(ground: &Ground<'_>) -> u32 {
    ground.stage.end_arbiters();
    let recovered = ground.xioflow().arg("recover").finish();
    no_panic(&recovered);
    let settled = settle(ground);
    ground.stage.end_arbiters();
    settled
}

fn settle(ground: &Ground<'_>) -> u32 {
    let waiting = waiting(ground);
    let settled = waiting.iter().filter(|it| settle_one(ground, it)).count();
    u32::try_from(settled).expect("not so many")
}

/// The operations that wait for a person.
pub(crate) fn waiting(ground: &Ground<'_>) -> Vec<Operation> {
    let everything = OperationFilter::default();
    let record = ground.record();
    let operations = record.and_then(|record| record.operations(&everything).ok());
    let is_waiting =
        |it: &Operation| it.outcome == Some(Outcome::Indeterminate) && it.adjudication.is_none();
    operations
        .into_iter()
        .flatten()
        .filter(is_waiting)
        .collect()
}

/// Ends what is left of it where anything is, and says that it has stopped; false where that was not
/// possible at this moment.
fn settle_one(ground: &Ground<'_>, operation: &Operation) -> bool {
    let explained = operation.result.as_ref().map(|it| &it["reason"]);
    assert!(
        explained.is_some_and(|it| it.as_str().is_some_and(|it| !it.is_empty())),
        "it does not say why: {operation:?}"
    );
    let adjudicate = || {
        let says = [
            "adjudicate",
            &operation.id,
            "confirmed_stopped",
            "--actor",
            "soak",
        ];
        let finished = ground.xioflow().args(says).finish();
        no_panic(&finished);
        finished.status.code()
    };
    if adjudicate() == Some(NOT_PROVEN)
        && let Some(leader) = victims::leader(operation)
    {
        for victim in victims::session(ground, leader) {
            victim.signal(Signal::KILL);
        }
        return adjudicate() == Some(0);
    }
    true
}
