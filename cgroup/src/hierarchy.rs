//! Which hierarchies a host has, and where the own group is to be found. Pure.
//!
//! Neighbours: `membership` and `mountinfo` read the two files that this rests on.

use std::path::{Path, PathBuf};

use crate::controller::{Controller, Controllers};
use crate::membership::Membership;
use crate::mountinfo::{Mount, Version};

/// Which versions of control groups are mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 2 only.
    Unified {
        /// Where it is mounted.
        mount: PathBuf,
    },
    /// Both. Controllers that version 1 holds cannot be had in version 2.
    Hybrid {
        /// Where version 2 is mounted.
        mount: PathBuf,
        /// What version 1 holds.
        held_by_v1: Controllers,
    },
    /// Version 1 only.
    LegacyOnly,
    /// None that this process can see.
    None,
}

impl Hierarchy {
    /// What version 1 holds.
    #[must_use]
    pub const fn held_by_v1(&self) -> Controllers {
        match self {
            Self::Hybrid { held_by_v1, .. } => *held_by_v1,
            Self::Unified { .. } | Self::LegacyOnly | Self::None => Controllers::NONE,
        }
    }
}

/// Where the own group is visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) mount: Mount,
}

/// Says which hierarchies there are, and through which mount the own group can be reached.
pub(crate) fn locate(membership: &Membership, mounts: &[Mount]) -> (Hierarchy, Option<Place>) {
    let place = membership
        .unified
        .as_deref()
        .and_then(|own| find_place(own, mounts));
    let unified = match &place {
        Some(place) => Some(&place.mount),
        None => mounts.iter().find(|mount| mount.version == Version::Two),
    };
    let legacy = mounts.iter().any(|mount| mount.version == Version::One);
    let hierarchy = match (unified, legacy) {
        (Some(mount), false) => Hierarchy::Unified {
            mount: mount.point.clone(),
        },
        (Some(mount), true) => Hierarchy::Hybrid {
            mount: mount.point.clone(),
            held_by_v1: held_by_v1(membership),
        },
        (None, true) => Hierarchy::LegacyOnly,
        (None, false) => Hierarchy::None,
    };
    (hierarchy, place)
}

fn held_by_v1(membership: &Membership) -> Controllers {
    let names = membership.legacy_controllers.iter();
    names
        .filter_map(|name| Controller::from_name(name))
        .collect()
}

/// Several mounts can show the same group; one that can be written is worth more, and the
/// earlier one is where other programs look.
fn find_place(own: &Path, mounts: &[Mount]) -> Option<Place> {
    let visible = mounts.iter().enumerate().filter(|(index, mount)| {
        mount.version == Version::Two && !is_covered(mount, &mounts[index + 1..])
    });
    let places = visible.filter_map(|(_, mount)| place_through(own, mount));
    places.min_by_key(|place| place.mount.read_only)
}

/// Where a directory is in the hierarchy: its path from the root of the control group namespace, and
/// the mount that shows it. Null when no mount of version 2 does.
pub(crate) fn locate_directory(directory: &Path, mounts: &[Mount]) -> Option<(PathBuf, Place)> {
    let shown = mounts.iter().enumerate().filter(|(index, mount)| {
        mount.version == Version::Two
            && directory.starts_with(&mount.point)
            && !is_covered(mount, &mounts[index + 1..])
    });
    let (_, mount) = shown.max_by_key(|(_, mount)| mount.point.as_os_str().len())?;
    let below = directory.strip_prefix(&mount.point).ok()?;
    let place = Place {
        directory: directory.to_owned(),
        mount: mount.clone(),
    };
    Some((join(&mount.root, below), place))
}

/// Joining an empty path would add a slash to the directory of the mount's own root.
fn join(above: &Path, below: &Path) -> PathBuf {
    match below.as_os_str().is_empty() {
        true => above.to_owned(),
        false => above.join(below),
    }
}

/// A later mount at the same point hides an earlier one.
fn is_covered(mount: &Mount, later: &[Mount]) -> bool {
    later.iter().any(|other| other.point == mount.point)
}

