//! What a verdict says to a person: short fragments, without the remedy.
//!
//! Neighbours: `verdict` decides, `remedy` has the command.

use std::fmt;

use crate::verdict::{Reason, Shortfall, Verdict};

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { directory } => write!(f, "{} is delegated", directory.display()),
            Self::Partial {
                directory,
                shortfalls,
                ..
            } => {
                let parts: Vec<_> = shortfalls.iter().map(ToString::to_string).collect();
                write!(f, "{}: {}", directory.display(), parts.join("; "))
            }
            Self::Missing { reason, .. } => reason.fmt(f),
            Self::CannotTell { subject, errno } => match errno {
                Some(errno) => write!(f, "read {}: error {errno}", subject.display()),
                None => write!(f, "the content of {} is not understood", subject.display()),
            },
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Managed => f.write_str(
                "systemd manages it without Delegate=yes, and may take controllers back, so it holds no limits",
            ),
            Self::HeldByV1(controllers) => write!(
                f,
                "version 1 holds {controllers} (a hybrid host), so they cannot be limited here; \
                 ending, freezing and measuring a whole tree works"
            ),
            Self::NotDelegated(controllers) => write!(f, "{controllers} was not delegated"),
            Self::ControllersUnknown => f.write_str("its controllers cannot be read"),
            Self::HiddenProcesses(count) => write!(
                f,
                "{count} processes of another pid namespace are in it and cannot be moved, and a \
                 group with processes hands no controllers down"
            ),
            Self::NoKill => f.write_str("it has no cgroup.kill (it came with 5.14)"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHierarchy => f.write_str("control groups are not mounted"),
            Self::LegacyOnly => f.write_str("only version 1 of control groups is mounted"),
            Self::NotVisible { path } => write!(
                f,
                "the own group {} cannot be seen from this namespace",
                path.display()
            ),
            Self::ReadOnly { mount } => write!(f, "{} is mounted read-only", mount.display()),
            Self::NotWritable {
                directory,
                owner_uid,
            } => match owner_uid {
                Some(uid) => write!(
                    f,
                    "{} belongs to user {uid} and is not delegated",
                    directory.display()
                ),
                None => write!(f, "{} is not delegated", directory.display()),
            },
            Self::Threaded(kind) => {
                write!(f, "a group of type \"{}\" takes no leaf", kind.name())
            }
        }
    }
}
