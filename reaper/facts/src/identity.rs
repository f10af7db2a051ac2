//! What tells one process from every other, also after its number is used again.

use core::time::Duration;

use xioflow_sys::{
    AsFd, BorrowedFd, Errno, POLLIN, PollFd, fstat, fstatfs_type, pidfd_open, ppoll,
};

use crate::{CannotTell, StatLine, boot_id, read_stat};

/// Type of the file system of pidfds since Linux 6.9 (`PID_FS_MAGIC`), where the inode of a pidfd is
/// unique for the boot. Before that, all pidfds share one anonymous inode.
const PID_FS_MAGIC: u64 = 0x5049_4446;

/// Who a process is. Never the text of its command line: that is no evidence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Process id, in the reader's pid namespace.
    pub pid: u32,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// The boot it belongs to.
    pub boot_id: [u8; 16],
    /// Inode of a pidfd for it, where that is unique.
    pub pidfd_inode: Option<u64>,
}

/// Whether the process with a number is still the one that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// It is, and it lives.
    Original,
    /// It is, and it has ended: a zombie, whose number cannot be another's before somebody has
    /// waited for it.
    Unreaped,
    /// It is not: gone, another process, another boot.
    NotOriginal,
    /// The system did not say.
    CannotTell,
}

/// Says who the process with a number is; `None` when there is none.
///
/// # Errors
/// [`CannotTell`] when there may be one and it cannot be read.
pub fn identity(pid: u32) -> Result<Option<Identity>, CannotTell> {
    let boot_id = boot_id()?;
    let pidfd = pidfd_open(pid).ok();
    let pidfd_inode = pidfd.as_ref().and_then(|pidfd| pidfd_inode(pidfd.as_fd()));
    let mut line = StatLine::new();
    // Read after the pidfd was opened: were the number used again in between, the descriptor
    // would be dead, and the next look at either says so.
    let stat = read_stat(pid, &mut line)?;
    Ok(stat.map(|stat| Identity {
        pid,
        start_ticks: stat.start_ticks,
        boot_id,
        pidfd_inode,
    }))
}

/// The inode of a pidfd, where the kernel makes it unique for the boot.
#[must_use]
pub fn pidfd_inode(pidfd: BorrowedFd<'_>) -> Option<u64> {
    let kind = fstatfs_type(pidfd).ok()?;
    if kind != PID_FS_MAGIC {
        return None;
    }
    fstat(pidfd).ok().map(|stat| stat.inode)
}

/// Compares a recorded identity with the process that has its number now.
#[must_use]
pub fn verify(recorded: &Identity) -> Verification {
    match boot_id() {
        Ok(boot) if boot == recorded.boot_id => {}
        Ok(_) => return Verification::NotOriginal,
        Err(_) => return Verification::CannotTell,
    }
    let mut line = StatLine::new();
    match read_stat(recorded.pid, &mut line) {
        Ok(None) => Verification::NotOriginal,
        Ok(Some(stat)) if stat.start_ticks != recorded.start_ticks => Verification::NotOriginal,
        Ok(Some(stat)) if stat.has_ended() => verify_inode(recorded, Verification::Unreaped),
        Ok(Some(_)) => verify_inode(recorded, Verification::Original),
        // There is one with the number. Its descriptor says who it is where the kernel makes that unique.
        Err(CannotTell::Hidden { .. }) => verify_hidden(recorded),
        Err(_) => Verification::CannotTell,
    }
}

/// Compares a process that `/proc` does not show: by the inode alone, which no other process of this boot has.
fn verify_hidden(recorded: &Identity) -> Verification {
    if recorded.pidfd_inode.is_none() {
        return Verification::CannotTell;
    }
    // Readable means ended; and while it is open, its number is nobody else's.
    let ended = match pidfd_open(recorded.pid) {
        Ok(pidfd) => ppoll(
            &mut [PollFd::new(Some(pidfd.as_fd()), POLLIN)],
            Some(Duration::ZERO),
        ),
        Err(Errno::ESRCH) => return Verification::NotOriginal,
        Err(_) => return Verification::CannotTell,
    };
    match ended {
        Ok(0) => verify_inode(recorded, Verification::Original),
        Ok(_) => verify_inode(recorded, Verification::Unreaped),
        Err(_) => Verification::CannotTell,
    }
}

