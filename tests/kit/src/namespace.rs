//! Who is in a PID namespace, seen from outside.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::wait;

/// The living processes of the namespace with this inode, its init included, by the numbers that they have
/// out here. Those that are in one below it are not among them.
///
/// # Panics
/// Without a mounted `/proc`.
#[must_use]
pub fn members(inode: u64) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        // What has ended has no namespaces any more.
        .filter(|pid| fs::metadata(format!("/proc/{pid}/ns/pid")).is_ok_and(|it| it.ino() == inode))
        .filter(|pid| wait::is_alive(*pid))
        .collect()
}

/// The number that a process has in the innermost of its namespaces; `None` if it is gone.
#[must_use]
pub fn inner_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}
