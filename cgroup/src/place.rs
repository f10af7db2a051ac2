//! Where a leaf is, as a record that outlives the process that made it.
//!
//! Neighbour: `leaf` makes it, and opens it again after a crash.

use std::path::PathBuf;

/// Everything that is needed to find a leaf again within the same boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafPlace {
    /// Its directory.
    pub directory: PathBuf,
    /// The group's id: the inode number of the directory. The kernel gives it to one group only
    /// between two boots.
    pub id: u64,
    /// Inode number of the control group namespace that the directory was seen in; null when that
    /// could not be learned. The same path means another group in another namespace.
    pub namespace: Option<u64>,
}
