//! The children of this process without `/proc`: the last resort where that hides them, or cannot be read.
//!
//! waitid(2) says of any number whether it is a child of the caller's. Asked for every number that there can be, it
//! finds them all, by one quick call each, and needs neither a file nor a descriptor.

use alloc::vec::Vec;
use core::str;

use xioflow_sys::{Pid, peek};

use crate::path::proc_path;
use crate::read::read_short;

/// No process has this number or a higher one (`PID_MAX_LIMIT` of the kernel, 64 bits).
pub const PID_MAX_LIMIT: u32 = 4_194_304;

/// The number that no process of this pid namespace has or exceeds, `/proc/sys/kernel/pid_max`; the highest
/// that there can be where that cannot be read.
///
/// It can be raised later. Whoever asks early and keeps the answer asks fewer numbers for children, and finds none
/// above it.
#[must_use]
pub fn pid_max() -> u32 {
    let mut text = [0; 16];
    read_short(&proc_path!("/proc/sys/kernel/pid_max"), &mut text)
        .ok()
        .and_then(|text| str::from_utf8(text).ok()?.trim().parse().ok())
        .unwrap_or(PID_MAX_LIMIT)
}

/// The children of this process with a number below `pid_max`, zombies among them.
#[must_use]
pub fn children_by_number(pid_max: u32) -> Vec<u32> {
    // Any error is a no: of nobody else may it be said that it is ours.
    let is_ours = |pid: &Pid| peek(*pid).is_ok();
    let numbers = (0..pid_max).filter_map(Pid::new);
    numbers.filter(is_ours).map(Pid::number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_are_found_without_proc_and_nobody_else_is() {
        let sleeper = || {
            let mut sleep = Command::new("sleep");
            sleep
                .arg("60")
                .stdin(Stdio::null())
                .spawn()
                .expect("sleep runs")
        };
        let mut children = [sleeper(), sleeper()];
        children[0].kill().expect("killed");
        let found = children_by_number(pid_max());
        assert!(
            children.iter().all(|child| found.contains(&child.id())),
            "{found:?}"
        );
        // Tests beside this one have children as well; nobody else's are among them.
        let not_ours = [1, std::process::id(), std::os::unix::process::parent_id()];
        assert!(not_ours.iter().all(|pid| !found.contains(pid)), "{found:?}");
        let highest = children
            .iter()
            .map(std::process::Child::id)
            .max()
            .expect("two");
        let below = children_by_number(highest);
        assert!(!below.contains(&highest), "the bound is kept");
        for child in &mut children {
            child.kill().expect("killed, or not waited for");
            child.wait().expect("waited for");
        }
    }

    #[test]
    fn the_bound_of_numbers_is_that_of_the_kernel() {
        assert!((300..=PID_MAX_LIMIT).contains(&pid_max()));
        assert!(std::process::id() < pid_max());
    }
}
