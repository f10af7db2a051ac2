//! Which file systems cannot hold a domain: those whose locks or shared memory do not reach from one
//! host to another. The rule is pure; `open` asks statfs(2) before it takes the lock.

/// File systems that several hosts can have mounted, by the number that statfs(2) gives them.
///
/// SQLite's write-ahead log needs memory that all its users share, so they must be on one host; and a
/// lock that the other host's kernel does not know of keeps nobody out. Some of these do lock between
/// hosts, none shares memory.
///
/// Source: statfs(2), <linux/magic.h>, and the file systems' own headers for those that are not there.
const SHARED_BETWEEN_HOSTS: &[(u32, &str)] = &[
    (0x0102_1997, "9p"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00C3_6400, "Ceph"),
    (0xFF53_4D42, "CIFS"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
    (0x4750_4653, "GPFS"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0000_564C, "NCP"),
    (0x0000_6969, "NFS"),
    (0x7461_636F, "OCFS2"),
    (0xAAD7_AAEA, "PanFS"),
    (0x0000_517B, "SMB"),
    (0xFE53_4D42, "SMB"),
    (0x786F_4256, "a VirtualBox shared folder"),
];

/// The name of a file system that cannot hold a domain; `None` for all others.
///
/// FUSE is among the others: it may be a network or a disk, and does not say. Whether its locks work
/// is tried out.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number has 32 bits, and its sign depends on the architecture"
)]
pub(crate) fn shared_between_hosts(f_type: i64) -> Option<&'static str> {
    let number = f_type as u32;
    let found = SHARED_BETWEEN_HOSTS
        .iter()
        .find(|(known, _)| *known == number);
    found.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_several_hosts_are_known_by_their_numbers() {
        for (f_type, name) in [
            (0x6969, "NFS"),
            (0xFF53_4D42, "CIFS"),
            // As an architecture with a signed number of 32 bits says it.
            (-11_317_950, "CIFS"),
            (0x0102_1997, "9p"),
            (0x0116_1970, "GFS2"),
        ] {
            assert_eq!(shared_between_hosts(f_type), Some(name), "{f_type:#x}");
        }
    }

    #[test]
    fn file_systems_of_one_host_are_not() {
        let local = [
            0xEF53,      // ext4
            0x5846_5342, // XFS
            0x9123_683E, // btrfs
            0x2FC1_2FC1, // ZFS
            0xF2F5_2010, // F2FS
            0x0102_1994, // tmpfs
            0x794C_7630, // overlayfs
            0x4D44,      // FAT
            0x6573_5546, // FUSE
        ];
        for f_type in local {
            assert_eq!(shared_between_hosts(f_type), None, "{f_type:#x}");
        }
    }

    #[test]
    fn no_number_is_listed_twice() {
        let mut numbers: Vec<u32> = SHARED_BETWEEN_HOSTS.iter().map(|(n, _)| *n).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), SHARED_BETWEEN_HOSTS.len());
    }
}
