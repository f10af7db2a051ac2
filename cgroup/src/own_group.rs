//! Looks at the group of the calling process: rights, controllers, company. Reads only.
//!
//! Neighbours: `hierarchy` says where it is, `verdict` what to make of it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use crate::answer::Answer;
use crate::controller::Controllers;
use crate::flat;
use crate::hierarchy::Place;
use crate::host::Host;
use crate::mountinfo::MountOptions;
use crate::unit::Delegated;

/// The content of `cgroup.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupType {
    /// An ordinary group.
    Domain,
    /// An ordinary group whose children are threaded.
    DomainThreaded,
    /// Below a threaded group and unusable as it is.
    DomainInvalid,
    /// Holds threads of processes that belong to a group above.
    Threaded,
}

impl GroupType {
    fn parse(text: &str) -> Option<Self> {
        match text.trim_end() {
            "domain" => Some(Self::Domain),
            "domain threaded" => Some(Self::DomainThreaded),
            "domain invalid" => Some(Self::DomainInvalid),
            "threaded" => Some(Self::Threaded),
            _ => None,
        }
    }

    /// Its name in `cgroup.type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Domain => "domain",
            Self::DomainThreaded => "domain threaded",
            Self::DomainInvalid => "domain invalid",
            Self::Threaded => "threaded",
        }
    }
}

/// The group of the calling process in version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnGroup {
    /// As `/proc/self/cgroup` names it, from the root of the control group namespace.
    pub path: PathBuf,
    /// Where it is in the file system.
    pub directory: PathBuf,
    /// Whether it is the real root of the hierarchy, which has no `cgroup.events`.
    pub is_root: Answer,
    /// Its type; null for the real root, and when it could not be read.
    pub group_type: Option<GroupType>,
    /// Whether children can be made in it.
    pub can_make_children: Answer,
    /// Whether processes can be moved into and out of it (`cgroup.procs`).
    pub can_move_processes: Answer,
    /// Whether controllers can be handed to children (`cgroup.subtree_control`).
    pub can_enable_controllers: Answer,
    /// Owner of the directory; null when it could not be read.
    pub owner_uid: Option<u32>,
    /// `cgroup.controllers`; null when it could not be read.
    pub available: Option<Controllers>,
    /// `cgroup.subtree_control`; null when it could not be read.
    pub enabled: Option<Controllers>,
    /// Whether it has `cgroup.kill`. The real root never has.
    pub kill_file: Answer,
    /// Processes in it beside the caller; null when the list could not be read.
    pub other_processes: Option<usize>,
    /// Those of them that are outside the caller's pid namespace.
    pub hidden_processes: Option<usize>,
    /// Whether the mount is read-only.
    pub read_only_mount: bool,
    /// What the hierarchy was told when it was mounted.
    pub options: MountOptions,
    /// Whether systemd has given it away.
    pub delegated: Delegated,
}

impl OwnGroup {
    pub(crate) fn observe(path: PathBuf, place: Place, host: &Host) -> Self {
        let dir = &place.directory;
        let procs = read(&dir.join("cgroup.procs"));
        Self {
            is_root: negate(existence(&dir.join("cgroup.events"))),
            group_type: read(&dir.join("cgroup.type")).and_then(|text| GroupType::parse(&text)),
            can_make_children: access(dir, Access::WRITE_OK | Access::EXEC_OK),
            can_move_processes: access(&dir.join("cgroup.procs"), Access::WRITE_OK),
            can_enable_controllers: access(&dir.join("cgroup.subtree_control"), Access::WRITE_OK),
            owner_uid: std::fs::metadata(dir).ok().map(|metadata| metadata.uid()),
            available: read(&dir.join("cgroup.controllers")).map(|text| Controllers::parse(&text)),
            enabled: read(&dir.join("cgroup.subtree_control"))
                .map(|text| Controllers::parse(&text)),
            kill_file: existence(&dir.join("cgroup.kill")),
            other_processes: procs
                .as_deref()
                .map(|text| count_others(text, std::process::id())),
            hidden_processes: procs.as_deref().map(flat::hidden_processes),
            read_only_mount: place.mount.read_only,
            options: place.mount.options,
            delegated: Delegated::observe(&path, dir, &place.mount.point, host),
            path,
            directory: place.directory,
        }
    }
}

/// Process 0 stands for one outside our pid namespace: all of them are others.
fn count_others(procs: &str, own_pid: u32) -> usize {
    procs
        .lines()
        .filter(|line| line.parse() != Ok(own_pid))
        .count()
}

fn existence(path: &Path) -> Answer {
    Answer::of_existence(rustix::fs::stat(path))
}

const fn negate(answer: Answer) -> Answer {
    match answer {
        Answer::Yes => Answer::No,
        Answer::No => Answer::Yes,
        unknown @ Answer::CannotTell { .. } => unknown,
    }
}

fn access(path: &Path, wanted: Access) -> Answer {
    Answer::of_access(rustix::fs::accessat(CWD, path, wanted, AtFlags::EACCESS))
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_no_company() {
        assert_eq!(count_others("17\n", 17), 0);
        assert_eq!(count_others("17\n170\n1\n", 17), 2);
        assert_eq!(count_others("0\n0\n17\n", 17), 2);
        assert_eq!(count_others("", 17), 0);
    }

    #[test]
    fn types_are_read_whole() {
        assert_eq!(GroupType::parse("domain\n"), Some(GroupType::Domain));
        assert_eq!(
            GroupType::parse("domain invalid\n"),
            Some(GroupType::DomainInvalid)
        );
        assert_eq!(GroupType::parse("domainish\n"), None);
    }
}
