//! Whether systemd has given a group away, or still manages it.
//!
//! A unit without `Delegate=` can often be written to, by root always, but systemd may take its
//! controllers back at any time: a limit that rests on them would end without a word. systemd marks
//! what it has delegated with an extended attribute. Neighbour: `verdict` makes a shortfall of it.
//!
//! Source: systemd "Control Group APIs and Delegation"; systemd.resource-control(5), `Delegate=`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use crate::host::Host;

/// The attributes, the one that everybody can read first. That one came with systemd 251.
const ATTRIBUTES: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// What the names of units end with that are groups as well.
const SUFFIXES: [&[u8]; 6] = [
    b".service",
    b".scope",
    b".slice",
    b".socket",
    b".mount",
    b".swap",
];

/// What systemd says of a group, as far as that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegated {
    /// It is not in a unit: whoever made it, systemd does not manage it.
    NoUnit,
    /// Its unit has `Delegate=`.
    Yes,
    /// Its unit has not.
    No,
    /// The unit has no mark, and marks may be unknown to this systemd or hidden from the caller.
    CannotTell,
}

impl Delegated {
    /// Looks at a group: its path as `/proc/self/cgroup` names it, where it is, and the mount point
    /// that it is seen through.
    pub(crate) fn observe(path: &Path, directory: &Path, mount: &Path, host: &Host) -> Self {
        let Some(below) = depth_below_unit(path) else {
            return Self::NoUnit;
        };
        let unit = directory.ancestors().nth(below);
        let mark = match unit {
            Some(unit) if unit.starts_with(mount) => mark(unit),
            _ => Mark::Unreadable,
        };
        judge(mark, writes_marks(path), host.uid == 0)
    }
}

/// That a mark is missing says something where marks are written, to one who can read all of them.
fn judge(mark: Mark, are_written: bool, reads_all: bool) -> Delegated {
    match mark {
        Mark::Set => Delegated::Yes,
        Mark::Absent if are_written && reads_all => Delegated::No,
        Mark::Absent | Mark::Unreadable => Delegated::CannotTell,
    }
}

/// The system's manager marks its units. The manager of a user does not in every version (252 does
/// not): what is below it may be delegated without a mark.
fn writes_marks(path: &Path) -> bool {
    let mut groups = path.iter().map(OsStr::as_bytes);
    !groups.any(|name| name.starts_with(b"user@") && name.ends_with(b".service"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Set,
    Absent,
    Unreadable,
}

fn mark(directory: &Path) -> Mark {
    let answers = ATTRIBUTES.map(|name| {
        let mut value = [0u8; 8];
        match rustix::fs::lgetxattr(directory, name, &mut value) {
            Ok(len) if &value[..len] == b"1" => Mark::Set,
            Ok(_) | Err(Errno::NODATA) => Mark::Absent,
            Err(_) => Mark::Unreadable,
        }
    });
    // Whoever may not read `trusted.*` is told that there is none.
    let of = |wanted: Mark| answers.contains(&wanted).then_some(wanted);
    of(Mark::Set)
        .or_else(|| of(Mark::Unreadable))
        .unwrap_or(Mark::Absent)
}

/// How many groups the lowest unit of a path is above its end; null when none is a unit.
fn depth_below_unit(path: &Path) -> Option<usize> {
    path.ancestors().position(|group| {
        let name = group.file_name().unwrap_or_default().as_bytes();
        SUFFIXES
            .iter()
            .any(|suffix| name.len() > suffix.len() && name.ends_with(suffix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Host = Host {
        uid: 1000,
        systemd: true,
        user_manager: true,
    };

    #[test]
    fn the_lowest_unit_is_the_one_that_manages() {
        let depth = |path: &str| depth_below_unit(Path::new(path));
        assert_eq!(
            depth("/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope"),
            Some(0)
        );
        assert_eq!(depth("/system.slice/x.service/payload/inner"), Some(2));
        assert_eq!(depth("/user.slice"), Some(0));
        assert_eq!(depth("/"), None);
        assert_eq!(depth("/docker/4f5a"), None);
        assert_eq!(depth("/.scope"), None);
    }

    #[test]
    fn a_missing_mark_means_something_where_marks_are_written() {
        assert_eq!(judge(Mark::Set, false, false), Delegated::Yes);
        assert_eq!(judge(Mark::Absent, true, true), Delegated::No);
        for (are_written, reads_all) in [(false, true), (true, false), (false, false)] {
            let answer = judge(Mark::Absent, are_written, reads_all);
            assert_eq!(answer, Delegated::CannotTell);
        }
        assert_eq!(judge(Mark::Unreadable, true, true), Delegated::CannotTell);
    }

    #[test]
    fn the_manager_of_a_user_may_write_no_marks() {
        let writes = |path: &str| writes_marks(Path::new(path));
        assert!(writes("/system.slice/cron.service"));
        assert!(writes("/user.slice/user-1000.slice/session-2.scope"));
        assert!(!writes(
            "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope"
        ));
    }

    #[test]
    fn a_group_without_a_unit_is_nobodys() {
        let root = Path::new("/");
        assert_eq!(
            Delegated::observe(root, root, root, &USER),
            Delegated::NoUnit
        );
    }

    #[test]
    fn a_plain_folder_has_no_mark() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_ne!(mark(dir.path()), Mark::Set);
        let path = Path::new("/x.scope");
        let answer = Delegated::observe(path, dir.path(), dir.path(), &USER);
        assert_eq!(answer, Delegated::CannotTell);
    }

    #[test]
    fn a_marked_folder_is_delegated() {
        let dir = tempfile::tempdir().expect("a folder");
        let flags = rustix::fs::XattrFlags::empty();
        if let Err(errno) = rustix::fs::setxattr(dir.path(), ATTRIBUTES[0], b"1", flags) {
            println!("skipped: this file system has no user attributes ({errno})");
            return;
        }
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).expect("a folder");
        let answer = Delegated::observe(Path::new("/x.scope/inner"), &inner, dir.path(), &USER);
        assert_eq!(answer, Delegated::Yes);
    }
}
