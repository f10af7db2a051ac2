//! The supervised execution kernel.
//!
//! A [`Domain`] is a folder with a durable record and exactly one owner at a time. In it, each
//! command is an operation: its intent and the identity of its process are committed while the
//! process still waits at a gate, its whole tree is held by a helper of its own, and its result
//! is committed once, with what was observed and nothing else.
//!
//! ```
//! use std::time::Duration;
//! use xioflow_kernel::{Command, DomainOptions, TreeSettlement};
//!
//! # let stage = xioflow_kit::Stage::new();
//! # let (folder, helper) = (stage.domain(), stage.program("xioflow-reaper"));
//! let domain = DomainOptions::default().helper(helper).open(folder)?;
//! let result = domain
//!     .operation(Command::new("uname").arg("-s").inherit_env())?
//!     .id("kernel-name")
//!     .timeout(Duration::from_secs(600))
//!     .lease("workspace:write:.")
//!     .run()?;
//! println!("{}: exit {:?}", result.status, result.exit_code);
//! assert_eq!(result.tree_settlement, Some(TreeSettlement::Empty));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same id again returns the recorded result and runs nothing. [`Domain::open`] does the same
//! with the helper that stands beside the program.
//!
//! # The parts
//!
//! - A [`Command`] is what is to be run, exactly. There is no shell, and nothing is added.
//! - A [`Domain`] executes it as an operation, put together by an [`OperationBuilder`]: its id, its
//!   limits, its resources. [`OperationHandle`], [`Canceller`] and [`Subscription`] are its handles
//!   while it runs, [`Attachment`] is what somebody else has of it.
//! - A [`Caller`] is whoever asks for it, where that is not this process: what the command takes from its
//!   surroundings.
//! - An [`OperationResult`] is what was observed. It exists for every command that was let run, also
//!   for one that failed, timed out, was cancelled, or could not be started; an [`ExecuteError`] means
//!   that there is none.
//! - Operations belong to Runs, and Runs to Tasks. Most hosts need neither: an operation has a Run of its
//!   own unless its host opened one ([`Domain::begin_run`], [`Domain::begin_task`]).
//! - The record is read through [`journal`], beside a running owner as well.
//!
//! Facts have three values: yes, no, and cannot tell. What nobody saw is `None` and never a plausible
//! value; an end that cannot be proven is [`journal::Outcome::Indeterminate`], and keeps its leases.
//!
//! What this library does not do: it never waits for children that it did not start (unless its
//! host asked it to adopt orphans, [`DomainOptions::adopt_orphans`]), sets no signal handler, and
//! reads nothing of the terminal. Everything it knows of processes it asks
//! `xioflow-facts`; it has no path in `/proc` of its own.

#![forbid(unsafe_code)]

mod adjudication;
mod admission;
mod backend;
mod caller;
mod clock;
mod command;
mod control;
mod deadline;
mod delegation;
mod domain;
mod driver;
mod environment;
mod error;
mod fingerprint;
mod flight;
mod groups;
mod guidance;
mod helper;
#[cfg_attr(
    not(feature = "rules"),
    expect(unreachable_pub, reason = "public for `rules`, which is a feature")
)]
mod leases;
mod limits;
mod load;
mod names;
mod observe;
mod operation;
mod output;
mod pause;
mod plain_file;
mod prune;
mod recovery;
mod remote;
mod resources;
mod result;
mod run;
mod sanitise;
mod stdin;
mod stop;
mod stop_action;
mod text_view;
mod unix_sockets;
mod unrecorded;
pub mod views;

/// The rules that are pure, as they are, for models and tests of the whole. No part of the library's
/// interface: what is here changes with the rules.
#[cfg(feature = "rules")]
#[doc(hidden)]
pub mod rules {
    pub use crate::leases::{CONCURRENCY, Claim, Conflict, LeaseTable};
    pub use crate::operation::rules::{Cause, Heard, Talk, outcome_of};
    pub use crate::recovery::rules::*;
}

pub use adjudication::{ACTOR_MAX_BYTES, AdjudicateError, NOTE_MAX_BYTES, Residual};
pub use caller::{Caller, ResourceLimit};
pub use command::{Command, InvalidCommand};
pub use delegation::{Delegated, DelegationEvidence};
pub use domain::{BudgetInUse, Domain, DomainOptions};
pub use driver::{Driver, namespace_remedy};
pub use error::{
    ArbiterError, DomainError, ExecuteError, NotActive, OPERATION_ID_MAX_BYTES, RunError,
    TIMEOUT_MAX,
};
pub use flight::InFlight;
pub use groups::{GroupRefused, HostMoved};
pub use helper::{
    HELPER_PROGRAM, HELPER_VARIABLE, HelperLost, HelperPatience, LinkError, LocateError,
    find_helper,
};
pub use leases::{Amount, DomainBudget, Scarcity, Share, Shortage};
pub use limits::{
    Enforcement, InvalidLimits, Limit, LimitEvents, LimitMeans, LimitsReport,
    MEMORY_LIMIT_MAX_BYTES, MEMORY_LIMIT_MIN_BYTES, MILLI_CPUS_MAX, MILLI_CPUS_MIN, Means,
    PIDS_LIMIT_MAX, PressureReport, ResourceLimits, StallReport, UsageReport, UsageSource,
};
pub use load::{Load, LoadState};
pub use names::{errno_name, errno_text, signal_name, signal_number};
pub use operation::{
    Active, Attachment, Canceller, DEFAULT_DRAIN_TIMEOUT, DEFAULT_MAX_OUTPUT_BYTES,
    DescendantPolicy, OperationBuilder, OperationHandle, StoredError, stored_result,
};
pub use output::{
    ArtifactBytes, DEFAULT_MAX_ARTIFACT_BYTES, DEFAULT_MAX_STORED_BYTES, Extent, OutputCheck,
    OutputError, OutputOrder, OutputReader, Piece, StoredFileState, Subscription, artifact_name,
    check_stored_file,
};
pub use pause::{PauseError, Standing};
pub use prune::{
    KeptFiles, Need, Obstacle, PruneError, PruneOptions, Pruned, PrunedFile, Tally, prune_preview,
};
pub use recovery::{Decision, First, LeasesAre, SweptGroup, Verdict, preview as preview_recovery};
pub use remote::{Arbiter, ArbiterInfo, NOT_UNDERSTOOD};
pub use result::{
    EnvironmentNames, Evidence, OperationResult, PipeHolder, ProcessIdentity, ProcessNamespaces,
    Reuse, Scope, SpawnFailure, StopRecord, SurvivorRecord, TreeNamespace, TreeSettlement,
};
pub use run::{RunHandle, TaskHandle};
pub use stdin::{Stdin, StdinWriter};
pub use stop::{DEFAULT_CANCEL_GRACE, DEFAULT_TIMEOUT_GRACE, StopManner};
pub use stop_action::{
    DEFAULT_STOP_ACTION_TIMEOUT, STOP_ACTION_MAX_BYTES, StopAction, StopActionResult,
    StopActionWhen,
};

pub use text_view::{TextFilter, TextView, text_view};

pub use xioflow_client::Starter;
pub use xioflow_journal as journal;
