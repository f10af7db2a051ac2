//! Landlock: which version the kernel has, and how a thread restricts itself.

use core::ptr;

use linux_raw_sys::landlock as raw;

use crate::{AsFd, BorrowedFd, Errno, OwnedFd};

/// The ABI version of the running kernel's Landlock, 1 or more.
///
/// # Errors
/// ENOSYS when the kernel was built without it, EOPNOTSUPP when it is switched off at boot.
///
/// Source: kernel user-space API guide, "Landlock", and landlock_create_ruleset(2).
pub fn landlock_abi() -> Result<u32, Errno> {
    // SAFETY: with a null attribute of size 0 and the version flag the kernel reads no memory
    // and makes no descriptor; it only answers with a number.
    let version = unsafe {
        call!(
            landlock_create_ruleset,
            ptr::null::<u8>(),
            0usize,
            raw::LANDLOCK_CREATE_RULESET_VERSION
        )
    }?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

/// What may be done to files below a folder; a bit for each right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRights(u64);

impl FileRights {
    /// Reading files and listing folders.
    pub const READ: Self =
        Self((raw::LANDLOCK_ACCESS_FS_READ_FILE | raw::LANDLOCK_ACCESS_FS_READ_DIR) as u64);
    /// Making regular files, writing them, and taking files away.
    pub const WRITE: Self = Self(
        (raw::LANDLOCK_ACCESS_FS_WRITE_FILE
            | raw::LANDLOCK_ACCESS_FS_MAKE_REG
            | raw::LANDLOCK_ACCESS_FS_REMOVE_FILE) as u64,
    );

    /// All that a version of Landlock can forbid.
    const fn all(abi: u32) -> Self {
        // Up to the last right of the first version, which is the highest of its bits.
        let mut rights = 2 * raw::LANDLOCK_ACCESS_FS_MAKE_SYM - 1;
        if abi >= 2 {
            rights |= raw::LANDLOCK_ACCESS_FS_REFER;
        }
        if abi >= 3 {
            rights |= raw::LANDLOCK_ACCESS_FS_TRUNCATE;
        }
        if abi >= 5 {
            rights |= raw::LANDLOCK_ACCESS_FS_IOCTL_DEV;
        }
        Self(rights as u64)
    }
}

/// A set of rules that is not in force yet.
#[derive(Debug)]
pub struct Ruleset(OwnedFd);

impl Ruleset {
    /// A set that forbids everything a version of Landlock can, but for signals: files, TCP (since
    /// 4) and abstract sockets (since 6).
    ///
    /// # Errors
    /// As in landlock_create_ruleset(2).
    pub fn forbidding_all(abi: u32) -> Result<Self, Errno> {
        let net = raw::LANDLOCK_ACCESS_NET_BIND_TCP | raw::LANDLOCK_ACCESS_NET_CONNECT_TCP;
        let attributes = raw::landlock_ruleset_attr {
            handled_access_fs: FileRights::all(abi).0,
            handled_access_net: if abi >= 4 { u64::from(net) } else { 0 },
            scoped: if abi >= 6 {
                u64::from(raw::LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)
            } else {
                0
            },
        };
        // SAFETY: the kernel reads one structure, borrowed for the call; what an older kernel does
        // not know of it is 0. The descriptor that comes back is new, and close-on-exec.
        unsafe {
            let returned = call!(
                landlock_create_ruleset,
                &raw const attributes,
                size_of::<raw::landlock_ruleset_attr>(),
                0u32
            )?;
            Ok(Self(OwnedFd::from_call(returned)))
        }
    }

    /// Lets some of it be done below a folder.
    ///
    /// # Errors
    /// As in landlock_add_rule(2): EINVAL for rights that the set does not forbid, or that a file
    /// which is no folder cannot have.
    pub fn allow_below(&self, folder: BorrowedFd<'_>, rights: FileRights) -> Result<(), Errno> {
        let rule = raw::landlock_path_beneath_attr {
            allowed_access: rights.0,
            parent_fd: folder.raw(),
        };
        // SAFETY: the kernel reads one structure, which it expects without padding, as it is; both
        // descriptors are borrowed for the call.
        unsafe {
            call!(
                landlock_add_rule,
                self.0.as_fd(),
                raw::landlock_rule_type::LANDLOCK_RULE_PATH_BENEATH as u32,
                &raw const rule,
                0u32
            )
        }
        .map(drop)
    }

    /// Puts this thread under the rules, for ever, and what it forks later.
    ///
    /// # Errors
    /// EPERM without `no_new_privs` and without `CAP_SYS_ADMIN`; E2BIG below 16 others.
    pub fn restrict_self(&self) -> Result<(), Errno> {
        // SAFETY: takes no pointer.
        unsafe { call!(landlock_restrict_self, self.0.as_fd(), 0u32) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_forbids_what_the_one_before_does() {
        // From the kernel's header: how many rights each version knows.
        for (abi, known) in [
            (1, 13),
            (2, 14),
            (3, 15),
            (4, 15),
            (5, 16),
            (6, 16),
            (9, 16),
        ] {
            let rights = FileRights::all(abi).0;
            assert_eq!(rights, (1 << known) - 1, "version {abi}");
        }
    }
}
