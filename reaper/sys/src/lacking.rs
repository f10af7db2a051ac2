//! Features of a kernel that a test takes away, so that what does without them meets their absence.
//!
//! Only in builds with the feature `lacking` (docs/decisions/0036); `cargo xtask tidy` sees to it that nothing that is
//! shipped has it. [`TEST_VARIABLE`] names what is missing, with commas between: `children` (the kernel keeps no lists of
//! children in `/proc`), `pidfd` (it has no process descriptors), `clone-into` (no process is made in another control
//! group), `group-kill` (control groups have no `cgroup.kill`).

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

use linux_raw_sys::general as raw;

use crate::{AsFd, Errno, OwnedFd, TEST_VARIABLE, read};

const CHILDREN: u32 = 1;
const PIDFD: u32 = 2;
const CLONE_INTO: u32 = 4;
const GROUP_KILL: u32 = 8;
/// Set once the environment was read.
const KNOWN: u32 = 16;

/// How much of the environment is looked at. Tests give a helper no other variable.
const ENVIRONMENT_LEN_MAX: usize = 4096;

static MISSING: AtomicU32 = AtomicU32::new(0);

/// What open(2) says of a file that is taken away.
pub(crate) fn file(path: &CStr) -> Result<(), Errno> {
    let path = path.to_bytes();
    let taken_away = path.ends_with(b"/children") && is_missing(CHILDREN)
        || path == b"cgroup.kill" && is_missing(GROUP_KILL);
    match taken_away {
        true => Err(Errno::ENOENT),
        false => Ok(()),
    }
}

/// What clone3(2) says to a flag that it does not know.
pub(crate) fn clone_into() -> Result<(), Errno> {
    match is_missing(CLONE_INTO) {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

/// What a call for process descriptors says when there are none.
pub(crate) fn pidfd() -> Result<(), Errno> {
    match is_missing(PIDFD) {
        true => Err(Errno::ENOSYS),
        false => Ok(()),
    }
}

/// The flags of clone(2) that such a kernel refuses.
pub(crate) fn clone_flags(flags: u64) -> Result<(), Errno> {
    match flags & u64::from(raw::CLONE_PIDFD) != 0 && is_missing(PIDFD) {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

/// Learns it while the process is dumpable: later its environment is closed to an ordinary user.
pub(crate) fn learn() {
    is_missing(KNOWN);
}

fn is_missing(feature: u32) -> bool {
    let mut missing = MISSING.load(Ordering::Relaxed);
    if missing & KNOWN == 0 {
        missing = from_environment() | KNOWN;
        MISSING.store(missing, Ordering::Relaxed);
    }
    missing & feature != 0
}

fn from_environment() -> u32 {
    // SAFETY: as in `openat`, with a constant string; that function would come back here.
    let file = unsafe {
        call!(
            openat,
            crate::CWD,
            c"/proc/self/environ".as_ptr(),
            raw::O_CLOEXEC,
            0u32
        )
        .map(|returned| OwnedFd::from_call(returned))
    };
    let mut text = [0; ENVIRONMENT_LEN_MAX];
    let len = file.and_then(|file| read(file.as_fd(), &mut text));
    let text = text.get(..len.unwrap_or(0)).unwrap_or_default();
    let mut entries = text.split(|&byte| byte == 0);
    let named = entries.find_map(|entry| {
        entry
            .strip_prefix(TEST_VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    });
    let words = named.unwrap_or_default().split(|&byte| byte == b',');
    words.map(feature).fold(0, |all, one| all | one)
}

fn feature(word: &[u8]) -> u32 {
    match word {
        b"children" => CHILDREN,
        b"pidfd" => PIDFD,
        b"clone-into" => CLONE_INTO,
        b"group-kill" => GROUP_KILL,
        _ => 0,
    }
}
