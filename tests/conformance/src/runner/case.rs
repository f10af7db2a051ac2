//! The process of one case: a stage, a way, a contract, and an exit status that says what came of it.

use std::process::ExitCode;

use rustix::process::{Signal, set_parent_process_death_signal};
use xioflow_kit::Stage;

use super::report;
use crate::contracts;
use crate::ways::Way;
use crate::world::World;

/// The exit status of a case that is unsupported, as in Automake's test protocol; the reason is on
/// standard output. A case that fails panics.
pub(super) const UNSUPPORTED: u8 = 77;

/// Runs the case.
pub(super) fn run(ways: &[&dyn Way], number: u32, way: &str) -> ExitCode {
    // A runner that is killed must not leave a case behind.
    set_parent_process_death_signal(Some(Signal::KILL)).expect("nothing refuses that");
    let contract = contracts().into_iter().find(|one| one.number == number);
    let contract = contract.unwrap_or_else(|| panic!("no contract {number}"));
    let way = ways.iter().find(|one| one.name() == way);
    let stage = Stage::new();
    let outcome = (contract.check)(&World::new(&stage, *way.expect("a known way")));
    // What is left behind fails the case, too.
    drop(stage);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(unsupported) => {
            report::print(&format!("{unsupported}\n"));
            ExitCode::from(UNSUPPORTED)
        }
    }
}
