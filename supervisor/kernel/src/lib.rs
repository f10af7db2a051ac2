//! The supervised execution kernel.
//!
//! A [`Domain`] is a folder with a durable record and exactly one owner at a time. In it, each
//! command is an operation: its intent and the identity of its process are committed while the
//! process still waits at a gate, its whole tree is held by a helper of its own, and its result
//! is committed once, with what was observed and nothing else.
//!
//! ```no_run
//! use std::time::Duration;
//! use xioflow_kernel::{Command, Domain};
//!
//! let domain = Domain::open(".xioflow")?;
//! let result = domain
//!     .operation(Command::new("cargo").args(["test"]).inherit_env())?
//!     .id("tests-of-commit-1f3a")
//!     .timeout(Duration::from_secs(600))
//!     .lease("workspace:write:.")
//!     .run()?;
//! println!("{}: exit {:?}, tree {:?}", result.status, result.exit_code, result.tree_settlement);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same id again returns the recorded result and runs nothing.
//!
//! What this library does not do: it never waits for children that it did not start (unless its
//! host asked it to adopt orphans, [`DomainOptions::adopt_orphans`]), sets no signal handler, and
//! reads nothing of the terminal. Everything it knows of processes it asks
//! `xioflow-facts`; it has no path in `/proc` of its own.

#![forbid(unsafe_code)]

mod admission;
mod clock;
mod command;
mod control;
mod deadline;
mod domain;
mod error;
mod fingerprint;
mod flight;
mod helper;
mod leases;
mod names;
mod observe;
mod operation;
mod output;
mod plain_file;
mod recovery;
mod result;
mod run;
mod sanitise;
mod stdin;
mod stop;

pub use command::{Command, InvalidCommand};
pub use domain::{Domain, DomainOptions};
pub use error::{
    DomainError, ExecuteError, NotActive, OPERATION_ID_MAX_BYTES, RunError, TIMEOUT_MAX,
};
pub use flight::InFlight;
pub use helper::{
    HELPER_PROGRAM, HELPER_VARIABLE, HelperLost, HelperPatience, LinkError, LocateError,
    find_helper,
};
pub use names::{errno_name, errno_text, signal_name, signal_number};
pub use operation::{
    Canceller, DEFAULT_DRAIN_TIMEOUT, DEFAULT_MAX_OUTPUT_BYTES, DescendantPolicy, OperationBuilder,
    OperationHandle, StoredError, stored_result,
};
pub use output::{
    ArtifactBytes, DEFAULT_MAX_ARTIFACT_BYTES, DEFAULT_MAX_STORED_BYTES, Extent, OutputError,
    OutputReader, Piece, Subscription, artifact_name,
};
pub use recovery::{Decision, Verdict};
pub use result::{
    Evidence, OperationResult, PipeHolder, ProcessIdentity, Reuse, Scope, SpawnFailure, StopRecord,
    SurvivorRecord, TreeSettlement,
};
pub use run::{RunHandle, TaskHandle};
pub use stdin::{Stdin, StdinWriter};
pub use stop::{DEFAULT_CANCEL_GRACE, DEFAULT_TIMEOUT_GRACE, StopManner};

pub use xioflow_journal as journal;
