//! How this process sees the hierarchy: its namespace, what the mounts show, how events are counted.
//!
//! A recorded path means a group only as long as it is seen in the same way. Neighbours: `place`
//! records the namespace, `find_leaf` asks whether a path that leads nowhere proves anything.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::hierarchy::locate_directory;
use crate::mountinfo::{self, Mount, MountOptions};

/// What holds for every group that this process sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Inode number of the control group namespace.
    pub(crate) namespace: Option<u64>,
    /// What the hierarchy was told when it was mounted.
    pub(crate) options: MountOptions,
}

impl View {
    /// For a hierarchy with these options.
    pub(crate) fn new(options: MountOptions) -> Self {
        Self {
            namespace: own_namespace(),
            options,
        }
    }

    /// Of the hierarchy that a directory lies in. Without the mount list the options count as not
    /// set, which is what they are on all but a few hosts.
    pub(crate) fn over(directory: &Path) -> Self {
        Self::new(
            mount_over(directory)
                .map(|mount| mount.options)
                .unwrap_or_default(),
        )
    }
}

/// Whether a directory is seen through a mount that shows the whole of the namespace. Then a path
/// below it means the same as in any other process of this namespace.
pub(crate) fn shows_namespace(directory: &Path) -> bool {
    mount_over(directory).is_some_and(|mount| mount.root == Path::new("/"))
}

fn mount_over(directory: &Path) -> Option<Mount> {
    let mounts = mountinfo::parse(&std::fs::read("/proc/self/mountinfo").ok()?);
    let (_, place) = locate_directory(directory, &mounts)?;
    Some(place.mount)
}

/// The control group namespace of the calling process.
pub(crate) fn own_namespace() -> Option<u64> {
    let metadata = std::fs::metadata("/proc/self/ns/cgroup").ok()?;
    Some(metadata.ino())
}
