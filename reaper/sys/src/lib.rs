//! Typed system calls for the helper, without a C library: the only unsafe it has.
//!
//! Each function is one system call. It borrows the descriptors it is given, owns those it
//! returns, and answers with a typed [`Errno`]. Numbers come from `syscalls`, structures and
//! constants from `linux-raw-sys`. What is not a system call stays here only because it cannot
//! be said in safe code: the entry point ([`freestanding!`]), the heap, and vectors for execve(2).
//!
//! Programs with a standard library may link this crate too (`xioflow-facts` does): nothing here
//! defines a symbol of the C library unless [`freestanding!`] is expanded.
//!
//! On systems other than Linux the crate is empty.

#![no_std]
#![cfg(target_os = "linux")]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod register;

mod errno;
mod exec;
mod fd;
mod file;
mod heap;
#[cfg(feature = "lacking")]
mod lacking;
mod landlock;
mod limit;
mod namespace;
mod poll;
mod privilege;
mod process;
mod seccomp;
mod signal;
mod socket;
#[doc(hidden)]
pub mod start;
mod time;
mod wait;

/// What a helper that is built for tests reads in its environment to lack features of the kernel. No other program
/// contains it.
pub const TEST_VARIABLE: &str = "XIOFLOW_TEST_WITHOUT";

pub use errno::Errno;
pub use exec::{ExecStrings, execve};
pub use fd::{
    AsFd, BorrowedFd, CWD, LastResortFd, OwnedFd, RawFd, StandardFd, close_on_exec, dup3,
    duplicate_above,
};
pub use file::{
    DirEntries, FileKind, FileStat, OpenFlags, access_execute, chdir, close_on_exec_from, fstat,
    fstatfs_type, fsync, getdents, openat, pread, read, readlinkat, renameat, statat, unlinkat,
    write,
};
pub use heap::Heap;
pub use landlock::{FileRights, Ruleset, landlock_abi};
pub use limit::{getrlimit, setpriority, setrlimit, umask};
pub use namespace::{
    NamespaceKind, PIDFD_GET_INFO, empty_bounding_set, may_make_namespaces, mount_proc,
    pidfd_parent, pidfd_status, receive_mounts_only, set_parent_death_signal, unshare,
};
pub use poll::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, PollFd, ppoll};
pub use privilege::{
    Capabilities, capget, capset, clear_ambient_capabilities, set_child_subreaper, set_dumpable,
    set_name, set_no_new_privs, set_ordinary, set_real_time,
};
pub use process::{
    Fork, GroupId, Pid, SingleThread, exit_group, fork, fork_into, getegid, geteuid, getgid,
    getpid, getppid, getuid, group_of, kill, kill_group, pidfd_open, pidfd_signal,
    pidfd_signal_group, probe, session_of, setsid,
};
pub use seccomp::{AUDIT_ARCH, FilterStep, FilterTest, FilterWord, Sysno, put_on_filter};
pub use signal::{Signal, SignalFd, SignalSet, Signalled, default_disposition, set_mask, signalfd};
pub use socket::{
    Received, SocketKind, peer_user, recv, recv_waiting, send, shutdown_write, socketpair,
};
pub use start::{Entry, keep_only};
pub use time::{Clock, now};
pub use wait::{
    ChildUsage, EndKind, Ended, children_usage, end_of_status, peek, peek_any, reap, wait,
};
