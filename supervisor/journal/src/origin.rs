//! Whether a domain's database is the file that its last owner wrote to, or a copy of it. Pure, but
//! for asking a file who it is.
//!
//! A copy speaks of processes that the original started and still watches over. Whoever recovers
//! the copy must not take them for its own.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::Serialize;

/// What tells a file from every other, and from a later one with the same inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// When the inode came into being, in nanoseconds since 1970; null where the file system does
    /// not keep it. Compared for being equal, never for being earlier.
    pub(crate) born_ns: Option<i64>,
}

/// As what a database was found when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenedAs {
    /// It was made by this opening.
    New,
    /// It is the file that its last owner wrote to.
    Same,
    /// It is that inode, on a device that had another number then. Device numbers change when
    /// the machine or a container is started again; within one life of the system this is a
    /// snapshot of a file system.
    Renumbered,
    /// It is another file: a copy of that one, or one that was restored from a copy.
    Copy,
    /// The last owner did not record which file it wrote to (before schema 4).
    Unrecorded,
}

impl FileIdentity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let born = metadata.created().ok();
        let born_ns = born
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .and_then(|since| i64::try_from(since.as_nanos()).ok());
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            born_ns,
        }
    }
}

/// Compares the file that the last owner recorded with the one that is here.
pub(crate) fn compare(recorded: Option<FileIdentity>, found: FileIdentity) -> OpenedAs {
    let Some(recorded) = recorded else {
        return OpenedAs::Unrecorded;
    };
    // A time that only one of the two has says nothing.
    let born_apart = recorded
        .born_ns
        .zip(found.born_ns)
        .is_some_and(|(then, now)| then != now);
    if recorded.inode != found.inode || born_apart {
        OpenedAs::Copy
    } else if recorded.device != found.device {
        OpenedAs::Renumbered
    } else {
        OpenedAs::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_told_by_inode_and_birth_and_a_device_only_by_its_number() {
        let file = |device, inode, born_ns| FileIdentity {
            device,
            inode,
            born_ns,
        };
        let known = file(1, 2, Some(3));
        for (recorded, found, expected) in [
            (None, known, OpenedAs::Unrecorded),
            (Some(known), known, OpenedAs::Same),
            (Some(known), file(1, 2, None), OpenedAs::Same),
            (Some(file(1, 2, None)), known, OpenedAs::Same),
            (Some(known), file(9, 2, Some(3)), OpenedAs::Renumbered),
            (Some(known), file(9, 2, None), OpenedAs::Renumbered),
            (Some(known), file(1, 9, Some(3)), OpenedAs::Copy),
            (Some(known), file(1, 2, Some(9)), OpenedAs::Copy),
            (Some(known), file(9, 9, Some(9)), OpenedAs::Copy),
        ] {
            assert_eq!(compare(recorded, found), expected, "{recorded:?} {found:?}");
        }
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let identity =
            |name: &str| FileIdentity::of(&std::fs::metadata(folder.path().join(name)).unwrap());
        std::fs::write(folder.path().join("a"), "1").unwrap();
        let before = identity("a");
        std::fs::write(folder.path().join("a"), "2").unwrap();
        assert_eq!(identity("a"), before, "writing changes nothing");
        std::fs::copy(folder.path().join("a"), folder.path().join("b")).unwrap();
        std::fs::rename(folder.path().join("b"), folder.path().join("a")).unwrap();
        assert_eq!(compare(Some(before), identity("a")), OpenedAs::Copy);
    }
}
