//! The system calls of a helper that holds a tree, as data.
//!
//! What is not listed is not made, and answered by ENOSYS: as by a kernel that does not have it, which
//! is what every caller here is prepared for. No call ends the helper, because with it the tree would be
//! let go. A new call of the loop, the ladder, the last word or the panic path belongs here.

use alloc::vec::Vec;

use xioflow_sys::{FilterTest, PIDFD_GET_INFO, Sysno};

/// A call that is allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    pub(super) call: Sysno,
    /// Arguments with which it is refused all the same.
    pub(super) unless: &'static [Unless],
}

/// One argument, and what it may not be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unless {
    /// Which, from 0.
    pub(super) argument: u8,
    pub(super) test: FilterTest,
}

/// A kernel has at most this many steps for one call; far below the 256 that a jump reaches.
const fn unless(argument: u8, test: FilterTest) -> Unless {
    Unless { argument, test }
}

/// `PROT_EXEC` of mmap(2).
const PROT_EXEC: u32 = 4;
/// `O_RDWR` and `O_TRUNC` of open(2), the same on both architectures.
const CHANGES_WHAT_IS_THERE: u32 = 0o2 | 0o1000;

/// Calls with whatever arguments.
const PLAIN: [Sysno; 31] = [
    // The loop: waiting, the control socket, the gate, time.
    Sysno::ppoll,
    // In its place where RLIMIT_NOFILE was lowered.
    Sysno::pselect6,
    Sysno::restart_syscall,
    Sysno::read,
    Sysno::recvmsg,
    Sysno::sendmsg,
    Sysno::shutdown,
    Sysno::clock_gettime,
    Sysno::close,
    Sysno::exit_group,
    // Who is there: /proc, and descriptors of processes.
    Sysno::getdents64,
    Sysno::readlinkat,
    Sysno::fstat,
    #[cfg(target_arch = "x86_64")]
    Sysno::newfstatat,
    #[cfg(target_arch = "aarch64")]
    Sysno::fstatat,
    Sysno::fstatfs,
    Sysno::pread64,
    Sysno::getpid,
    Sysno::getpgid,
    Sysno::getsid,
    Sysno::pidfd_open,
    Sysno::getrusage,
    // Waiting for them, and ending them.
    Sysno::waitid,
    Sysno::pidfd_send_signal,
    // The right to signal another user's process is put in force for one call.
    Sysno::capget,
    Sysno::capset,
    // The last word.
    Sysno::write,
    Sysno::fsync,
    Sysno::renameat2,
    Sysno::unlinkat,
    // Memory that is given back.
    Sysno::munmap,
    Sysno::madvise,
];

/// Calls that are allowed with some arguments only.
const CHECKED: [Allowed; 5] = [
    Allowed {
        call: Sysno::ioctl,
        // How a process has ended, and who its parent is, asked of its pidfd.
        unless: &[unless(1, FilterTest::Differs(PIDFD_GET_INFO))],
    },
    Allowed {
        call: Sysno::openat,
        unless: &[unless(2, FilterTest::AnyOf(CHANGES_WHAT_IS_THERE))],
    },
    Allowed {
        call: Sysno::mmap,
        unless: &[unless(2, FilterTest::AnyOf(PROT_EXEC))],
    },
    Allowed {
        call: Sysno::kill,
        // The helper's own group, the first process, and everybody.
        unless: &[
            unless(0, FilterTest::Equal(0)),
            unless(0, FilterTest::Equal(1)),
            unless(0, FilterTest::Equal(u32::MAX)),
        ],
    },
    Allowed {
        call: Sysno::sched_setscheduler,
        // Only its own thread.
        unless: &[unless(0, FilterTest::Above(0))],
    },
];

/// All of them.
pub(super) fn allowed() -> Vec<Allowed> {
    let plain = PLAIN.iter().map(|&call| Allowed { call, unless: &[] });
    plain.chain(CHECKED).collect()
}