/// Both paths count from the root of the control group namespace. A group outside the mounted
/// part, or outside the namespace, is not to be seen through this mount.
fn place_through(own: &Path, mount: &Mount) -> Option<Place> {
    let below = own.strip_prefix(&mount.root).ok()?;
    let climbs = below
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    (!climbs).then(|| Place {
        directory: join(&mount.point, below),
        mount: mount.clone(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mountinfo::MountOptions;

    fn mount(version: Version, root: &str, point: &str) -> Mount {
        Mount {
            version,
            root: root.into(),
            point: point.into(),
            read_only: false,
            options: MountOptions::default(),
        }
    }

    fn v2(root: &str, point: &str) -> Mount {
        mount(Version::Two, root, point)
    }

    fn member(own: &str) -> Membership {
        Membership {
            unified: Some(own.into()),
            legacy_controllers: Vec::new(),
        }
    }

    fn directory(own: &str, mounts: &[Mount]) -> Option<PathBuf> {
        locate(&member(own), mounts).1.map(|place| place.directory)
    }

    #[test]
    fn the_root_has_no_double_slash() {
        let found = directory("/", &[v2("/", "/sys/fs/cgroup")]).expect("the root is visible");
        assert_eq!(found.as_os_str(), "/sys/fs/cgroup");
    }

    #[test]
    fn a_nested_group() {
        let mounts = [v2("/", "/sys/fs/cgroup")];
        let expected = Path::new("/sys/fs/cgroup/prefix/distro-1/user.slice/x.scope");
        assert_eq!(
            directory("/prefix/distro-1/user.slice/x.scope", &mounts).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn a_bind_mount_shows_a_part_only() {
        let mounts = [v2("/docker/4f5a", "/sys/fs/cgroup")];
        let expected = Path::new("/sys/fs/cgroup/inner");
        assert_eq!(
            directory("/docker/4f5a/inner", &mounts).as_deref(),
            Some(expected)
        );
        assert_eq!(directory("/docker/4f5b", &mounts), None);
        assert_eq!(directory("/docker/4f5a-twin", &mounts), None);
    }

    #[test]
    fn a_group_outside_the_namespace_is_not_visible() {
        assert_eq!(directory("/../other", &[v2("/", "/sys/fs/cgroup")]), None);
    }

    #[test]
    fn a_mount_from_outside_the_namespace_can_show_it() {
        let mounts = [v2("/..", "/host/cgroup")];
        let expected = Path::new("/host/cgroup/other");
        assert_eq!(directory("/../other", &mounts).as_deref(), Some(expected));
        assert_eq!(directory("/../../other", &mounts), None);
    }

    #[test]
    fn a_mount_from_outside_does_not_say_where_the_namespace_begins() {
        // What a fresh control group namespace shows before anything is mounted in it: the own
        // group is below the mount point, under a name that nobody tells.
        assert_eq!(directory("/", &[v2("/..", "/sys/fs/cgroup/unified")]), None);
    }

    #[test]
    fn hybrid_names_what_version_1_holds() {
        let membership = Membership {
            unified: Some("/".into()),
            legacy_controllers: ["memory", "blkio", "freezer"].map(str::to_owned).to_vec(),
        };
        let mounts = [
            mount(Version::One, "/", "/sys/fs/cgroup/memory"),
            v2("/", "/sys/fs/cgroup/unified"),
        ];
        let (hierarchy, place) = locate(&membership, &mounts);
        let held_by_v1 = Controllers::parse("memory io");
        let mount = PathBuf::from("/sys/fs/cgroup/unified");
        assert_eq!(hierarchy, Hierarchy::Hybrid { mount, held_by_v1 });
        assert!(place.is_some());
    }

    #[test]
    fn legacy_only_and_none() {
        let mounts = [mount(Version::One, "/", "/sys/fs/cgroup/memory")];
        assert_eq!(locate(&member("/"), &mounts), (Hierarchy::LegacyOnly, None));
        assert_eq!(locate(&member("/"), &[]), (Hierarchy::None, None));
    }

    #[test]
    fn a_mount_that_can_be_written_is_preferred_and_a_covered_one_is_not_used() {
        let read_only = Mount {
            read_only: true,
            ..v2("/", "/ro")
        };
        assert_eq!(
            directory("/", &[read_only, v2("/", "/rw")]).as_deref(),
            Some(Path::new("/rw"))
        );

        let covered = [v2("/", "/c"), v2("/elsewhere", "/c")];
        assert_eq!(directory("/a", &covered), None);
    }

    #[test]
    fn a_directory_is_found_through_the_mount_that_shows_it() {
        let mounts = [
            mount(Version::One, "/", "/sys/fs/cgroup/memory"),
            v2("/", "/sys/fs/cgroup/unified"),
            v2("/inner", "/mnt"),
        ];
        let path = |directory: &str| {
            let found = locate_directory(Path::new(directory), &mounts);
            found.map(|(path, _)| path)
        };
        assert_eq!(
            path("/sys/fs/cgroup/unified").as_deref(),
            Some(Path::new("/"))
        );
        assert_eq!(
            path("/sys/fs/cgroup/unified/a/b").as_deref(),
            Some(Path::new("/a/b"))
        );
        assert_eq!(path("/mnt/a").as_deref(), Some(Path::new("/inner/a")));
        assert_eq!(path("/sys/fs/cgroup/memory/a"), None);
        assert_eq!(path("/mntx"), None);
    }

    proptest! {
        #[test]
        fn a_found_directory_lies_below_its_mount(own in "(/[a-z.]{1,4}){0,5}", root in "(/[a-z.]{1,4}){0,3}") {
            let mounts = [v2(&format!("/{root}"), "/mnt")];
            if let Some(found) = directory(&format!("/{own}"), &mounts) {
                prop_assert!(found.starts_with("/mnt"));
                prop_assert!(!found.components().any(|part| part == std::path::Component::ParentDir));
            }
        }
    }
}
