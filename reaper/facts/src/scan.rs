//! Every process at once: how descendants are found where the kernel keeps no lists of children.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::str;

use xioflow_sys::{CWD, capget, getpid, readlinkat};

use crate::lists::{each_number, list_numbers};
use crate::path::proc_path;
use crate::read::read_whole;
use crate::tree::ROUNDS_MAX;
use crate::{CannotTell, Descendant, Listing, StatLine, Way, read_stat};

/// Number of `CAP_SYS_PTRACE` (capabilities(7)): who has it is shown everybody.
const SYS_PTRACE: u32 = 19;

/// Every process that this one can see, in no order, zombies among them.
///
/// Only complete if `/proc` is that of this process's own pid namespace and hides nobody from it (the option
/// `hidepid` does).
///
/// # Errors
/// [`CannotTell`] when `/proc` cannot be listed.
pub fn processes() -> Result<Listing, CannotTell> {
    let path = proc_path!("/proc");
    let all = list_numbers(path).map_err(CannotTell::unreadable(path))?;
    // The first process of a pid namespace lives as long as any other does.
    let mut complete = all.contains(&1) && is_own_proc() && shows_everybody();
    let mut processes = Vec::with_capacity(all.len());
    for pid in all {
        let mut line = StatLine::new();
        match read_stat(pid, &mut line) {
            Ok(Some(stat)) => processes.push(Descendant::new(&stat)),
            Ok(None) => {}
            Err(_) => complete = false,
        }
    }
    Ok(Listing {
        processes,
        hidden: Vec::new(),
        way: Way::Scan,
        complete,
    })
}

/// Passes on the number of each process that this one can see, in ascending order and while it looks: also
/// of those that begin meanwhile, as long as numbers ascend.
///
/// # Errors
/// [`CannotTell`] when `/proc` cannot be listed.
pub fn each_process(take: impl FnMut(u32)) -> Result<(), CannotTell> {
    let path = proc_path!("/proc");
    each_number(path, take).map_err(CannotTell::unreadable(path))
}

/// Whether `/proc` counts as this process does: not after unshare(1) without `--mount-proc`.
fn is_own_proc() -> bool {
    let mut name = [0; 16];
    let Ok(len) = readlinkat(CWD, proc_path!("/proc/self").as_c_str(), &mut name) else {
        return false;
    };
    let name = name.get(..len).and_then(|name| str::from_utf8(name).ok());
    name.and_then(|name| name.parse().ok()) == Some(getpid())
}

/// Whether nobody is hidden from this process; no when that cannot be told. That the first process is
/// shown does not say it: it may be a process of this very user.
fn shows_everybody() -> bool {
    let may_trace = || capget().is_ok_and(|sets| sets.effective >> SYS_PTRACE & 1 == 1);
    let mut mounts = Vec::new();
    let read = read_whole(&proc_path!("/proc/self/mountinfo"), &mut mounts);
    (read.is_ok() && !hides(&mounts)) || may_trace()
}

/// Whether the file system at `/proc` leaves processes out of its list, from proc_pid_mountinfo(5). The
/// last one that was mounted there counts.
fn hides(mounts: &[u8]) -> bool {
    let lines = mounts.split(|&byte| byte == b'\n');
    let mut at_proc =
        lines.filter(|line| line.split(|&byte| byte == b' ').nth(4) == Some(b"/proc"));
    let Some(options) = at_proc
        .next_back()
        .and_then(|line| line.rsplit(|&byte| byte == b' ').next())
    else {
        return true;
    };
    let value = |option: &[u8]| option.strip_prefix(b"hidepid=").map(<[u8]>::to_vec);
    let mut named = options.split(|&byte| byte == b',').filter_map(value);
    // Those that only close the files of others make their lines unreadable, which is noticed by itself.
    named.any(|value| !matches!(&value[..], b"0" | b"off" | b"1" | b"noaccess"))
}

