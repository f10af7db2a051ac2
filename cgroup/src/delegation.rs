//! Gathers the facts about the own group and judges them. Reads only.
//!
//! Neighbours: the pure parsers, `own_group` which looks, `verdict` which judges.

use std::io;
use std::path::{Path, PathBuf};

use crate::hierarchy::{Hierarchy, Place, locate, locate_directory};
use crate::host::Host;
use crate::membership::{self, Membership};
use crate::mountinfo::{self, Mount};
use crate::name::HOST;
use crate::own_group::OwnGroup;
use crate::verdict::{Verdict, judge};

/// Whether the calling process may use control groups, with the facts behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// Which hierarchies are mounted; null when that could not be learned.
    pub hierarchy: Option<Hierarchy>,
    /// The own group in version 2, or the one above when it is a `xioflow-host`; null when there is
    /// none or it is not visible.
    pub own: Option<OwnGroup>,
    /// What a remedy depends on.
    pub host: Host,
    /// What it amounts to.
    pub verdict: Verdict,
}

/// Looks at the group of the calling process. Changes nothing, anywhere.
///
/// The answer is of the moment: a process can be moved at any time.
#[must_use]
pub fn delegation() -> Delegation {
    examine(Path::new("/proc/self"), Host::observe(), own_place)
}

/// The same for a group that the caller names by its directory instead of its own.
pub(crate) fn delegation_of(directory: &Path) -> Delegation {
    let place = |_: &Membership, mounts: &[Mount]| locate_directory(directory, mounts);
    examine(Path::new("/proc/self"), Host::observe(), place)
}

/// The own group, in the words of `delegation_of`.
fn own_place(membership: &Membership, mounts: &[Mount]) -> Option<(PathBuf, Place)> {
    let (_, place) = locate(membership, mounts);
    membership.unified.clone().zip(place)
}

/// Looks with another folder in place of `/proc/self`.
fn examine(
    proc_self: &Path,
    host: Host,
    place: impl FnOnce(&Membership, &[Mount]) -> Option<(PathBuf, Place)>,
) -> Delegation {
    match read_sources(proc_self) {
        Ok((membership, mounts)) => {
            let membership = above_host(membership);
            let (hierarchy, _) = locate(&membership, &mounts);
            let own = place(&membership, &mounts);
            let own = own.map(|(path, place)| OwnGroup::observe(path, place, &host));
            let verdict = judge(&hierarchy, membership.unified.as_ref(), own.as_ref(), &host);
            Delegation {
                hierarchy: Some(hierarchy),
                own,
                host,
                verdict,
            }
        }
        Err((subject, errno)) => {
            let verdict = Verdict::CannotTell { subject, errno };
            Delegation {
                hierarchy: None,
                own: None,
                host,
                verdict,
            }
        }
    }
}

/// The group that was delegated is the one above, where a supervisor moved the caller down.
fn above_host(mut membership: Membership) -> Membership {
    let own = membership.unified.as_deref();
    if own.and_then(Path::file_name) == Some(HOST.as_ref()) {
        membership.unified = own.and_then(Path::parent).map(Path::to_owned);
    }
    membership
}

type Unreadable = (PathBuf, Option<i32>);

