//! Sees to what an operation may use, and to what it has used: `plan` finds the means before anything runs,
//! `watch` is in the loop of a running operation, `sample` looks where nothing counts, `verdict` is the
//! rule.

mod plan;
mod sample;
mod verdict;
mod watch;

pub(super) use plan::admissible;
pub(super) use watch::{Tree, Used, Watch};