/// Finds descendants by the parents of all processes.
///
/// Whoever was seen below a parent that was gone when its own turn came has another one by now, so all is
/// read again. An adopter's children are found also where it is not shown itself.
pub(crate) fn scan(root: u32, adopter: Option<u32>) -> Result<Listing, CannotTell> {
    for _ in 1..ROUNDS_MAX {
        let all = processes()?;
        // Of one that is not complete anyway nothing better comes.
        if !all.complete || !has_strays(&all.processes) {
            return Ok(below(root, adopter, all));
        }
    }
    let listing = below(root, adopter, processes()?);
    Ok(Listing {
        complete: false,
        ..listing
    })
}

/// Whether somebody's parent is not there. That of the first process, and of those that came from
/// another pid namespace, is 0.
fn has_strays(all: &[Descendant]) -> bool {
    let pids: BTreeSet<_> = all.iter().map(|process| process.pid).collect();
    all.iter()
        .any(|it| it.parent != 0 && !pids.contains(&it.parent))
}

/// Everything below `root`, parents before children.
fn below(root: u32, adopter: Option<u32>, all: Listing) -> Listing {
    let mut by_parent: BTreeMap<u32, Vec<Descendant>> = BTreeMap::new();
    for process in all.processes {
        by_parent.entry(process.parent).or_default().push(process);
    }
    let mut found = by_parent.remove(&root).unwrap_or_default();
    let adopted = adopter.and_then(|adopter| by_parent.remove(&adopter));
    found.extend(adopted.unwrap_or_default());
    let mut next = 0;
    while let Some(process) = found.get(next) {
        next += 1;
        let children = by_parent.remove(&process.pid).unwrap_or_default();
        found.extend(children);
    }
    Listing {
        processes: found,
        ..all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::{end, family, pids};

    #[test]
    fn every_process_is_listed_and_those_that_must_be_there_are() {
        let (child, numbers) = family();
        let all = processes().expect("listed");
        assert!(all.complete, "this test sees its whole namespace");
        let found = pids(&all);
        assert!(found.contains(&1) && found.contains(&std::process::id()));
        assert!(numbers.iter().all(|pid| found.contains(pid)));
        let session = all.processes.iter().find(|it| it.pid == child.id());
        assert!(session.is_some_and(|it| it.parent == std::process::id()));
        end(child, numbers);
    }

    #[test]
    fn who_is_left_out_of_the_list_makes_it_incomplete() {
        let mount = |options: &str| {
            let line = "22 1 0:5 / /proc rw,nosuid shared:5 - proc proc";
            std::format!("1 1 8:1 / / rw - ext4 /dev/vda rw\n{line} {options}\n").into_bytes()
        };
        for shows in [
            "rw",
            "rw,hidepid=0",
            "rw,hidepid=off,gid=4",
            "rw,hidepid=noaccess",
        ] {
            assert!(!hides(&mount(shows)), "{shows}");
        }
        for hiding in [
            "rw,hidepid=2",
            "rw,hidepid=invisible,gid=4",
            "rw,hidepid=ptraceable",
        ] {
            assert!(hides(&mount(hiding)), "{hiding}");
            let later = [mount(hiding), mount("rw")].concat();
            assert!(!hides(&later), "a later mount covers an earlier one");
        }
        assert!(hides(b""), "nothing is mounted there");
    }

    #[test]
    fn whose_parent_went_meanwhile_is_not_taken_for_somebody_elses() {
        let process = |pid, parent| Descendant {
            pid,
            parent,
            group: pid,
            session: pid,
            start_ticks: 0,
            state: crate::ProcessState::Sleeping,
            threads: 1,
        };
        assert!(!has_strays(&[
            process(1, 0),
            process(7, 1),
            process(9, 7),
            process(8, 0)
        ]));
        assert!(has_strays(&[process(1, 0), process(9, 7)]));
    }
}
