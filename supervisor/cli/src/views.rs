//! What programs read: those documents that only this program prints. The others are the kernel's.

use serde::Serialize;
use xioflow_kernel::journal::{Lease, LockNote, OwnerState, Stream};
use xioflow_kernel::{OperationResult, TextView, text_view};

pub(crate) use xioflow_kernel::views::{EventView, OperationLine, OperationView, time};

/// A result with its output as texts to read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WithViews<'a> {
    #[serde(flatten)]
    result: &'a OperationResult,
    stdout_view: TextView,
    stderr_view: TextView,
}

impl<'a> WithViews<'a> {
    pub(crate) fn of(result: &'a OperationResult) -> Self {
        let view = |stream| text_view(&result.kept_output(stream));
        Self {
            result,
            stdout_view: view(Stream::Stdout),
            stderr_view: view(Stream::Stderr),
        }
    }
}

/// Who owns the domain now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerView {
    /// `held`, `free`, or `cannot_tell`.
    pub(crate) state: &'static str,
    /// What the owner says of itself.
    pub(crate) note: Option<LockNote>,
    /// Why it cannot be told.
    pub(crate) why: Option<String>,
}

impl From<OwnerState> for OwnerView {
    fn from(state: OwnerState) -> Self {
        match state {
            OwnerState::Held { note } => Self {
                state: "held",
                note,
                why: None,
            },
            OwnerState::Free => Self {
                state: "free",
                note: None,
                why: None,
            },
            OwnerState::CannotTell { why } => Self {
                state: "cannot_tell",
                note: None,
                why: Some(why),
            },
        }
    }
}

/// A held resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseView {
    pub(crate) resource: String,
    pub(crate) operation_id: String,
    acquired_at: String,
}

impl From<Lease> for LeaseView {
    fn from(lease: Lease) -> Self {
        Self {
            resource: lease.resource_id,
            operation_id: lease.operation_id,
            acquired_at: time(lease.acquired_at_ms),
        }
    }
}
