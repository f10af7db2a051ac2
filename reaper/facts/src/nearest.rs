//! The descendants of a process that are nearest to it, no more than asked for: for whoever wants to look
//! at some of them, in a tree of any size. `tree` finds all.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use xioflow_sys::Errno;

use crate::lists::{Missing, list_children, threads_of};
use crate::path::proc_path;
use crate::{CannotTell, Note, process_note};

/// Those that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nearest {
    /// Parents before their children. Zombies are among them.
    pub processes: Vec<Note>,
    /// Whether these are all of them.
    pub complete: bool,
}

/// Finds the first `max` descendants of `root`, its children before theirs.
///
/// Nothing is done about a process that changes its parent meanwhile: it may be missing.
///
/// # Errors
/// [`CannotTell`] where the children of `root` cannot be listed; the kernel has no list of them
/// without `CONFIG_PROC_CHILDREN`.
pub fn nearest_descendants(root: u32, max: usize) -> Result<Nearest, CannotTell> {
    let mut nearest = Nearest {
        processes: Vec::new(),
        complete: true,
    };
    let mut to_visit = VecDeque::from(children_of_all_threads(root)?);
    while let Some(pid) = to_visit.pop_front() {
        if nearest.processes.len() >= max {
            nearest.complete = false;
            break;
        }
        match process_note(pid) {
            Ok(Some(note)) => nearest.processes.push(note),
            Ok(None) => continue,
            Err(_) => nearest.complete = false,
        }
        match children_of_all_threads(pid) {
            Ok(children) => to_visit.extend(children),
            Err(_) => nearest.complete = false,
        }
    }
    Ok(nearest)
}

fn children_of_all_threads(pid: u32) -> Result<Vec<u32>, CannotTell> {
    let mut children = Vec::new();
    for thread in threads_of(pid)? {
        match list_children(pid, thread) {
            Ok(of_thread) => children.extend(of_thread),
            Err(Missing::Answer(reason)) => return Err(reason),
            Err(Missing::File) => {
                return Err(CannotTell::Unreadable {
                    path: proc_path!("/proc/thread-self/children"),
                    errno: Errno::ENOENT,
                });
            }
        }
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    /// A shell with `count` children, all of them there.
    fn shell(count: usize) -> Child {
        let script = "n=$1; while [ $n -gt 0 ]; do sleep 60 & n=$((n-1)); done; echo; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script, "sh", &std::format!("{count}")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut stdout = shell.stdout.take().expect("piped");
        stdout.read_exact(&mut [0]).expect("a line");
        shell
    }

    fn end(mut shell: Child) {
        let all = nearest_descendants(shell.id(), 64).expect("listed");
        for process in all.processes {
            let pid = std::format!("{}", process.pid);
            Command::new("kill").arg(pid).status().expect("kill runs");
        }
        shell.wait().expect("waited for");
    }

    #[test]
    fn all_are_found_where_there_are_few() {
        let shell = shell(3);
        let found = nearest_descendants(shell.id(), 8).expect("listed");
        end(shell);
        assert_eq!((found.processes.len(), found.complete), (3, true));
    }

    #[test]
    fn no_more_are_looked_at_than_asked_for() {
        let shell = shell(3);
        let found = nearest_descendants(shell.id(), 2).expect("listed");
        end(shell);
        assert_eq!((found.processes.len(), found.complete), (2, false));
    }
}
