//! The calls of Landlock that a probe needs. The only unsafe of this crate.
//!
//! Neighbour: `support` gives the answers a meaning. Errors are the kernel's own numbers.

#![expect(
    unsafe_code,
    reason = "system calls without a C library have no safe form"
)]

use core::ptr;

use linux_raw_sys::errno;
use syscalls::{Errno, Sysno, syscall};

/// "Function not implemented" on this architecture.
pub(crate) const ENOSYS: i32 = errno::ENOSYS.cast_signed();
/// "Operation not supported" on this architecture.
pub(crate) const EOPNOTSUPP: i32 = errno::EOPNOTSUPP.cast_signed();

/// `LANDLOCK_CREATE_RULESET_VERSION`.
const CREATE_RULESET_VERSION: usize = 1 << 0;

/// The first field of `struct landlock_ruleset_attr`, which every ABI accepts alone: the kernel
/// takes the size along and treats missing later fields as zero.
#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
}

/// Asks landlock_create_ruleset(2) for the ABI number.
pub(crate) fn abi_version() -> Result<u32, i32> {
    // SAFETY: with this flag the kernel takes a null attribute of size 0 and nothing else
    // (landlock_create_ruleset(2)), so it neither reads nor writes memory of ours and opens no
    // descriptor. No safe wrapper exists that works without the standard library.
    let answer = unsafe {
        syscall!(
            Sysno::landlock_create_ruleset,
            ptr::null::<RulesetAttr>(),
            0,
            CREATE_RULESET_VERSION
        )
    };
    let number = answer.map_err(Errno::into_raw)?;
    // The kernel's answer is a C int that is not negative; anything else cannot be.
    Ok(u32::try_from(number).unwrap_or(0))
}

/// Opens a ruleset that handles these rights, and closes it again.
pub(crate) fn open_and_close_ruleset(handled_access_fs: u64) -> Result<(), i32> {
    let attr = RulesetAttr { handled_access_fs };
    // SAFETY: `attr` is a local that outlives the call, laid out as the kernel's structure begins,
    // and the size passed is its own, so the kernel reads exactly these bytes. On success the
    // kernel opens a descriptor (close-on-exec) that nobody else knows.
    let opened = unsafe {
        syscall!(
            Sysno::landlock_create_ruleset,
            &raw const attr,
            size_of::<RulesetAttr>(),
            0
        )
    };
    let fd = opened.map_err(Errno::into_raw)?;
    // SAFETY: `fd` was opened three lines above and was given to nobody, so closing it cannot take
    // a descriptor from under its owner. An owned descriptor type would need the standard library.
    let closed = unsafe { syscall!(Sysno::close, fd) };
    closed.map(|_| ()).map_err(Errno::into_raw)
}
