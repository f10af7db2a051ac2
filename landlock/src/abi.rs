//! The ABI number of a kernel, and what each number brought. Pure.
//!
//! Neighbour: `support` learns the number from the kernel.

use core::fmt;
use core::num::NonZeroU32;

/// The version of Landlock that a kernel speaks. It only ever grows.
///
/// A kernel newer than this crate has a number without a constant here; everything that the
/// known numbers promise holds for it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Abi(NonZeroU32);

/// How many file system rights each ABI knows, as the number of low bits in use.
///
/// The rights were added in the order of their bits, so the count says which they are.
const FS_RIGHTS: [(Abi, u32); 5] = [
    (Abi::V9, 17),
    (Abi::V5, 16),
    (Abi::V3, 15),
    (Abi::V2, 14),
    (Abi::V1, 13),
];

impl Abi {
    /// Linux 5.13: execute, read, write, make and remove, per file hierarchy.
    pub const V1: Self = Self::known(1);
    /// Linux 5.19: renames and links between directories can be allowed (`REFER`); before, they
    /// fail with EXDEV under every ruleset.
    pub const V2: Self = Self::known(2);
    /// Linux 6.2: truncation (`TRUNCATE`); before, a file outside could be emptied by its path.
    pub const V3: Self = Self::known(3);
    /// Linux 6.7: binding and connecting TCP ports.
    pub const V4: Self = Self::known(4);
    /// Linux 6.10: ioctl(2) on devices (`IOCTL_DEV`).
    pub const V5: Self = Self::known(5);
    /// Linux 6.12: scopes for signals and abstract Unix sockets.
    pub const V6: Self = Self::known(6);
    /// Linux 6.15: control over what is logged by the audit system.
    pub const V7: Self = Self::known(7);
    /// Linux 7.0: a ruleset can be applied to all threads of a process at once.
    pub const V8: Self = Self::known(8);
    /// Linux 7.1: connecting to Unix sockets by path (`RESOLVE_UNIX`).
    pub const V9: Self = Self::known(9);

    const fn known(number: u32) -> Self {
        match NonZeroU32::new(number) {
            Some(number) => Self(number),
            None => panic!("ABI numbers start at 1"),
        }
    }

    /// The ABI with this number; `None` for 0, which no kernel answers.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// The first kernel release with this ABI; `None` for one newer than this crate.
    ///
    /// Distributions carry it back to older kernels, so the release of a running kernel says
    /// nothing: ask [`crate::support`].
    #[must_use]
    pub const fn first_release(self) -> Option<&'static str> {
        match self.number() {
            1 => Some("5.13"),
            2 => Some("5.19"),
            3 => Some("6.2"),
            4 => Some("6.7"),
            5 => Some("6.10"),
            6 => Some("6.12"),
            7 => Some("6.15"),
            8 => Some("7.0"),
            9 => Some("7.1"),
            _ => None,
        }
    }

    /// All file system rights that this ABI can handle, as the mask for a ruleset.
    #[must_use]
    pub fn handled_access_fs(self) -> u64 {
        // The last row is ABI 1 and there is no smaller number, so a row is always found.
        let bits = FS_RIGHTS
            .iter()
            .find(|(since, _)| self >= *since)
            .map_or(0, |(_, bits)| *bits);
        (1 << bits) - 1
    }

    /// What write confinement with this ABI leaves open, oldest first.
    pub fn gaps(self) -> impl Iterator<Item = Gap> {
        Gap::ALL
            .into_iter()
            .filter(move |gap| self < gap.closed_since())
    }
}

impl fmt::Display for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// Something that write confinement cannot do before a certain ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gap {
    /// Renames between two directories of the same writable tree fail.
    Rename,
    /// Files outside the writable tree can be truncated by their path.
    Truncate,
    /// Devices that can be opened can be controlled by ioctl(2).
    DeviceIoctl,
    /// Daemons outside can be reached through the path of their socket.
    UnixSocketPath,
}

impl Gap {
    /// Every gap, oldest first.
    pub const ALL: [Self; 4] = [
        Self::Rename,
        Self::Truncate,
        Self::DeviceIoctl,
        Self::UnixSocketPath,
    ];

    /// The ABI that closed it.
    #[must_use]
    pub const fn closed_since(self) -> Abi {
        match self {
            Self::Rename => Abi::V2,
            Self::Truncate => Abi::V3,
            Self::DeviceIoctl => Abi::V5,
            Self::UnixSocketPath => Abi::V9,
        }
    }

    /// A stable name for machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Truncate => "truncate",
            Self::DeviceIoctl => "device_ioctl",
            Self::UnixSocketPath => "unix_socket_path",
        }
    }

    /// Whether a file outside the writable tree can be changed because of it.
    #[must_use]
    pub const fn lets_writes_through(self) -> bool {
        matches!(self, Self::Truncate)
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rename => "renames between directories of a writable tree fail",
            Self::Truncate => "files outside can be truncated by their path",
            Self::DeviceIoctl => "ioctl on devices is not limited",
            Self::UnixSocketPath => "daemons outside can be reached through their socket's path",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn masks_match_the_kernel_header() {
        let expected = [
            (1, 0x1fff),
            (2, 0x3fff),
            (3, 0x7fff),
            (4, 0x7fff),
            (5, 0xffff),
            (6, 0xffff),
            (7, 0xffff),
            (8, 0xffff),
            (9, 0x1_ffff),
        ];
        for (number, mask) in expected {
            assert_eq!(Abi::known(number).handled_access_fs(), mask, "ABI {number}");
        }
    }

    #[test]
    fn zero_is_no_abi() {
        assert_eq!(Abi::from_number(0), None);
    }

    #[test]
    fn gaps_close_one_by_one() {
        let gaps = |number| Abi::known(number).gaps().collect::<Vec<_>>();
        assert_eq!(gaps(1), Gap::ALL);
        assert_eq!(
            gaps(2),
            [Gap::Truncate, Gap::DeviceIoctl, Gap::UnixSocketPath]
        );
        assert_eq!(gaps(3), [Gap::DeviceIoctl, Gap::UnixSocketPath]);
        assert_eq!(gaps(4), [Gap::DeviceIoctl, Gap::UnixSocketPath]);
        assert_eq!(gaps(8), [Gap::UnixSocketPath]);
        assert_eq!(gaps(9), []);
    }

    #[test]
    fn every_named_abi_has_its_release() {
        for number in 1..=Abi::V9.number() {
            assert!(Abi::known(number).first_release().is_some(), "ABI {number}");
        }
        assert_eq!(Abi::known(10).first_release(), None);
    }

    proptest! {
        #[test]
        fn a_newer_abi_never_handles_less(older in 1u32.., step in 0u32..100) {
            let newer = Abi::known(older.saturating_add(step));
            let older = Abi::known(older);
            let (few, many) = (older.handled_access_fs(), newer.handled_access_fs());
            prop_assert_eq!(few & many, few);
            prop_assert!(newer.gaps().count() <= older.gaps().count());
        }
    }
}
