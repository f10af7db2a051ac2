//! What every test stands on.
//!
//! A [`Stage`] is one test's world: a private folder with a home, a domain and the project's
//! programs, a cleared environment, and a check at its end that nothing it caused is left. A
//! [`Run`] is one command in it, with a deadline and a report for a person when it goes wrong.
//! A [`Holder`] is the real helper at the other end of a socket, for tests that speak frames.
//! For runners, which execute each case in a process of its own, a [`Place`] has the programs for each user, and
//! [`orphans`] names what cases leave.
//! A [`Delegated`] place is a control group of the test's own, in which xioflow makes groups.
//! [`Chance`] chooses from a seed that is printed; [`strace`] says whether there is one.
//!
//! ```no_run
//! let stage = xioflow_kit::Stage::new();
//! let run = stage.xioflow().args(["run", "--", "true"]).finish();
//! run.assert_code(0);
//! ```
//!
//! Nothing here sleeps: [`wait`] uses pidfds and inotify, each wait with a [`Deadline`]. The kit
//! knows the protocol and nothing else of the project, so it cannot share its mistakes. It
//! panics where a library would return an error, because its callers are tests.

#![forbid(unsafe_code)]

mod chance;
pub mod delegated;
mod holder;
mod leftovers;
pub mod namespace;
pub mod orphans;
mod place;
mod run;
mod stage;
pub mod strace;
mod terminal;
pub mod wait;

pub use chance::Chance;
pub use delegated::Delegated;
pub use holder::{Holder, Order, Received};
pub use place::Place;
pub use run::{Finished, Run, Started};
pub use stage::{
    BIN_DIR_VARIABLE, PROGRAMS, Stage, bin_dir, each_user, fixture_pids, running_as_root,
};
pub use terminal::Terminal;
pub use wait::Deadline;
