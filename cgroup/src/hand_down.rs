//! Hands controllers to the children of a group: `cgroup.subtree_control`.
//!
//! Neighbours: `domain` for its leaves, `prepare` for the root, where processes stand in the way.

use rustix::io::Errno;

use crate::controller::{Controller, Controllers};
use crate::directory::Directory;
use crate::error::GroupError;
use crate::nested;

/// The file.
const FILE: &str = "cgroup.subtree_control";

/// What the children of a group can use.
pub(crate) fn enabled(group: &Directory) -> Result<Controllers, GroupError> {
    Ok(Controllers::parse(&group.read(FILE)?))
}

/// What a group could hand to its children.
pub(crate) fn available(group: &Directory) -> Result<Controllers, GroupError> {
    Ok(Controllers::parse(&group.read("cgroup.controllers")?))
}

/// Enables what is not enabled yet, all at once. What was enabled before stays so.
///
/// The kernel takes all of the names or none, and takes one again that is enabled: two that do
/// this at the same time do not disturb each other.
pub(crate) fn enable(group: &Directory, wanted: Controllers) -> Result<(), GroupError> {
    let missing = wanted.without(enabled(group)?);
    if missing.is_empty() {
        return Ok(());
    }
    let lacking = missing.without(available(group)?);
    if !lacking.is_empty() {
        return Err(GroupError::NotHandedDown {
            directory: group.path().to_owned(),
            controllers: lacking,
        });
    }
    group
        .write(FILE, &order(missing))
        .or_else(|refused| explain(group, missing, refused))
}

/// What a refusal means: the kernel's own words for these are "device or resource busy", "operation
/// not supported" and "no such file or directory".
fn explain(group: &Directory, missing: Controllers, refused: GroupError) -> Result<(), GroupError> {
    let directory = group.path().to_owned();
    Err(if refused.is(Errno::BUSY) {
        let processes = nested::members(group)?;
        GroupError::HoldsProcesses {
            directory,
            processes,
        }
    } else if refused.is(Errno::OPNOTSUPP) {
        GroupError::Threaded { directory }
    } else if refused.is(Errno::NOENT) {
        // Taken away between the look and the order, or with the group itself.
        GroupError::NotHandedDown {
            directory,
            controllers: missing,
        }
    } else {
        refused
    })
}

/// `+memory +pids`.
fn order(controllers: Controllers) -> String {
    let names: Vec<_> = controllers.iter().map(Controller::name).collect();
    format!("+{}", names.join(" +"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_order_has_a_sign_for_each() {
        assert_eq!(order(Controllers::parse("pids memory")), "+memory +pids");
        assert_eq!(order(Controllers::parse("cpu")), "+cpu");
    }

    fn fake(available: &str, enabled: &str) -> (tempfile::TempDir, Directory) {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("cgroup.controllers"), available).expect("a fake file");
        fs::write(dir.path().join(FILE), enabled).expect("a fake file");
        let directory = Directory::open_plain(dir.path()).expect("a fake group");
        (dir, directory)
    }

    #[test]
    fn what_is_enabled_is_not_written_again() {
        let (dir, group) = fake("cpu memory pids\n", "memory pids\n");
        enable(&group, Controllers::parse("memory pids")).expect("nothing to do");
        let content = fs::read_to_string(dir.path().join(FILE)).expect("a fake file");
        assert_eq!(content, "memory pids\n");
        enable(&group, Controllers::parse("memory cpu")).expect("a plain file takes all");
        let content = fs::read_to_string(dir.path().join(FILE)).expect("a fake file");
        assert!(content.starts_with("+cpu"), "{content}");
        assert!(!content.starts_with("+cpu +memory"), "{content}");
    }

    #[test]
    fn what_the_group_does_not_have_is_named() {
        let (_dir, group) = fake("cpu\n", "");
        let error =
            enable(&group, Controllers::parse("cpu memory io")).expect_err("two are missing");
        assert!(error.to_string().contains("memory io"), "{error}");
    }
}
