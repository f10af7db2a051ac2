//! What this process may do, and what it may never get: prctl(2) and capabilities(7).

use linux_raw_sys::general as raw;
use linux_raw_sys::prctl;

use crate::Errno;
use crate::register::Register;
use core::ffi::CStr;

fn prctl_number(option: u32, value: usize) -> Result<(), Errno> {
    // SAFETY: the options that come here take a number, never a pointer.
    unsafe { call!(prctl, option, value, 0usize, 0usize, 0usize) }.map(drop)
}

/// Makes orphans among our descendants our children.
///
/// # Errors
/// EINVAL before Linux 3.4.
pub fn set_child_subreaper() -> Result<(), Errno> {
    prctl_number(prctl::PR_SET_CHILD_SUBREAPER, 1)
}

/// Whether other processes of the same user may look into this one.
///
/// # Errors
/// None that these arguments can cause.
pub fn set_dumpable(dumpable: bool) -> Result<(), Errno> {
    #[cfg(feature = "lacking")]
    crate::lacking::learn();
    prctl_number(prctl::PR_SET_DUMPABLE, usize::from(dumpable))
}

/// Gives up, for ever and for all descendants, to gain privileges by exec.
///
/// # Errors
/// EINVAL before Linux 3.5.
pub fn set_no_new_privs() -> Result<(), Errno> {
    prctl_number(prctl::PR_SET_NO_NEW_PRIVS, 1)
}

/// Empties the ambient set of capabilities.
///
/// # Errors
/// EINVAL before Linux 4.3, which has no such set.
pub fn clear_ambient_capabilities() -> Result<(), Errno> {
    // The sub-command is a small constant.
    prctl_number(
        prctl::PR_CAP_AMBIENT,
        prctl::PR_CAP_AMBIENT_CLEAR_ALL.register(),
    )
}

/// Puts this process before every ordinary one (sched(7), `SCHED_RR` at the lowest priority); its
/// children are ordinary ones again.
///
/// # Errors
/// EPERM without `CAP_SYS_NICE` and `RLIMIT_RTPRIO`.
pub fn set_real_time() -> Result<(), Errno> {
    schedule(raw::SCHED_RR | raw::SCHED_RESET_ON_FORK, 1)
}

/// Makes this process an ordinary one again (`SCHED_OTHER`).
///
/// # Errors
/// None that a process without another policy can meet.
pub fn set_ordinary() -> Result<(), Errno> {
    schedule(raw::SCHED_NORMAL, 0)
}

fn schedule(policy: u32, priority: i32) -> Result<(), Errno> {
    // SAFETY: the kernel reads one `struct sched_param`, which is one int, borrowed for the call.
    unsafe {
        call!(
            sched_setscheduler,
            0usize,
            policy,
            core::ptr::from_ref(&priority)
        )
    }
    .map(drop)
}

/// Names this thread; the kernel keeps 15 bytes.
///
/// # Errors
/// None that a valid string can cause.
pub fn set_name(name: &CStr) -> Result<(), Errno> {
    // SAFETY: the kernel reads a NUL-terminated string, borrowed for the call.
    unsafe {
        call!(
            prctl,
            prctl::PR_SET_NAME,
            name.as_ptr(),
            0usize,
            0usize,
            0usize
        )
    }
    .map(drop)
}

/// The sets of capabilities of a thread, a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// In force.
    pub effective: u64,
    /// May be put in force.
    pub permitted: u64,
    /// May pass to a program that asks for them.
    pub inheritable: u64,
}

const HEADER: raw::__user_cap_header_struct = raw::__user_cap_header_struct {
    version: raw::_LINUX_CAPABILITY_VERSION_3,
    pid: 0,
};

const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "splits a 64-bit set into its halves"
)]
const fn halves(set: u64) -> [u32; 2] {
    [set as u32, (set >> 32) as u32]
}

/// The capabilities of this thread.
///
/// # Errors
/// As in capget(2).
pub fn capget() -> Result<Capabilities, Errno> {
    let mut header = HEADER;
    let zero = raw::__user_cap_data_struct {
        effective: 0,
        permitted: 0,
        inheritable: 0,
    };
    let mut data = [zero; 2];
    // SAFETY: version 3 means two data structures; header and data are local.
    unsafe { call!(capget, &raw mut header, data.as_mut_ptr()) }?;
    Ok(Capabilities {
        effective: join(data[0].effective, data[1].effective),
        permitted: join(data[0].permitted, data[1].permitted),
        inheritable: join(data[0].inheritable, data[1].inheritable),
    })
}

/// Sets the capabilities of this thread.
///
/// # Errors
/// EPERM when that would add what the thread has not.
pub fn capset(sets: Capabilities) -> Result<(), Errno> {
    let mut header = HEADER;
    let [effective, permitted, inheritable] =
        [sets.effective, sets.permitted, sets.inheritable].map(halves);
    let half = |at: usize| raw::__user_cap_data_struct {
        effective: effective[at],
        permitted: permitted[at],
        inheritable: inheritable[at],
    };
    let data = [half(0), half(1)];
    // SAFETY: version 3 means two data structures, which the kernel only reads; both local.
    unsafe { call!(capset, &raw mut header, data.as_ptr()) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_can_be_set_to_what_they_are() {
        let sets = capget().expect("readable");
        assert_eq!(
            sets.effective & !sets.permitted,
            0,
            "in force but not permitted"
        );
        capset(sets).expect("no change is always allowed");
        assert_eq!(capget(), Ok(sets));
    }
}
