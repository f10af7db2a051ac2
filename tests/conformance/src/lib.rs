//! What xioflow promises, as numbered contracts, each written once and run against every way of
//! using it.
//!
//! A [`Way`] is how somebody comes to have commands run: through the library, through the command
//! line. It opens [`Client`]s on a domain, and a [`Contract`] drives these and judges by documents
//! and events, never by the way's own words. What a way cannot do is [`Unsupported`], with the
//! reason, and never passed.
//!
//! A host that has its own way to the kernel implements [`Way`] and calls [`run_suite`] from the
//! `main` of a test without a harness:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use xioflow_conformance::{Way, run_suite, ways};
//!
//! fn main() -> ExitCode {
//!     let ways: [&dyn Way; 1] = [&ways::CommandLine::SHARED];
//!     run_suite(&ways)
//! }
//! ```
//!
//! Each case is a process of its own, with a stage of its own from the kit: a case that panics,
//! hangs or leaves processes behind fails by name and disturbs no other. `docs/conformance.md`
//! lists the contracts and says how an installation is tested.
//!
//! Contracts panic where an assertion fails, because they are tests.

#![forbid(unsafe_code)]

mod contract;
mod contracts;
mod document;
mod pulse;
mod runner;
pub mod ways;
mod work;
mod world;

pub use contract::{Contract, Level, Outcome, Unsupported};
pub use contracts::all as contracts;
pub use document::Document;
pub use runner::run_suite;
pub use ways::{
    Client, Ended, Event, HostRun, Lease, Record, Refusal, RefusalKind, Submitted, Terms, Way,
};
pub use work::{Input, Limit, Work};
pub use world::World;
