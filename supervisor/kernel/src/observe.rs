//! What the system says of processes, as the kernel's own types. The only caller of
//! `xioflow-facts`.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use rustix::time::{ClockId, clock_gettime};
use xioflow_facts::{ProcessState, Verification};
use xioflow_journal::Stream;
use xioflow_protocol::ProcessNote;

use crate::deadline::timespec_until;
use crate::recovery::Liveness;
use crate::result::{PipeHolder, ProcessIdentity, ProcessNamespaces};

/// Who else has the pipe with this inode open. Processes that cannot be looked into are left out.
pub(crate) fn pipe_holders(inode: u64, stream: Stream) -> Option<Holders> {
    let found = xioflow_facts::pipe_holders(inode).ok()?;
    let holder = |holder: xioflow_facts::PipeHolder| PipeHolder {
        pid: holder.pid,
        command: String::from_utf8_lossy(&holder.command).into_owned(),
        descriptor: holder.fd,
        stream: stream.as_str().to_owned(),
    };
    Some(Holders {
        found: found.holders.into_iter().map(holder).collect(),
        uninspected: found.uninspected,
    })
}

/// Who keeps output pipes open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holders {
    /// Those that were found.
    pub(crate) found: Vec<PipeHolder>,
    /// How many processes this user may not look into, so that they may hold one too.
    pub(crate) uninspected: u32,
}

/// Some processes of a tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members {
    pub(crate) members: Vec<SeenMember>,
    /// Whether these are all, and every one could be looked into.
    pub(crate) is_complete: bool,
}

/// One process of a tree, and the inodes of the sockets that it has open.
#[derive(Debug, Clone)]
pub(crate) struct SeenMember {
    pub(crate) pid: u32,
    pub(crate) command: Vec<u8>,
    pub(crate) sockets: Vec<u64>,
}

/// Looks into the descendants of a process that are nearest to it, `max` at most; `None` if they cannot be
/// listed.
pub(crate) fn nearest_members(root: u32, max: usize) -> Option<Members> {
    let found = xioflow_facts::nearest_descendants(root, max).ok()?;
    let mut is_complete = found.complete;
    let look = |note: xioflow_facts::Note| {
        let sockets = xioflow_facts::socket_inodes(note.pid);
        is_complete &= sockets.is_ok();
        SeenMember {
            pid: note.pid,
            command: note.command,
            sockets: sockets.unwrap_or_default(),
        }
    };
    let members = found.processes.into_iter().map(look).collect();
    Some(Members {
        members,
        is_complete,
    })
}

/// What a tree uses at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeUse {
    /// Processes and threads.
    pub(crate) tasks: u64,
    /// Memory; what several processes share counts for each.
    pub(crate) resident_bytes: u64,
    /// Processor time of those that live and those that were waited for.
    pub(crate) cpu_time: Duration,
    pub(crate) pids: Vec<u32>,
    /// Whether everybody was seen.
    pub(crate) is_complete: bool,
}

/// How long one look at a tree may take: a tree that forks without pause can be followed for ever.
const TREE_USE_PATIENCE: Duration = Duration::from_secs(2);

/// Looks at what the descendants of `holder` use, `init` left out. Else why that cannot be told.
pub(crate) fn tree_use(holder: u32, init: Option<u32>) -> Result<TreeUse, String> {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(now).unwrap_or_default();
    let found = xioflow_facts::tree_usage(holder, init, now + TREE_USE_PATIENCE)
        .map_err(|reason| reason.to_string())?;
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX);
    Ok(TreeUse {
        tasks: found.tasks.into(),
        resident_bytes: found.resident_pages.saturating_mul(page_bytes),
        cpu_time: found.processor_time,
        pids: found.pids,
        is_complete: found.complete,
    })
}

/// How many processors the system has in use; `None` if it does not say.
pub(crate) fn processors() -> Option<u32> {
    xioflow_facts::processors()
}

/// The memory of processes where what they share counts in parts; `None` if one may not be looked into so closely.
pub(crate) fn proportional_bytes(pids: &[u32]) -> Option<u64> {
    let mut sum = 0_u64;
    for pid in pids {
        let bytes = xioflow_facts::proportional_bytes(*pid).ok()?;
        sum = sum.saturating_add(bytes.unwrap_or(0));
    }
    Some(sum)
}