fn read_sources(proc_self: &Path) -> Result<(Membership, Vec<Mount>), Unreadable> {
    let cgroup = proc_self.join("cgroup");
    let membership = match std::fs::read(&cgroup) {
        Ok(content) => membership::parse(&content).map_err(|_| (cgroup, None))?,
        // A kernel without control groups has no such file, though it has /proc.
        Err(error) if is_absent(&error) && proc_self.is_dir() => Membership::default(),
        Err(error) => return Err((cgroup, error.raw_os_error())),
    };
    let mountinfo = proc_self.join("mountinfo");
    let content = std::fs::read(&mountinfo).map_err(|error| (mountinfo, error.raw_os_error()))?;
    Ok((membership, mountinfo::parse(&content)))
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::controller::Controllers;
    use crate::verdict::{Reason, Shortfall};

    const USER: Host = Host {
        uid: 1000,
        systemd: true,
        user_manager: true,
    };

    /// A group, a mount point and a `/proc/self` made of plain files.
    struct FakeHost {
        dir: tempfile::TempDir,
    }

    impl FakeHost {
        fn new(cgroup: &str) -> Self {
            let dir = tempfile::tempdir().expect("a folder for the fake host");
            let host = Self { dir };
            fs::create_dir(host.path("proc")).expect("a fake /proc/self");
            fs::create_dir(host.path("mount")).expect("a fake mount point");
            fs::write(host.path("proc/cgroup"), cgroup).expect("a fake membership");
            let mountinfo = format!(
                "30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n",
                host.path("mount").display()
            );
            fs::write(host.path("proc/mountinfo"), mountinfo).expect("a fake mount list");
            host
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn with_group(self, group: &str, controllers: &str, procs: &str) -> Self {
            let directory = self.path("mount").join(group);
            fs::create_dir_all(&directory).expect("a fake group");
            let files = [
                ("cgroup.controllers", controllers),
                ("cgroup.subtree_control", ""),
                ("cgroup.procs", procs),
                ("cgroup.events", "populated 1\nfrozen 0\n"),
                ("cgroup.kill", ""),
                ("cgroup.type", "domain\n"),
            ];
            for (name, content) in files {
                fs::write(directory.join(name), content).expect("a fake control file");
            }
            self
        }

        fn examine(&self) -> Delegation {
            examine(&self.path("proc"), USER, own_place)
        }
    }

    #[test]
    fn a_deeply_nested_group_is_found_where_the_mounts_say() {
        let own_pid = format!("{}\n", std::process::id());
        let host = FakeHost::new("0::/prefix/distro-1/user.slice/x.scope\n").with_group(
            "prefix/distro-1/user.slice/x.scope",
            "cpu io memory pids\n",
            &own_pid,
        );
        let delegation = host.examine();
        let directory = host.path("mount/prefix/distro-1/user.slice/x.scope");
        assert_eq!(delegation.verdict, Verdict::Ready { directory });
        let own = delegation.own.expect("the group is visible");
        assert_eq!(own.other_processes, Some(0));
        assert_eq!(own.available, Some(Controllers::all()));
    }

    #[test]
    fn a_group_with_half_the_controllers_and_company_is_partial() {
        let host = FakeHost::new("0::/x\n").with_group("x", "memory pids\n", "0\n2\n");
        let Verdict::Partial { shortfalls, .. } = host.examine().verdict else {
            panic!("expected a partial verdict");
        };
        let lacking = Controllers::parse("cpu io");
        assert_eq!(
            shortfalls,
            [
                Shortfall::NotDelegated(lacking),
                Shortfall::HiddenProcesses(1)
            ]
        );
    }

    #[test]
    fn a_group_outside_the_namespace_is_named() {
        let host = FakeHost::new("0::/../other\n");
        let Verdict::Missing { reason, .. } = host.examine().verdict else {
            panic!("expected a missing verdict");
        };
        assert_eq!(
            reason,
            Reason::NotVisible {
                path: "/../other".into()
            }
        );
    }

    #[test]
    fn damage_and_absence_of_proc_are_unknown() {
        let damaged = FakeHost::new("nonsense\n").examine();
        assert!(matches!(
            damaged.verdict,
            Verdict::CannotTell { errno: None, .. }
        ));
        assert_eq!(damaged.hierarchy, None);

        let absent = examine(Path::new("/nonexistent/proc/self"), USER, own_place);
        assert!(matches!(
            absent.verdict,
            Verdict::CannotTell { errno: Some(_), .. }
        ));
    }

    #[test]
    fn a_kernel_without_control_groups_has_none() {
        let host = FakeHost::new("");
        fs::remove_file(host.path("proc/cgroup")).expect("the fake membership is there");
        fs::write(host.path("proc/mountinfo"), "").expect("an empty mount list");
        let delegation = host.examine();
        assert_eq!(delegation.hierarchy, Some(Hierarchy::None));
    }

    #[test]
    fn this_host_agrees_with_itself() {
        let delegation = delegation();
        if let Some(own) = &delegation.own {
            assert!(
                own.directory.is_dir(),
                "{} is a folder",
                own.directory.display()
            );
            let procs = fs::read_to_string(own.directory.join("cgroup.procs"));
            let pid = std::process::id().to_string();
            assert!(
                procs.is_ok_and(|list| list.lines().any(|line| line == pid)),
                "we are in it"
            );
        }
        match &delegation.verdict {
            Verdict::Ready { directory } | Verdict::Partial { directory, .. } => {
                assert_eq!(
                    Some(directory),
                    delegation.own.as_ref().map(|own| &own.directory)
                );
            }
            Verdict::Missing { .. } | Verdict::CannotTell { .. } => {}
        }
    }
}
