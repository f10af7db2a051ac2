//! Resource limits, the nice value and the file mode mask of this process.

use core::ptr;

use linux_raw_sys::general as raw;

use crate::Errno;

/// Sets the soft and hard limit of a resource, `RLIMIT_*`.
///
/// # Errors
/// As in setrlimit(2).
pub fn setrlimit(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let limit = raw::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: pid 0 is this process; the new limit is local and only read; no old one is asked.
    unsafe {
        call!(
            prlimit64,
            0u32,
            resource,
            &raw const limit,
            ptr::null_mut::<raw::rlimit64>()
        )
    }
    .map(drop)
}

/// The soft and hard limit of a resource.
///
/// # Errors
/// As in getrlimit(2).
pub fn getrlimit(resource: u32) -> Result<(u64, u64), Errno> {
    let mut limit = raw::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: pid 0 is this process; no new limit is given; the kernel fills a local value.
    unsafe {
        call!(
            prlimit64,
            0u32,
            resource,
            ptr::null::<raw::rlimit64>(),
            &raw mut limit
        )
    }?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Sets the nice value of this process; the kernel takes what is beyond -20 and 19 for those.
///
/// # Errors
/// EACCES when it would be less than it is, without `CAP_SYS_NICE` and beyond `RLIMIT_NICE`.
pub fn setpriority(nice: i32) -> Result<(), Errno> {
    // SAFETY: takes no pointer; 0 is this process.
    unsafe { call!(setpriority, raw::PRIO_PROCESS, 0u32, nice) }.map(drop)
}

/// Sets the file mode creation mask.
pub fn umask(mask: u32) {
    // SAFETY: takes no pointer; umask(2) always succeeds.
    let _old = unsafe { call!(umask, mask) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_resource_is_an_error() {
        assert_eq!(getrlimit(9999), Err(Errno::EINVAL));
        let (soft, hard) = getrlimit(raw::RLIMIT_NOFILE).expect("known resource");
        assert!(soft <= hard && soft > 0);
        setrlimit(raw::RLIMIT_NOFILE, soft, hard).expect("the same limits are allowed");
    }
}
