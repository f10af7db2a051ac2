//! The one question about Landlock that has no safe wrapper: which version the kernel has.

use core::ptr;

use linux_raw_sys::landlock as raw;

use crate::Errno;

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
