//! Confinement drivers and what this host can offer.
//!
//! Confinement limits what a command may *write*, so that a claim about a rollback is true. It is
//! not a security boundary. Beside Landlock, which needs no program, it can be had from:
//!
//! | driver | where | probe |
//! | --- | --- | --- |
//! | bubblewrap | Linux | [`bubblewrap`] starts it and tries to write outside |
//! | sandbox-exec | macOS | `sandbox_exec` does the same |
//! | srt | any | [`srt`] looks for it, and for the Node.js it needs |
//!
//! A probe does the smallest real thing and looks at what became of it in the file system. Another
//! program's words are shown, never read. Each start has a time limit. Nothing is left behind.
//!
//! Neighbours: `xioflow-landlock` is the driver without a program; the kernel crate chooses.
//! Tests put programs of their own in place of the drivers, so they need none installed.

#![forbid(unsafe_code)]

mod bounded;
mod bubblewrap;
mod driver;
mod program;
#[cfg(target_os = "macos")]
mod sandbox_exec;
mod srt;
#[cfg(test)]
mod testing;
mod user_namespaces;
mod write_trial;

pub use bounded::{BoundedError, Finished, run_bounded, wait_bounded};
pub use bubblewrap::bubblewrap;
pub use driver::{DriverState, Failure, Loss};
pub use program::{find_program, install_command, one_line};
#[cfg(target_os = "macos")]
pub use sandbox_exec::sandbox_exec;
pub use srt::{Srt, srt};
pub use user_namespaces::UserNamespaces;
