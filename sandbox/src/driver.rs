//! What a probe found out about a driver, as plain values.
//!
//! Neighbours: the drivers make them, `doctor` and the kernel crate read them.

use std::fmt;
use std::path::PathBuf;

/// Whether a driver can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverState {
    /// It was started, let a write inside through and stopped one outside.
    Ready {
        /// The program.
        path: PathBuf,
        /// What it says its version is; null when it says none.
        version: Option<String>,
        /// What had to be left away to make it work.
        losses: Vec<Loss>,
    },
    /// It is there and does not do its work.
    Broken {
        /// The program.
        path: PathBuf,
        /// What happened.
        why: Failure,
        /// The command that mends it, if the cause is known.
        remedy: Option<String>,
    },
    /// It is not installed.
    Absent {
        /// The command that installs it, if there is a package manager we know.
        remedy: Option<String>,
    },
    /// The trial itself could not be set up, which says nothing about the driver.
    CannotTell {
        /// What went wrong.
        why: String,
    },
}

/// Something that a driver does elsewhere and not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// `/proc` could not be mounted anew, so it stays read-only inside.
    ProcReadOnly,
}

impl Loss {
    /// A stable name for machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProcReadOnly => "proc_read_only",
        }
    }
}

/// Why a driver does not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It could not be started, or not be waited for.
    NotRun {
        /// What the system said.
        why: String,
    },
    /// It was killed because it took too long.
    TimedOut {
        /// The time limit, in milliseconds.
        limit_ms: u128,
    },
    /// It ended, and the write inside was never made.
    NotWritten {
        /// Its exit code; null when a signal ended it.
        exit_code: Option<i32>,
        /// The signal that ended it; null when none did.
        signal: Option<i32>,
        /// The first line it printed about that. For people only.
        first_line: Option<String>,
    },
    /// It did not stop a write outside.
    Escaped,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun { why } => f.write_str(why),
            Self::TimedOut { limit_ms } => write!(f, "did not end within {limit_ms} ms"),
            Self::NotWritten {
                exit_code,
                signal,
                first_line,
            } => {
                match (exit_code, signal) {
                    (Some(code), _) => write!(f, "ended with {code} and wrote nothing")?,
                    (None, Some(signal)) => write!(f, "was ended by signal {signal}")?,
                    (None, None) => f.write_str("ended without a status and wrote nothing")?,
                }
                first_line
                    .as_ref()
                    .map_or(Ok(()), |line| write!(f, ": {line}"))
            }
            Self::Escaped => f.write_str("did not stop a write outside the writable folder"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_read_as_the_end_of_a_sentence() {
        let exit = |exit_code, signal, line: Option<&str>| {
            Failure::NotWritten {
                exit_code,
                signal,
                first_line: line.map(str::to_owned),
            }
            .to_string()
        };
        assert_eq!(
            exit(Some(1), None, Some("no")),
            "ended with 1 and wrote nothing: no"
        );
        assert_eq!(exit(None, Some(9), None), "was ended by signal 9");
    }
}
