//! The crash matrix: everything is killed everywhere, and what is then said must be true.
//!
//! A scenario is played undisturbed once, which lists the points that are passed in it (`xioflow-killpoint`),
//! and then once for each point and each way to die there. After that a fresh process opens the domain, and
//! everything that was promised is looked at: the invariants of `invariants`, by what `picture` finds. Then
//! everything is submitted again, and nothing may happen twice.
//!
//! The program is its own cast: the runner (`runner`) starts itself for each case (`case`), and a case starts
//! it for each process of the scenario (`roles`). `lies` shows that each promise can be found broken.
//! `docs/testing.md` says how it is run.
//!
//! Whatever fails here panics, because these are tests.

#![forbid(unsafe_code)]

mod case;
mod folder;
mod invariants;
mod lies;
mod picture;
mod point;
mod roles;
mod runner;
mod scenario;
mod traced;
mod work;

use std::process::ExitCode;

/// Does what the arguments of this process say.
#[must_use]
pub fn run() -> ExitCode {
    traced::stand_in_if_asked();
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((word, rest)) if word == roles::ROLE => {
            roles::play(rest);
            ExitCode::SUCCESS
        }
        Some((word, rest)) if word == runner::CASE => runner::case(rest),
        _ => runner::run(&words),
    }
}
