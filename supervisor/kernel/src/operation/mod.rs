//! One operation, from the submission to the recorded result. The files follow its way:
//! `builder`, `admit`, `claim`, `launch`, `supervise`, `settle`, `act`, `record`; `handle` is what a host has of it
//! meanwhile, `attachment` what others have.

mod act;
mod active;
mod admit;
mod adopt;
mod attachment;
mod builder;
mod claim;
mod gate;
mod group;
mod handle;
mod launch;
mod limits;
mod namespace;
mod record;
mod settle;
mod stored;
mod supervise;
mod told;

use std::time::Duration;

use xioflow_journal::{Run, Task};

use crate::caller::Caller;
use crate::command::Command;
use crate::limits::ResourceLimits;
use crate::output::DEFAULT_MAX_STORED_BYTES;
use crate::stdin::StdinReader;

pub use active::Active;
pub use attachment::Attachment;
pub use builder::OperationBuilder;
pub use handle::{Canceller, OperationHandle};
pub use stored::{StoredError, stored_result};

pub(crate) use active::WhenActive;
pub(crate) use admit::check_spec;
pub(crate) use claim::recorded_share;
pub(crate) use launch::{last_word_name, stop_action_stem};
pub(crate) use record::finish_change;
pub(crate) use settle::{
    Cause, apply_spawn_failure, indeterminate, name_survivors, outcome_of, settle_end,
};

/// The pure part, for models of the whole.
#[cfg(feature = "rules")]
pub(crate) mod rules {
    pub use super::settle::{Cause, outcome_of};
    pub use super::told::{Heard, Talk};
}

/// What is kept of each output stream in a result, unless the caller says otherwise, in bytes.
pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 10 * 1024 * 1024;

/// How long the output pipes may stay open after the tree is gone, unless the caller says otherwise.
pub const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_millis(2000);

/// What becomes of processes that outlive the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DescendantPolicy {
    /// They are stopped and named.
    #[default]
    Stop,
    /// The operation stays open until they end by themselves.
    Wait,
}

/// The Run that an operation belongs to.
#[derive(Debug)]
pub(crate) enum Membership {
    /// One of its own, recorded and ended with it.
    Own { task: Box<Task>, run: Box<Run> },
    /// One that its host opened.
    Of { run_id: String },
}

impl Membership {
    pub(crate) fn run_id(&self) -> &str {
        match self {
            Self::Own { run, .. } => &run.id,
            Self::Of { run_id } => run_id,
        }
    }
}

/// Everything that is asked of an operation.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) command: Command,
    /// Who asks for it; without one, this process as it is then.
    pub(crate) caller: Option<Caller>,
    pub(crate) id: String,
    /// Whether the caller chose the id, so that it may be that of an earlier submission.
    pub(crate) id_is_chosen: bool,
    pub(crate) name: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) timeout_grace: Duration,
    /// What everything that it starts may use.
    pub(crate) limits: Option<ResourceLimits>,
    pub(crate) leases: Vec<String>,
    pub(crate) wait: Duration,
    pub(crate) max_output_bytes: usize,
    pub(crate) drain_timeout: Duration,
    /// How much of each stream is stored; without a word, what is usual in the domain.
    pub(crate) max_stored_bytes: Option<u64>,
    pub(crate) descendants: DescendantPolicy,
    /// Whether it goes on when nobody waits for it.
    pub(crate) detached: bool,
    pub(crate) membership: Membership,
    /// The command's end of a standard input that is written while it runs.
    pub(crate) stdin_stream: Option<StdinReader>,
    /// Who is told that it is on record as running.
    pub(crate) when_active: WhenActive,
}

impl Spec {
    /// How much of each stream is stored, in bytes.
    pub(crate) fn stored_bytes_max(&self) -> u64 {
        self.max_stored_bytes.unwrap_or(DEFAULT_MAX_STORED_BYTES)
    }
}
