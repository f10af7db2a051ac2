//! The supervisor with helpers that lie, flood, fall silent or die, at each step of an operation.
//!
//! `world` is what each test has: a domain whose helper follows a script, and the count of what the
//! process has before and after. `before` is about helpers that fail while nothing has run, `after`
//! about those that fail once the gate is open, `silence` about those that say nothing, `flood`
//! about those that say too much, `killed` and `stopped` about the true helper.

mod after;
mod before;
mod flood;
mod killed;
mod silence;
mod stopped;
mod world;
