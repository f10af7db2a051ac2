//! What processes of a test leave behind, wherever it went: adopted, named and ended here.
//!
//! For runners, which execute each case in a process of its own. That does not depend on who may look at whom, as
//! the search of a [`Stage`](crate::Stage) does. Children are waited for by their number, so a runner's own ones
//! can still be waited for where they were started.

use std::fs;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

use crate::wait::{self, Deadline};

/// Makes whatever loses its parent below this process a child of it.
///
/// # Panics
/// Never: nothing refuses that.
pub fn adopt() {
    set_child_subreaper(Some(getpid())).expect("nothing refuses that");
}

/// The children of this process, zombies among them; those that its first thread has started or adopted.
///
/// # Panics
/// Where the kernel has no lists of children.
#[must_use]
pub fn children() -> Vec<u32> {
    let pid = getpid().as_raw_nonzero();
    let list = fs::read_to_string(format!("/proc/self/task/{pid}/children"));
    let list = list.expect("a kernel with lists of children");
    list.split_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect()
}

/// A number that the kernel gave, as it wants to have it back.
///
/// # Panics
/// If no process can have it.
#[must_use]
pub fn to_pid(pid: u32) -> Pid {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    raw.expect("the kernel's own number")
}

/// Waits for one that has ended or is about to.
///
/// # Panics
/// If it is no child of this process.
pub fn collect(pid: u32) {
    waitpid(Some(to_pid(pid)), WaitOptions::empty()).expect("a child of ours");
}

/// Gives all children until the deadline to end, ends the rest, and names these.
///
/// # Panics
/// When the kernel refuses what it cannot refuse.
pub fn end_all(deadline: Deadline) -> Vec<String> {
    let mut left = Vec::new();
    // Those below a child that ends come to this process in turn, hence again until nobody is.
    loop {
        let children = children();
        if children.is_empty() {
            return left;
        }
        for pid in children {
            if !wait::pid_gone(pid, deadline) {
                left.push(format!("{pid} ({})", command_of(pid)));
                kill_process(to_pid(pid), Signal::KILL).expect("a child of ours");
            }
            collect(pid);
        }
    }
}

/// What it executes, on one line.
#[must_use]
pub fn command_of(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    words.trim_end().to_owned()
}
