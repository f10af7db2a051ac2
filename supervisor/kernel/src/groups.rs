//! The control groups of a domain: where they are, and one for each operation that is to have one.
//!
//! Neighbours: `driver` says which operations those are, `operation/group` holds the one of a running
//! operation, the crate `cgroup` makes them.

use std::fmt;

use crate::driver::GroupUse;

/// Why no control group can be had, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRefused {
    /// What is missing or was refused, as a fragment.
    pub problem: String,
    /// What to do about it, where anything helps.
    pub remedy: Option<String>,
    /// Whether it is the arbiter of the domain that lacks it, and not this process.
    pub of_arbiter: bool,
}

impl fmt::Display for GroupRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.of_arbiter {
            "the arbiter of this domain, whose control group counts, says: "
        } else {
            ""
        };
        write!(f, "{of}{}", self.problem)
    }
}

/// The groups of one domain. Found when the first operation wants one.
#[derive(Debug, Default)]
pub(crate) struct Groups {}

impl Groups {
    /// Refuses what needs a group: there is no driver for them yet.
    pub(crate) fn check(&self, group: GroupUse) -> Result<(), GroupRefused> {
        match group {
            GroupUse::None | GroupUse::WhereThereIs => Ok(()),
            GroupUse::Required => Err(GroupRefused {
                problem: "this build makes none".to_owned(),
                remedy: None,
                of_arbiter: false,
            }),
        }
    }
}
