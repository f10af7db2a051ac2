//! The three answers that a question to the system can have.

use rustix::io::Errno;

/// Yes, no, or cannot tell; the last is never taken for either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Observed to be so.
    Yes,
    /// Observed not to be so.
    No,
    /// The question could not be put.
    CannotTell {
        /// The error number that came instead of an answer.
        errno: i32,
    },
}

impl Answer {
    /// Whether it was observed to be so.
    #[must_use]
    pub const fn is_yes(self) -> bool {
        matches!(self, Self::Yes)
    }

    /// The answer as a value that is null when nobody can tell.
    #[must_use]
    pub const fn known(self) -> Option<bool> {
        match self {
            Self::Yes => Some(true),
            Self::No => Some(false),
            Self::CannotTell { .. } => None,
        }
    }

    /// Reads the result of asking whether something exists.
    pub(crate) fn of_existence<T>(result: Result<T, Errno>) -> Self {
        match result {
            Ok(_) => Self::Yes,
            Err(Errno::NOENT | Errno::NOTDIR) => Self::No,
            Err(errno) => Self::CannotTell {
                errno: errno.raw_os_error(),
            },
        }
    }

    /// Reads the result of access(2). A file that is missing or lies on a read-only mount
    /// cannot be written, so both are a clear no.
    pub(crate) fn of_access(result: Result<(), Errno>) -> Self {
        match result {
            Ok(()) => Self::Yes,
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOENT) => Self::No,
            Err(errno) => Self::CannotTell {
                errno: errno.raw_os_error(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_no_and_trouble_is_unknown() {
        assert_eq!(Answer::of_access(Ok(())), Answer::Yes);
        for errno in [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::NOENT] {
            assert_eq!(Answer::of_access(Err(errno)), Answer::No);
        }
        let io = Errno::IO.raw_os_error();
        assert_eq!(
            Answer::of_access(Err(Errno::IO)),
            Answer::CannotTell { errno: io }
        );
        assert_eq!(Answer::CannotTell { errno: io }.known(), None);
    }

    #[test]
    fn a_refused_look_does_not_prove_absence() {
        assert_eq!(Answer::of_existence::<()>(Err(Errno::NOENT)), Answer::No);
        assert_eq!(Answer::of_existence::<()>(Err(Errno::ACCESS)).known(), None);
    }
}