/// The finest evidence, where the kernel has it. A number and a tick can come again (the counter of
/// process ids can be set back); what could not be compared then is not known to be the same.
fn verify_inode(recorded: &Identity, same: Verification) -> Verification {
    let pidfd = pidfd_open(recorded.pid);
    let found = match &pidfd {
        Ok(pidfd) => pidfd_inode(pidfd.as_fd()),
        Err(Errno::ESRCH) => return Verification::NotOriginal,
        // Kernels without pidfds have nothing finer than the tick.
        Err(Errno::ENOSYS) => None,
        Err(_) => return Verification::CannotTell,
    };
    match (recorded.pidfd_inode, found) {
        (Some(expected), Some(inode)) if expected == inode => same,
        (Some(_), Some(_)) => Verification::NotOriginal,
        (None, None) => same,
        // It belongs to this boot, so one of the two looks has failed.
        (Some(_), None) | (None, Some(_)) => Verification::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep runs")
    }

    fn end(mut child: Child) {
        child.kill().expect("killed");
        child.wait().expect("waited for");
    }

    #[test]
    fn a_living_process_is_the_original() {
        let child = sleeper();
        let who = identity(child.id()).expect("readable").expect("alive");
        assert_eq!(verify(&who), Verification::Original);
        end(child);
        assert_eq!(verify(&who), Verification::NotOriginal);
    }

    #[test]
    fn any_other_evidence_is_another_process() {
        let child = sleeper();
        let who = identity(child.id()).expect("readable").expect("alive");
        let others = [
            Identity {
                start_ticks: who.start_ticks + 1,
                ..who.clone()
            },
            Identity {
                boot_id: [7; 16],
                ..who.clone()
            },
            Identity {
                pidfd_inode: who.pidfd_inode.map(|inode| inode + 1),
                ..who.clone()
            },
        ];
        for other in others.iter().filter(|&other| *other != who) {
            assert_eq!(verify(other), Verification::NotOriginal, "{other:?}");
        }
        let coarser = Identity {
            pidfd_inode: None,
            ..who.clone()
        };
        let expected = match who.pidfd_inode {
            Some(_) => Verification::CannotTell,
            None => Verification::Original,
        };
        assert_eq!(verify(&coarser), expected);
        end(child);
    }

    #[test]
    fn a_zombie_has_ended_and_keeps_its_number() {
        let mut child = sleeper();
        let who = identity(child.id()).expect("readable").expect("alive");
        child.kill().expect("killed");
        let pid = xioflow_sys::Pid::new(child.id()).expect("a child");
        while xioflow_sys::peek(pid).expect("our child").is_none() {
            std::thread::yield_now();
        }
        assert_eq!(verify(&who), Verification::Unreaped);
        let another = Identity {
            start_ticks: who.start_ticks + 1,
            ..who.clone()
        };
        assert_eq!(verify(&another), Verification::NotOriginal);
        child.wait().expect("waited for");
        assert_eq!(verify(&who), Verification::NotOriginal);
    }

    #[test]
    fn one_that_is_hidden_is_known_by_its_inode_or_not_at_all() {
        let mut child = sleeper();
        let who = identity(child.id()).expect("readable").expect("alive");
        let Some(inode) = who.pidfd_inode else {
            std::println!("skipped: inodes of pidfds are not unique before Linux 6.9");
            return end(child);
        };
        assert_eq!(verify_hidden(&who), Verification::Original);
        let with = |pidfd_inode| Identity {
            pidfd_inode,
            ..who.clone()
        };
        assert_eq!(
            verify_hidden(&with(Some(inode + 1))),
            Verification::NotOriginal
        );
        assert_eq!(verify_hidden(&with(None)), Verification::CannotTell);
        child.kill().expect("killed");
        let pid = xioflow_sys::Pid::new(child.id()).expect("a child");
        while xioflow_sys::peek(pid).expect("our child").is_none() {
            std::thread::yield_now();
        }
        assert_eq!(verify_hidden(&who), Verification::Unreaped);
        child.wait().expect("waited for");
        assert_eq!(verify_hidden(&who), Verification::NotOriginal);
    }

    #[test]
    fn a_number_without_a_process_has_no_identity() {
        assert_eq!(identity(4_194_305), Ok(None));
    }
}