/// The name that the working directory of this process had; `None` if the system does not say.
pub(crate) fn former_folder() -> Option<PathBuf> {
    let name = xioflow_facts::former_folder().ok()?;
    Some(PathBuf::from(OsString::from_vec(name)))
}

/// The file mode creation mask of this process; `None` if the system does not say.
pub(crate) fn own_umask() -> Option<u32> {
    xioflow_facts::own_umask().ok()
}

/// The children of this process, zombies among them; `None` if they cannot be listed.
pub(crate) fn own_children() -> Option<Vec<u32>> {
    let ours = std::process::id();
    // Below each thread of ours: the list of children that the system keeps is one of a thread's.
    let all = xioflow_facts::descendants(ours).ok()?;
    let children = all
        .processes
        .into_iter()
        .filter(|process| process.parent == ours);
    Some(children.map(|process| process.pid).collect())
}

/// Who a process is, for people; `None` if there is none or it cannot be read.
pub(crate) fn process_note(pid: u32) -> Option<ProcessNote> {
    let note = xioflow_facts::process_note(pid).ok()??;
    Some(ProcessNote::new(
        note.pid,
        note.start_ticks,
        note.command,
        note.uid,
    ))
}

/// The namespaces in which process ids and start times have the meaning that they have here; `None` if the
/// system does not say.
pub(crate) fn own_namespaces() -> Option<ProcessNamespaces> {
    let here = xioflow_facts::own_namespaces().ok()?;
    Some(ProcessNamespaces {
        pid: here.pid,
        time: here.time,
    })
}

/// Whether `/proc` numbers processes as the system calls of this process do; else why that cannot be told.
pub(crate) fn proc_is_ours() -> Result<bool, String> {
    xioflow_facts::proc_is_ours().map_err(|reason| reason.to_string())
}

/// Whether `/proc` names the boot, without which no identity is whole; else why not.
pub(crate) fn boot_is_told() -> Result<(), String> {
    let boot = xioflow_facts::boot_id().map(drop);
    boot.map_err(|reason| reason.to_string())
}

/// Looks whether a recorded process lives.
pub(crate) fn liveness(recorded: &ProcessIdentity) -> Liveness {
    let Some(boot_id) = parse_boot_id(&recorded.boot_id) else {
        return Liveness::CannotTell;
    };
    match xioflow_facts::boot_id() {
        Ok(now) if now != boot_id => return Liveness::OtherBoot,
        Ok(_) => {}
        Err(_) => return Liveness::CannotTell,
    }
    // Another boot has no namespace of this one. Within a boot, what is not found here may live there.
    match recorded.namespaces {
        _ if proc_is_ours() == Ok(false) => return Liveness::CannotTell,
        Some(there) if own_namespaces() != Some(there) => return Liveness::Elsewhere,
        _ => {}
    }
    let identity = xioflow_facts::Identity {
        pid: recorded.pid,
        start_ticks: recorded.start_ticks,
        boot_id,
        pidfd_inode: recorded.pidfd_inode,
    };
    match xioflow_facts::verify(&identity) {
        Verification::Original => Liveness::Alive,
        Verification::Unreaped => Liveness::Unreaped,
        Verification::NotOriginal => Liveness::Gone,
        Verification::CannotTell => Liveness::CannotTell,
    }
}

/// A descriptor that means a recorded process and no other.
///
/// # Errors
/// How it is with that process, if that is anything but alive; [`Liveness::CannotTell`] also where
/// there is no descriptor left.
pub(crate) fn hold(recorded: &ProcessIdentity) -> Result<OwnedFd, Liveness> {
    let pid = i32::try_from(recorded.pid).ok().and_then(Pid::from_raw);
    let pidfd = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    // Verified after the pidfd is open: it means the process that is looked at now.
    match (liveness(recorded), pidfd) {
        (Liveness::Alive, Some(Ok(pidfd))) => Ok(pidfd),
        (Liveness::Alive, _) => Err(Liveness::CannotTell),
        (other, _) => Err(other),
    }
}

