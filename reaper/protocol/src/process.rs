//! What is said of processes on the wire. Twins of the types in `xioflow-facts` and of the
//! supervisor's records; both ends convert at their edge.

use alloc::vec::Vec;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// What tells one process from every other, also after its number is used again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Identity {
    /// Process id, in the helper's pid namespace.
    #[n(0)]
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks after boot at which it started.
    #[n(1)]
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`, without its dashes.
    #[n(2)]
    pub boot_id: [u8; 16],
    /// Inode of a pidfd for it, where the kernel makes that unique for the boot (Linux 6.9).
    #[n(3)]
    pub pidfd_inode: Option<u64>,
}

/// A PID namespace that was made for one tree. The kernel ends everyone in it when its init ends.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PidNamespace {
    /// Its init, a process of the helper's program, as the helper sees it.
    #[n(0)]
    pub init: Identity,
    /// Inode of `/proc/<init>/ns/pid`; given out again only after the namespace has ended.
    #[n(1)]
    pub inode: u64,
    /// Whether it belongs to a user namespace of its own, since the helper had no privilege.
    #[n(2)]
    pub user_namespace: bool,
}

/// How a process ended, as wait(2) says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Exit {
    /// It called exit.
    #[n(0)]
    Exited {
        /// The exit status, 0 to 255.
        #[n(0)]
        code: i32,
    },
    /// A signal ended it.
    #[n(1)]
    Signaled {
        /// The signal's number.
        #[n(0)]
        signal: i32,
        /// Whether a core dump was written.
        #[n(1)]
        core: bool,
    },
}

/// A process that lives, or lived, beside or after the command's own.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ProcessNote {
    /// Process id.
    #[n(0)]
    pub pid: u32,
    /// Start time in ticks after boot; with the boot id, its identity.
    #[n(1)]
    pub start_ticks: u64,
    /// The kernel's name for the program (`comm`, at most 15 bytes): never its arguments,
    /// which may be secrets.
    #[n(2)]
    pub command: ByteVec,
    /// Effective user id; null when it could not be read.
    #[n(3)]
    pub uid: Option<u32>,
}

/// A process that outlived the command and was still there after the settle time.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Survivor {
    /// Who.
    #[n(0)]
    pub process: ProcessNote,
    /// What became of it.
    #[n(1)]
    pub end: SurvivorEnd,
}

/// What became of a survivor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SurvivorEnd {
    /// It ended, and we saw how.
    #[n(0)]
    Ended(#[n(0)] Exit),
    /// It is gone, but its own parent waited for it, so how it ended is not known.
    #[n(1)]
    GoneUnobserved,
    /// It could not be ended.
    #[n(2)]
    Alive(#[n(0)] WhyAlive),
    /// It has ended and is still in the process table, a zombie: somebody else has to wait for it
    /// first, such as a tracer from outside the tree. It can do nothing any more.
    #[n(3)]
    Unreaped,
}

/// Why a process is still there after SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum WhyAlive {
    /// It is in an uninterruptible sleep (state `D`).
    #[n(0)]
    Uninterruptible,
    /// The kernel refused the signal (EPERM).
    #[n(1)]
    Permission,
    /// The system gave no reason.
    #[n(2)]
    Unknown,
}

impl ProcessNote {
    /// Makes a note from plain values.
    #[must_use]
    pub fn new(pid: u32, start_ticks: u64, command: Vec<u8>, uid: Option<u32>) -> Self {
        Self {
            pid,
            start_ticks,
            command: command.into(),
            uid,
        }
    }
}
