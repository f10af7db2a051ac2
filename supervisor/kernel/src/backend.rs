//! Who executes the operations of a domain: this process, or an arbiter that it is attached to.

use std::sync::Arc;

use xioflow_journal::Records;

use crate::domain::Inner;
use crate::remote::Attached;

/// One of the two.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// This process.
    Own(Arc<Inner>),
    /// An arbiter.
    Attached(Arc<Attached>),
}

impl Backend {
    /// The domain's record.
    pub(crate) fn records(&self) -> Records<'_> {
        match self {
            Self::Own(inner) => Records::Owner(&inner.journal),
            Self::Attached(attached) => Records::Beside(attached.record()),
        }
    }

    /// Whether nothing new is taken any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Own(inner) => inner.flights.is_closed(),
            Self::Attached(attached) => attached.is_closed(),
        }
    }
}
