//! What can go wrong with a group: each refusal names the file, the value and the error number.
//!
//! Neighbours: `directory` opens, reads and writes; the rest only adds what it was about.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::controller::Controllers;
use crate::limits::LimitError;

/// Why something could not be done with a control group.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// A directory could not be opened.
    #[error("open control group {}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// ENOENT when it was removed meanwhile.
        source: io::Error,
    },
    /// A directory lies on another file system. Nothing in it was touched.
    #[error("{} is not in a file system of control groups (cgroup2)", path.display())]
    NotControlGroup {
        /// Its path.
        path: PathBuf,
    },
    /// A group has a name that xioflow never gives. It was not touched.
    #[error("{} is not named like a group of xioflow", path.display())]
    NotOurs {
        /// Its path.
        path: PathBuf,
    },
    /// A group could not be made.
    #[error("make control group {}", path.display())]
    Make {
        /// Its path.
        path: PathBuf,
        /// EACCES without delegation, EAGAIN at a limit of depth or number.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("read {}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// ENODEV when the group was removed meanwhile.
        source: io::Error,
    },
    /// A file does not hold what the kernel documents.
    #[error("the content of {} is not understood", path.display())]
    Garbled {
        /// Its path.
        path: PathBuf,
    },
    /// The kernel did not take a value.
    #[error("write \"{value}\" to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A limit that cannot be meant. Nothing was made or written.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The group's children cannot have these controllers, because it does not have them itself.
    #[error("{} has no controller {controllers} to hand to its children", directory.display())]
    NotHandedDown {
        /// The group.
        directory: PathBuf,
        /// What it lacks.
        controllers: Controllers,
    },
    /// A group that holds processes hands no controllers to its children.
    #[error(
        "{} holds processes itself ({}), and a group that does hands no controllers to its children",
        directory.display(), list(processes)
    )]
    HoldsProcesses {
        /// The group.
        directory: PathBuf,
        /// The processes; those outside the caller's pid namespace have no number and are left out.
        processes: Vec<u32>,
    },
    /// A group in a threaded subtree hands no controllers to its children.
    #[error("{} is in a threaded subtree, and hands no controllers to its children", directory.display())]
    Threaded {
        /// The group.
        directory: PathBuf,
    },
    /// A leaf has more groups below it than are ever looked at.
    #[error("{} has more than {max} groups below it", directory.display())]
    TooManyGroups {
        /// The leaf.
        directory: PathBuf,
        /// The bound.
        max: usize,
    },
    /// The kernel gave no random bytes for a name, or no descriptor to wait with.
    #[error("{action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl GroupError {
    /// The error number of the kernel; null where it was not the kernel that refused.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Open { source, .. }
            | Self::Make { source, .. }
            | Self::Read { source, .. }
            | Self::Write { source, .. }
            | Self::System { source, .. } => source.raw_os_error(),
            Self::NotControlGroup { .. }
            | Self::NotOurs { .. }
            | Self::Garbled { .. }
            | Self::Limit(_)
            | Self::NotHandedDown { .. }
            | Self::Threaded { .. }
            | Self::TooManyGroups { .. }
            | Self::HoldsProcesses { .. } => None,
        }
    }

    /// Whether the kernel refused with this error number.
    pub(crate) fn is(&self, errno: Errno) -> bool {
        self.raw_os_error() == Some(errno.raw_os_error())
    }

    /// Whether the group, or the file in it, is not there: ENOENT for one that cannot be opened,
    /// ENODEV for one that was open when its group was removed.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        self.is(Errno::NOENT) || self.is(Errno::NODEV)
    }

    pub(crate) fn open(path: &Path, errno: Errno) -> Self {
        Self::Open {
            path: path.to_owned(),
            source: errno.into(),
        }
    }

    pub(crate) fn read(path: PathBuf, source: impl Into<io::Error>) -> Self {
        Self::Read {
            path,
            source: source.into(),
        }
    }

    pub(crate) fn system(action: &'static str, errno: Errno) -> Self {
        Self::System {
            action,
            source: errno.into(),
        }
    }
}

/// The most numbers that a message lists.
const LISTED_MAX: usize = 8;

fn list(processes: &[u32]) -> String {
    let mut names: Vec<_> = processes.iter().map(u32::to_string).collect();
    if names.len() > LISTED_MAX {
        let rest = names.len() - LISTED_MAX;
        names.truncate(LISTED_MAX);
        names.push(format!("and {rest} more"));
    }
    match names.is_empty() {
        true => "none that has a number here".to_owned(),
        false => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_file_and_value() {
        let error = GroupError::Write {
            path: "/c/memory.max".into(),
            value: "12".to_owned(),
            source: Errno::INVAL.into(),
        };
        assert_eq!(error.to_string(), "write \"12\" to /c/memory.max");
        assert!(error.is(Errno::INVAL) && !error.is_absence());
    }

    #[test]
    fn long_lists_are_cut_and_empty_ones_explained() {
        let all: Vec<u32> = (1..=20).collect();
        assert_eq!(list(&all), "1, 2, 3, 4, 5, 6, 7, 8, and 12 more");
        assert_eq!(list(&[7]), "7");
        assert_eq!(list(&[]), "none that has a number here");
    }
}
