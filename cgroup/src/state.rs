//! Reads `cgroup.events`: whether a group holds a process, and whether it is frozen. Pure.
//!
//! Neighbours: `leaf` reads it once, `events` and `wait` whenever it changes.

use crate::answer::Answer;
use crate::error::GroupError;
use crate::flat;

/// The file.
pub(crate) const FILE: &str = "cgroup.events";

/// The content of `cgroup.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupState {
    /// Whether the group or one below it holds a process that has not ended.
    pub populated: bool,
    /// Whether it is frozen, which it is when every process in it is; null before Linux 5.2.
    pub frozen: Option<bool>,
}

impl GroupState {
    /// Reads the file; null when it does not say whether the group is populated.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(Self {
            populated: flag(text, "populated")?,
            frozen: flag(text, "frozen"),
        })
    }
}

fn flag(text: &str, key: &str) -> Option<bool> {
    match flat::number(text, key)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The answer for one who asks of a value that could not be read.
pub(crate) fn answer(value: Result<Option<bool>, GroupError>) -> Answer {
    match value {
        Ok(Some(true)) => Answer::Yes,
        Ok(Some(false)) => Answer::No,
        Ok(None) => Answer::CannotTell {
            errno: rustix::io::Errno::OPNOTSUPP.raw_os_error(),
        },
        Err(error) => Answer::CannotTell {
            errno: error
                .raw_os_error()
                .unwrap_or(rustix::io::Errno::IO.raw_os_error()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flags_are_read() {
        let state = GroupState::parse("populated 1\nfrozen 0\n").expect("a state");
        assert!(state.populated);
        assert_eq!(state.frozen, Some(false));
    }

    #[test]
    fn an_old_kernel_says_nothing_of_frost() {
        let state = GroupState::parse("populated 0\n").expect("a state");
        assert_eq!(state.frozen, None);
        assert_eq!(answer(Ok(state.frozen)).known(), None);
    }

    #[test]
    fn only_a_clear_flag_counts() {
        for text in [
            "",
            "frozen 0\n",
            "populated 2\n",
            "populated \n",
            "unpopulated 0\n",
        ] {
            assert_eq!(GroupState::parse(text), None, "{text:?}");
        }
    }
}