/// Waits until a recorded process has ended, if it lives, for at most `patience`.
pub(crate) fn wait_gone(recorded: &ProcessIdentity, patience: Duration) {
    if let Ok(pidfd) = hold(recorded) {
        let until = Instant::now().checked_add(patience);
        let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
        // An interrupted wait is as good as one that is over: whoever waits looks again.
        poll(&mut polled, timespec_until(until).as_ref()).ok();
    }
}

/// Whether there is a process with this number, whoever it is and whatever may be seen of it.
pub(crate) fn is_there(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    !matches!(test_kill_process(pid), Err(Errno::SRCH))
}

/// One process, as it was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start_ticks: u64,
    /// Whether it only waits to be waited for.
    pub(crate) has_ended: bool,
    /// Whether no signal wakes it at the moment.
    pub(crate) is_uninterruptible: bool,
}

/// All processes of this moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scan {
    pub(crate) processes: Vec<Met>,
    /// Whether nobody can have been hidden.
    pub(crate) is_complete: bool,
}

/// Looks at every process; an empty, incomplete answer if the system does not say.
pub(crate) fn scan() -> Scan {
    let Ok(found) = xioflow_facts::processes() else {
        return Scan::default();
    };
    let met = |it: &xioflow_facts::Descendant| Met {
        pid: it.pid,
        parent: it.parent,
        group: it.group,
        session: it.session,
        start_ticks: it.start_ticks,
        has_ended: it.has_ended(),
        is_uninterruptible: it.state == ProcessState::Uninterruptible,
    };
    Scan {
        processes: found.processes.iter().map(met).collect(),
        is_complete: found.complete,
    }
}

/// Looks at one process again; `None` if there is none, or it cannot be looked at.
pub(crate) fn look_at(pid: u32) -> Option<Met> {
    let mut line = xioflow_facts::StatLine::new();
    let stat = xioflow_facts::read_stat(pid, &mut line).ok()??;
    Some(Met {
        pid,
        parent: stat.parent,
        group: stat.group,
        session: stat.session,
        start_ticks: stat.start_ticks,
        has_ended: stat.has_ended(),
        is_uninterruptible: stat.state == ProcessState::Uninterruptible,
    })
}

pub(crate) fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::hex;

    fn me() -> ProcessIdentity {
        let me = xioflow_facts::identity(std::process::id())
            .unwrap()
            .unwrap();
        ProcessIdentity {
            pid: me.pid,
            pgid: None,
            start_ticks: me.start_ticks,
            boot_id: hex(&me.boot_id),
            pidfd_inode: me.pidfd_inode,
            os_start_time: None,
            command_fingerprint: None,
            namespaces: own_namespaces(),
            pid_namespace: None,
            cgroup_path: None,
            cgroup_id: None,
            cgroup_namespace: None,
        }
    }

    #[test]
    fn this_process_lives_and_another_with_its_number_does_not() {
        assert_eq!(liveness(&me()), Liveness::Alive);
        let reused = ProcessIdentity {
            start_ticks: me().start_ticks + 1,
            ..me()
        };
        assert_eq!(liveness(&reused), Liveness::Gone);
        let before = ProcessIdentity {
            boot_id: "00".repeat(16),
            ..me()
        };
        assert_eq!(liveness(&before), Liveness::OtherBoot);
        let here = me().namespaces.unwrap();
        let other_pids = ProcessNamespaces {
            pid: here.pid + 1,
            ..here
        };
        let other_clocks = ProcessNamespaces {
            time: here.time.map_or(Some(1), |time| Some(time + 1)),
            ..here
        };
        for other in [other_pids, other_clocks] {
            let there = |it| ProcessIdentity {
                namespaces: Some(other),
                ..it
            };
            assert_eq!(liveness(&there(me())), Liveness::Elsewhere);
            assert_eq!(liveness(&there(reused.clone())), Liveness::Elsewhere);
            assert_eq!(liveness(&there(before.clone())), Liveness::OtherBoot);
        }
        let of_an_older_release = ProcessIdentity {
            namespaces: None,
            ..me()
        };
        assert_eq!(liveness(&of_an_older_release), Liveness::Alive);
        let damaged = ProcessIdentity {
            boot_id: "no".to_owned(),
            ..me()
        };
        assert_eq!(liveness(&damaged), Liveness::CannotTell);
    }
}
