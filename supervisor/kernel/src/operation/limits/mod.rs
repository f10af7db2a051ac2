//! Sees to what an operation may use, and to what it has used: `plan` finds the means before anything runs, `place` asks
//! the host for them,
//! `watch` is in the loop of a running operation, `counted` is what its control group says, `sample` looks at its
//! processes where nothing counts, `verdict` and `cpu` are the rules, `used` is what comes of it.

mod counted;
mod cpu;
mod place;
mod plan;
mod sample;
mod used;
mod verdict;
mod watch;

pub(super) use place::{Placed, admissible, make_group};
pub(super) use used::Used;
pub(super) use watch::{Tree, Watch};
