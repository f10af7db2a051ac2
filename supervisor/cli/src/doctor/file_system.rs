//! Names file systems by their magic number, and what each means for a journal. Pure.
//!
//! Neighbour: `domain_filesystem` asks statfs(2). Source of the numbers: statfs(2) and the
//! kernel's `magic.h`.

/// What becomes of data that was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// It is on a device of this host.
    Device,
    /// It is in memory and gone at reboot.
    Memory,
    /// It is in the upper layer of an overlay, which usually goes with its container.
    Overlay,
    /// It is on another host, and so are the locks.
    Network,
    /// A program serves it, and syncing means what that program makes of it.
    UserSpace,
    /// We do not know this file system.
    Unknown,
}

impl Durability {
    /// A stable name for machines.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Memory => "memory",
            Self::Overlay => "overlay",
            Self::Network => "network",
            Self::UserSpace => "user_space",
            Self::Unknown => "unknown",
        }
    }

    /// What a user has to know; `None` if nothing.
    pub(super) const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Device => None,
            Self::Memory => Some("the record is gone at reboot"),
            Self::Overlay => Some("the record goes with the container unless a volume holds it"),
            Self::Network => Some(
                "another host can hold locks on it, and the journal needs memory shared by all its users",
            ),
            Self::UserSpace => {
                Some("whether synced data lasts is up to the program that serves it")
            }
            Self::Unknown => Some("whether synced data lasts on it is not known"),
        }
    }
}

/// A file system that we have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSystem {
    pub(super) magic: u32,
    pub(super) name: &'static str,
    pub(super) durability: Durability,
}

const fn fs(magic: u32, name: &'static str, durability: Durability) -> FileSystem {
    FileSystem {
        magic,
        name,
        durability,
    }
}

const KNOWN: [FileSystem; 24] = [
    // ext2 and ext3 have the same number.
    fs(0xef53, "ext4", Durability::Device),
    fs(0x5846_5342, "xfs", Durability::Device),
    fs(0x9123_683e, "btrfs", Durability::Device),
    fs(0xf2f5_2010, "f2fs", Durability::Device),
    fs(0xca45_1a4e, "bcachefs", Durability::Device),
    fs(0x2fc1_2fc1, "zfs", Durability::Device),
    fs(0x4d44, "vfat", Durability::Device),
    fs(0x2011_bab0, "exfat", Durability::Device),
    fs(0x7366_746e, "ntfs3", Durability::Device),
    fs(0x0102_1994, "tmpfs", Durability::Memory),
    fs(0x8584_58f6, "ramfs", Durability::Memory),
    fs(0x794c_7630, "overlay", Durability::Overlay),
    fs(0x6969, "nfs", Durability::Network),
    fs(0xff53_4d42, "cifs", Durability::Network),
    fs(0xfe53_4d42, "smb2", Durability::Network),
    fs(0x517b, "smb", Durability::Network),
    fs(0x00c3_6400, "ceph", Durability::Network),
    fs(0x0bd0_0bd0, "lustre", Durability::Network),
    fs(0x5346_414f, "afs", Durability::Network),
    fs(0x0116_1970, "gfs2", Durability::Network),
    fs(0x7461_636f, "ocfs2", Durability::Network),
    // WSL shows Windows drives by it, some virtual machines their host's folders.
    fs(0x0102_1997, "9p", Durability::UserSpace),
    fs(0x6573_5546, "fuse", Durability::UserSpace),
    fs(0x786f_4256, "vboxsf", Durability::UserSpace),
];

/// The file system with this magic number.
pub(super) fn by_magic(magic: u32) -> FileSystem {
    let known = KNOWN.into_iter().find(|known| known.magic == magic);
    known.unwrap_or(FileSystem {
        magic,
        name: "unknown",
        durability: Durability::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_stands_twice() {
        let numbers: HashSet<_> = KNOWN.iter().map(|known| known.magic).collect();
        assert_eq!(numbers.len(), KNOWN.len());
    }

    #[test]
    fn known_and_unknown_numbers() {
        assert_eq!(by_magic(0xef53).name, "ext4");
        assert_eq!(by_magic(0x0102_1994).durability, Durability::Memory);
        let unknown = by_magic(0x1234_5678);
        assert_eq!((unknown.name, unknown.magic), ("unknown", 0x1234_5678));
        assert_eq!(unknown.durability, Durability::Unknown);
    }

    #[test]
    fn only_a_device_needs_no_word() {
        for known in KNOWN {
            let silent = known.durability.warning().is_none();
            assert_eq!(
                silent,
                known.durability == Durability::Device,
                "{}",
                known.name
            );
        }
    }
}
