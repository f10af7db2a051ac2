//! Reads `/proc/self/mountinfo` for mounts of control groups. Pure.
//!
//! Neighbour: `hierarchy` finds the mount that shows the own group.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Which version of control groups a mount shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// One hierarchy per controller, or per set of them.
    One,
    /// The unified hierarchy.
    Two,
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) version: Version,
    /// The group that is visible at the mount point.
    pub(crate) root: PathBuf,
    /// Where.
    pub(crate) point: PathBuf,
    /// Whether the mount or the file system under it is read-only.
    pub(crate) read_only: bool,
    /// What version 2 was told when it was mounted.
    pub(crate) options: MountOptions,
}

/// Options of version 2. They hold for the whole hierarchy, in all its mounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "mount options are switches, each on its own"
)]
pub struct MountOptions {
    /// A control group namespace is a boundary of delegation: from inside it, limits of its own
    /// root cannot be changed, and no process moves across.
    pub nsdelegate: bool,
    /// Protections of memory (`memory.low`, `memory.min`) count for whole subtrees. xioflow sets none.
    pub memory_recursiveprot: bool,
    /// `memory.events` counts the group alone, without those below it.
    pub memory_localevents: bool,
    /// `pids.events` counts as before Linux 6.11: where the fork was, not where the limit is.
    pub pids_localevents: bool,
}

impl MountOptions {
    fn parse(super_options: &[u8]) -> Self {
        Self {
            nsdelegate: has_option(super_options, b"nsdelegate"),
            memory_recursiveprot: has_option(super_options, b"memory_recursiveprot"),
            memory_localevents: has_option(super_options, b"memory_localevents"),
            pids_localevents: has_option(super_options, b"pids_localevents"),
        }
    }
}

/// Reads all mounts of control groups, in the order of their mounting.
///
/// Lines that are not what proc_pid_mountinfo(5) describes belong to no control group, as far as
/// can be told, and are passed over.
pub(crate) fn parse(content: &[u8]) -> Vec<Mount> {
    content
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

/// `id parent dev root point options [optional…] - type source super-options`.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (root, point, options) = (fields.nth(3)?, fields.next()?, fields.next()?);
    fields.find(|field| *field == b"-")?;
    let version = match fields.next()? {
        b"cgroup" => Version::One,
        b"cgroup2" => Version::Two,
        _ => return None,
    };
    let super_options = fields.nth(1)?;
    Some(Mount {
        version,
        root: unescape(root),
        point: unescape(point),
        read_only: has_option(options, b"ro") || has_option(super_options, b"ro"),
        options: MountOptions::parse(super_options),
    })
}

fn has_option(options: &[u8], wanted: &[u8]) -> bool {
    options
        .split(|byte| *byte == b',')
        .any(|option| option == wanted)
}

/// Undoes the kernel's `\ooo`, which stands for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let (b'\\', Some(byte)) = (first, tail.get(..3).and_then(octal)) {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - \
                           cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    const LEGACY: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n";

    #[test]
    fn a_unified_mount() {
        let mounts = parse(UNIFIED.as_bytes());
        let expected = Mount {
            version: Version::Two,
            root: "/".into(),
            point: "/sys/fs/cgroup".into(),
            read_only: false,
            options: MountOptions {
                nsdelegate: true,
                memory_recursiveprot: true,
                ..MountOptions::default()
            },
        };
        assert_eq!(mounts, [expected]);
    }

    #[test]
    fn legacy_mounts_without_the_tmpfs_around_them() {
        let mounts = parse(LEGACY.as_bytes());
        assert_eq!(mounts.len(), 2);
        assert!(mounts.iter().all(|mount| mount.version == Version::One));
    }

    #[test]
    fn optional_fields_may_be_none_or_many() {
        for optional in ["", "shared:1 ", "master:3 propagate_from:2 unbindable "] {
            let line = format!("1 2 0:3 / /c rw {optional}- cgroup2 none rw\n");
            assert_eq!(parse(line.as_bytes()).len(), 1, "{optional:?}");
        }
    }

    #[test]
    fn read_only_by_mount_or_by_file_system() {
        for (mount, fs, expected) in [("rw", "rw", false), ("ro", "rw", true), ("rw", "ro", true)] {
            let line = format!("1 2 0:3 / /c {mount},nosuid - cgroup2 none {fs}\n");
            assert_eq!(
                parse(line.as_bytes())[0].read_only,
                expected,
                "{mount} {fs}"
            );
        }
    }

    #[test]
    fn a_namespace_seen_from_inside() {
        let line = b"1 2 0:3 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(parse(line)[0].root, Path::new("/../.."));
    }

    #[test]
    fn escaped_bytes_come_back() {
        let line = br"1 2 0:3 /a\040b /mnt/with\040space\134and\011tab rw - cgroup2 none rw";
        let mount = &parse(line)[0];
        assert_eq!(mount.root, Path::new("/a b"));
        assert_eq!(mount.point, Path::new("/mnt/with space\\and\ttab"));
    }

    #[test]
    fn short_and_foreign_lines_are_passed_over() {
        assert!(
            parse(b"\n1 2\n1 2 0:3 / /x rw - ext4 /dev/a rw\n1 2 0:3 / /x rw cgroup2\n").is_empty()
        );
    }

    fn escape(path: &[u8]) -> Vec<u8> {
        let escaped = path.iter().flat_map(|byte| match byte {
            b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
            byte => vec![*byte],
        });
        escaped.collect()
    }

    proptest! {
        #[test]
        fn what_the_kernel_escapes_is_read_back(path in proptest::collection::vec(1u8.., 0..40)) {
            let read_back = unescape(&escape(&path));
            prop_assert_eq!(read_back.as_os_str().as_bytes(), path);
        }

        #[test]
        fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&content);
        }
    }
}
