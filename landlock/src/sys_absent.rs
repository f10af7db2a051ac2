//! Stands in for the kernel's answers where there is no Linux: Landlock is not implemented.
//!
//! Neighbour: `support` gives the answers a meaning.

/// "Function not implemented", as BSD systems number it.
pub(crate) const ENOSYS: i32 = 78;
/// "Operation not supported", as BSD systems number it.
pub(crate) const EOPNOTSUPP: i32 = 102;

/// There is no such call.
pub(crate) fn abi_version() -> Result<u32, i32> {
    Err(ENOSYS)
}

/// There is no such call.
pub(crate) fn open_and_close_ruleset(_handled_access_fs: u64) -> Result<(), i32> {
    Err(ENOSYS)
}
