//! How long a helper may be silent before it counts as lost.

use std::time::Duration;

/// How long to wait for a helper that owes an answer.
///
/// A healthy helper answers within a millisecond. These times are for one that is stopped, stuck,
/// or on a machine that is busy beyond reason: too short, and a slow helper is taken for a lost
/// one, whose operation is then indeterminate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelperPatience {
    /// From the launch to the command at its gate; 10 s by default. Nothing has run until then.
    pub launch: Duration,
    /// For news that is due: that the program was executed once the gate is open, and how the
    /// command ended once the system says that it has. 60 s by default, because loading a program
    /// from a slow network file system counts.
    pub report: Duration,
    /// Beyond what the ladder of signals takes that a tree is being ended by; 3 s by default.
    pub stop: Duration,
}

impl Default for HelperPatience {
    fn default() -> Self {
        Self {
            launch: Duration::from_secs(10),
            report: Duration::from_secs(60),
            stop: Duration::from_secs(3),
        }
    }
}
