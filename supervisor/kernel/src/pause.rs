//! An operation that stands still for a while: what is asked, and what is answered. `operation/supervise/pausing`
//! does it, `domain/pause` passes it on.

use std::io;
use std::time::Duration;

use xioflow_journal::{CommitError, PauseMeans};

use crate::error::NotActive;

/// That an operation stands still, or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// By what it stands still; `None` if it goes on.
    pub paused: Option<PauseMeans>,
    /// Whether that is so since this call, and was not before.
    pub changed: bool,
    /// How much of its time limit is left. It goes on while the operation stands still.
    pub timeout_left: Option<Duration>,
}

/// Why an operation was not paused, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum PauseError {
    /// There is no such operation, or it is over.
    #[error(transparent)]
    NotActive(#[from] NotActive),
    /// It waits for resources or is being started, so nothing of it runs yet.
    #[error("operation {operation_id} has not begun: it waits for resources, or is being started")]
    NotBegun {
        /// Which.
        operation_id: String,
    },
    /// It is being stopped, or its command is over and what outlives it is being ended.
    #[error("operation {operation_id} is ending")]
    Ending {
        /// Which.
        operation_id: String,
    },
    /// Not every process of it stood still in time, and all were let go on.
    #[error(
        "operation {operation_id} did not stand still within {waited_ms} ms, so it was let go on; a process of it may be in \
         uninterruptible sleep"
    )]
    Unconfirmed {
        /// Which.
        operation_id: String,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// Its control group could not be frozen or thawed.
    #[error("failed to {act} the control group of operation {operation_id}")]
    Group {
        /// `freeze` or `thaw`.
        act: &'static str,
        /// Which.
        operation_id: String,
        /// Why.
        source: io::Error,
    },
    /// Its helper is of a release that cannot have a tree stand still.
    #[error("the helper of operation {operation_id} cannot do that; it is of an earlier release")]
    Unsupported {
        /// Which.
        operation_id: String,
    },
    /// Its helper could not be told, or did not answer.
    #[error("the owner of operation {operation_id} gave no answer")]
    NoAnswer {
        /// Which.
        operation_id: String,
    },
    /// That it stands still could not be recorded, so it was let go on; or it goes on, and that could not be.
    #[error("failed to record that operation {operation_id} was paused or goes on; it goes on")]
    Record {
        /// Which.
        operation_id: String,
        /// Why.
        source: Box<CommitError>,
    },
}
