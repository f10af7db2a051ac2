//! Sees to what an operation may use: `plan` says by which means, before anything runs.

mod plan;

pub(super) use plan::admissible;
