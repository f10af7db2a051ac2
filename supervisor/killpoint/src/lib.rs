//! Named moments at which a test kills a supervisor, its helper, or both.
//!
//! Whoever adds a durable step adds a point before and after it. Without the feature `armed` nothing
//! of this is in a program: the name of a point is made in a closure that nobody calls, so not even
//! its text is compiled. `cargo xtask tidy` sees to it that nothing that is shipped is armed.
//!
//! ```
//! let stream = "stdout";
//! xioflow_killpoint::pass(|| format!("spool:{stream}:before-sync"));
//! xioflow_killpoint::pass(|| "claim:after-commit");
//! ```
//!
//! # An armed program
//!
//! It is steered by its environment:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `XIOFLOW_TEST_KILL_AT` | `<label>#<n>`: the n-th time that this point is passed, from 1 |
//! | `XIOFLOW_TEST_KILL_WHOM` | `owner` (this process; the default), `helper`, `both` (the helper first) or `owner-first` |
//! | `XIOFLOW_TEST_KILL_TRACE` | a file; each point that is passed is appended to it |
//!
//! A line of the trace is `<label>#<n>` and, behind a space, the id of the helper that holds an
//! operation at that moment, or `-`. The line is there before anybody is killed. With `owner-first` the
//! helper is stopped and this process ends; whoever reads the trace then kills the helper, which has
//! noticed nothing.

#![forbid(unsafe_code)]

#[cfg(feature = "armed")]
mod armed;
#[cfg(not(feature = "armed"))]
mod inert;

#[cfg(feature = "armed")]
pub use armed::{hold, let_go, pass};
#[cfg(not(feature = "armed"))]
pub use inert::{hold, let_go, pass};

/// What every variable begins with that an armed program reads. No other program contains it.
pub const VARIABLE_PREFIX: &str = "XIOFLOW_TEST_KILL_";
