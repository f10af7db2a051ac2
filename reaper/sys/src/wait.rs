//! Waiting for children, and what they used.

use core::ptr;

use linux_raw_sys::general as raw;

use crate::{Errno, Pid};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndKind {
    /// It called exit with this status.
    Exited {
        /// 0 to 255.
        code: i32,
    },
    /// This signal ended it.
    Killed {
        /// The number.
        signal: i32,
        /// Whether memory was dumped.
        core: bool,
    },
}

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Which; also the parent's number for it when it is 1.
    pub pid: u32,
    /// How.
    pub how: EndKind,
}

/// Looks at any child that has ended, and leaves it as it is. `None`: there are children, and
/// none has ended.
///
/// # Errors
/// ECHILD when there is no child at all: the proof that a subreaper's tree is empty.
pub fn peek_any() -> Result<Option<Ended>, Errno> {
    waitid(raw::P_ALL, 0, raw::WNOHANG | raw::WNOWAIT)
}

/// Looks at one child and leaves it as it is; `None` while it lives.
///
/// # Errors
/// ECHILD when it is no child of ours.
pub fn peek(child: Pid) -> Result<Option<Ended>, Errno> {
    waitid(raw::P_PID, child.number(), raw::WNOHANG | raw::WNOWAIT)
}

/// Takes the status of one child that has ended; its number may be used again after this.
///
/// # Errors
/// ECHILD when it is no child of ours.
pub fn reap(child: Pid) -> Result<Option<Ended>, Errno> {
    waitid(raw::P_PID, child.number(), raw::WNOHANG)
}

/// Waits for one child to end and takes its status.
///
/// # Errors
/// ECHILD when it is no child of ours; EINTR.
pub fn wait(child: Pid) -> Result<Option<Ended>, Errno> {
    waitid(raw::P_PID, child.number(), 0)
}

fn waitid(which: u32, id: u32, flags: u32) -> Result<Option<Ended>, Errno> {
    // SAFETY: an all-zero siginfo is a valid value: integers, and pointers that are null.
    let mut info: raw::siginfo_t = unsafe { core::mem::zeroed() };
    // __WALL: children made by clone(2) with another exit signal, or none, count as well.
    let flags = flags | raw::WEXITED | raw::__WALL;
    let usage = ptr::null_mut::<u8>();
    // SAFETY: the kernel fills one siginfo, which is local and outlives the call; no usage is
    // asked for.
    unsafe { call!(waitid, which, id, &raw mut info, flags, usage) }?;
    // SAFETY: waitid(2) has filled the fields of SIGCHLD, or left all of them zero; integers
    // are valid either way.
    let (code, child) = unsafe {
        let info = info.__bindgen_anon_1.__bindgen_anon_1;
        (info.si_code, info._sifields._sigchld)
    };
    let status = child._status;
    let how = match u32::try_from(code) {
        Ok(raw::CLD_EXITED) => EndKind::Exited { code: status },
        Ok(raw::CLD_KILLED) => EndKind::Killed {
            signal: status,
            core: false,
        },
        Ok(raw::CLD_DUMPED) => EndKind::Killed {
            signal: status,
            core: true,
        },
        _ => return Ok(None),
    };
    Ok(Some(Ended {
        pid: child._pid.unsigned_abs(),
        how,
    }))
}

/// What a status of wait(2) says, of a process that has ended.
#[must_use]
pub const fn end_of_status(status: i32) -> EndKind {
    match status & 0x7f {
        0 => EndKind::Exited {
            code: status >> 8 & 0xff,
        },
        signal => EndKind::Killed {
            signal,
            core: status & 0x80 != 0,
        },
    }
}

/// What the children that were waited for have used, and those that they waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// Processor time in user mode, in microseconds.
    pub user_us: u64,
    /// Processor time in kernel mode, in microseconds.
    pub system_us: u64,
    /// The largest resident set of any one of them, in KiB.
    pub max_rss_kib: u64,
}

/// Adds up what children have used (`RUSAGE_CHILDREN`).
#[must_use]
pub fn children_usage() -> ChildUsage {
    // SAFETY: an all-zero `rusage` is a valid value of a plain structure of integers.
    let mut usage: raw::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills one `rusage`, which is local and outlives the call.
    let answer = unsafe { call!(getrusage, raw::RUSAGE_CHILDREN, &raw mut usage) };
    debug_assert!(answer.is_ok(), "the arguments are constant");
    let micros = |time: raw::__kernel_old_timeval| {
        u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0)
    };
    ChildUsage {
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[expect(clippy::zombie_processes, reason = "what is tested here waits for it")]
    fn run(script: &str) -> Pid {
        let child = Command::new("/bin/sh")
            .args(["-c", script])
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        Pid::new(child.id()).expect("a child has a number above 1")
    }

    #[test]
    fn a_status_is_seen_before_it_is_taken() {
        let child = run("exit 7");
        let expected = Ended {
            pid: child.number(),
            how: EndKind::Exited { code: 7 },
        };
        while peek(child).expect("our child").is_none() {
            std::thread::yield_now();
        }
        assert_eq!(peek(child), Ok(Some(expected)));
        assert_eq!(reap(child), Ok(Some(expected)));
        assert_eq!(reap(child), Err(Errno::ECHILD));
    }

    #[test]
    fn a_signal_is_told_from_a_status() {
        let child = run("kill -TERM $$");
        let ended = wait(child).expect("our child").expect("it ends");
        assert_eq!(
            ended.how,
            EndKind::Killed {
                signal: 15,
                core: false
            }
        );
    }

    #[test]
    fn what_children_use_is_counted() {
        let child = run("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
        wait(child).expect("our child");
        let usage = children_usage();
        assert!(usage.user_us + usage.system_us > 0);
        assert!(usage.max_rss_kib > 0);
    }
}
