//! The news that an operation is on record as running, for hosts that answer somebody then.
//! `launch` tells it between the commit and the gate, `admit` to a submission that has joined.

use std::fmt;

use crate::groups::HostMoved;

/// An operation that runs, or one that was joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// Its id.
    pub operation_id: String,
    /// Its Run; for one that was joined, that of the submission that is executed.
    pub run_id: String,
    /// Whether the submission has joined the operation of another one.
    pub joined: bool,
    /// What had to be moved for the control group that it needs; none where nothing was.
    pub host_moved: Option<HostMoved>,
}

/// Who is told, once.
pub(crate) struct WhenActive(Option<Box<dyn FnOnce(Active) + Send>>);

impl WhenActive {
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    pub(crate) fn new(told: impl FnOnce(Active) + Send + 'static) -> Self {
        Self(Some(Box::new(told)))
    }

    /// Whether somebody has still to be told.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.is_some()
    }

    /// Tells it; a second time is none.
    pub(crate) fn tell(&mut self, active: impl FnOnce() -> Active) {
        if let Some(told) = self.0.take() {
            told(active());
        }
    }
}

impl fmt::Debug for WhenActive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WhenActive")
            .field(&self.is_awaited())
            .finish()
    }
}
