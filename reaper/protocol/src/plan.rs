//! How a tree is asked, then made, to end: a ladder of signals as a value.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

/// One rung: a signal for every process of the tree, and how long it may take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Rung {
    /// Signal number as in signal(7).
    #[n(0)]
    pub signal: i32,
    /// How long to wait for the tree to be empty before the next rung, in milliseconds.
    #[n(1)]
    pub wait_ms: u32,
}

/// The whole way from asking to giving up.
///
/// The rungs are climbed in order. After the last one the tree is killed, swept again for each
/// process that comes up, until it is empty or `kill_ms` are over; what is left then is reported
/// with the reason why it lives.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StopPlan {
    /// The polite part. Empty means: kill at once.
    #[n(0)]
    pub rungs: Vec<Rung>,
    /// How long the killing part may take, in milliseconds.
    #[n(1)]
    pub kill_ms: u32,
}

impl StopPlan {
    /// The plan that asks nothing: SIGKILL now, for at most `kill_ms` milliseconds.
    #[must_use]
    pub const fn kill(kill_ms: u32) -> Self {
        Self {
            rungs: Vec::new(),
            kill_ms,
        }
    }
}
