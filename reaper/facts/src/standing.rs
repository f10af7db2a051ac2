//! What a process may do and where it stands, to be compared: whoever acts for another process must
//! not lend it what it does not have.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::str;

use xioflow_sys::{AsFd, BorrowedFd, CWD, Errno, OpenFlags, openat, statat};

use crate::CannotTell;
use crate::path::proc_path;
use crate::read::read_whole_at;

/// What a process is, may do and can reach: users, groups, capabilities, restrictions, namespaces
/// and root folder.
///
/// It is that of the first thread; Linux lets the others differ (capabilities(7)). Landlock shows
/// nothing of itself in `/proc`. It needs the no-new-privileges flag or privilege, so whoever
/// confined itself without privilege still differs by that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    status: Status,
    /// In the order of [`NAMESPACES`].
    namespaces: [Place; NAMESPACES.len()],
    root: Place,
}

/// What proc_pid_status(5) says of it. Where there is no line, this kernel has nothing of the kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Status {
    /// Real, effective, saved and of the file system.
    uids: Option<[u32; 4]>,
    /// The same of groups.
    gids: Option<[u32; 4]>,
    /// Supplementary groups, sorted by the kernel.
    groups: Option<Vec<u32>>,
    /// Inheritable, permitted, effective and ambient.
    capabilities: [Option<u64>; 4],
    bounding: Option<u64>,
    no_new_privs: Option<u32>,
    seccomp_mode: Option<u32>,
    /// How many there are. What they filter cannot be read.
    seccomp_filters: Option<u32>,
}

/// Which namespace, or which folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// This one, for as long as anybody is in it (namespaces(7)).
    Known {
        device: u64,
        inode: u64,
    },
    /// This kernel has none of the kind.
    Absent,
    CannotTell,
}

/// A file that leads to a place, the name of a difference, and its name where that cannot be told.
type Kind = (&'static CStr, &'static str, &'static str);

const NAMESPACES: [Kind; 8] = [
    (c"ns/mnt", "mnt namespace", "mnt namespace (cannot tell)"),
    (c"ns/pid", "pid namespace", "pid namespace (cannot tell)"),
    (c"ns/net", "net namespace", "net namespace (cannot tell)"),
    (c"ns/user", "user namespace", "user namespace (cannot tell)"),
    (c"ns/ipc", "ipc namespace", "ipc namespace (cannot tell)"),
    (c"ns/uts", "uts namespace", "uts namespace (cannot tell)"),
    (
        c"ns/cgroup",
        "cgroup namespace",
        "cgroup namespace (cannot tell)",
    ),
    (c"ns/time", "time namespace", "time namespace (cannot tell)"),
];

const ROOT: Kind = (c"root", "root folder", "root folder (cannot tell)");

impl Standing {
    /// Reads it of a process. A handful of system calls, without waiting for anything.
    ///
    /// Namespaces and the root folder of another user's process, of one with more privilege, and of one that
    /// is not dumpable cannot be read without privilege (ptrace(2)). They are *cannot tell* then.
    ///
    /// # Errors
    /// [`CannotTell`] when there is no such process, or its `status` cannot be read.
    pub fn of(pid: u32) -> Result<Self, CannotTell> {
        let path = proc_path!("/proc/{pid}");
        let unreadable = CannotTell::unreadable;
        // Names in it stay those of this very process, whoever gets its number.
        let process =
            openat(CWD, path.as_c_str(), OpenFlags::DIRECTORY, 0).map_err(unreadable(path))?;
        let path = proc_path!("/proc/{pid}/status");
        let mut text = Vec::new();
        read_whole_at(process.as_fd(), c"status", &mut text).map_err(unreadable(path))?;
        Ok(Self {
            status: Status::parse(&text).ok_or(CannotTell::Malformed { path })?,
            namespaces: NAMESPACES.map(|kind| Place::look(process.as_fd(), kind)),
            root: Place::look(process.as_fd(), ROOT),
        })
    }

    /// Names everything in which two processes differ, in words of the man pages; nothing where they
    /// are equal. What cannot be told of either is a difference, and its name says so.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Vec<&'static str> {
        let mut names = self.status.differs(&other.status);
        let places = self.namespaces.iter().zip(&other.namespaces);
        let places = places
            .zip(NAMESPACES)
            .map(|((our, their), kind)| our.differs(*their, kind));
        names.extend(places.flatten());
        names.extend(self.root.differs(other.root, ROOT));
        names
    }
}

impl Place {
    fn look(process: BorrowedFd<'_>, (file, ..): Kind) -> Self {
        match statat(process, file) {
            Ok(stat) => Self::Known {
                device: stat.device,
                inode: stat.inode,
            },
            // Also where the process is gone. Then nothing of it is known, which equals nobody.
            Err(Errno::ENOENT) => Self::Absent,
            Err(_) => Self::CannotTell,
        }
    }

    fn differs(self, other: Self, (_, name, untold): Kind) -> Option<&'static str> {
        match (self, other) {
            (Self::CannotTell, _) | (_, Self::CannotTell) => Some(untold),
            _ => (self != other).then_some(name),
        }
    }
}

impl Status {
    /// Reads the lines of the file; `None` when one that every kernel has is missing, or one that we
    /// know is not as described.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut status = Self::default();
        let [inheritable, permitted, effective, ambient] = &mut status.capabilities;
        for line in text.split(|&byte| byte == b'\n') {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else {
                continue;
            };
            // Only the name of the program is bytes of any kind.
            let value = str::from_utf8(&line[colon + 1..])
                .unwrap_or_default()
                .trim();
            match &line[..colon] {
                b"Uid" => status.uids = Some(four(value)?),
                b"Gid" => status.gids = Some(four(value)?),
                b"Groups" => status.groups = Some(numbers(value)?),
                b"CapInh" => *inheritable = Some(bits(value)?),
                b"CapPrm" => *permitted = Some(bits(value)?),
                b"CapEff" => *effective = Some(bits(value)?),
                b"CapAmb" => *ambient = Some(bits(value)?),
                b"CapBnd" => status.bounding = Some(bits(value)?),
                b"NoNewPrivs" => status.no_new_privs = Some(value.parse().ok()?),
                b"Seccomp" => status.seccomp_mode = Some(value.parse().ok()?),
                b"Seccomp_filters" => status.seccomp_filters = Some(value.parse().ok()?),
                _ => {}
            }
        }
        let is_whole = status.uids.is_some() && status.gids.is_some() && status.groups.is_some();
        is_whole.then_some(status)
    }

    fn differs(&self, other: &Self) -> Vec<&'static str> {
        let seccomp = |of: &Self| (of.seccomp_mode, of.seccomp_filters);
        let questions = [
            ("uid", self.uids == other.uids),
            ("gid", self.gids == other.gids),
            ("groups", self.groups == other.groups),
            ("capabilities", self.capabilities == other.capabilities),
            ("capability bounding set", self.bounding == other.bounding),
            ("no_new_privs", self.no_new_privs == other.no_new_privs),
            ("seccomp", seccomp(self) == seccomp(other)),
        ];
        let different = questions.into_iter().filter(|(_, equal)| !equal);
        different.map(|(name, _)| name).collect()
    }
}

fn bits(value: &str) -> Option<u64> {
    u64::from_str_radix(value, 16).ok()
}

fn numbers(value: &str) -> Option<Vec<u32>> {
    value.split_whitespace().map(|it| it.parse().ok()).collect()
}

fn four(value: &str) -> Option<[u32; 4]> {
    numbers(value)?.try_into().ok()
}

#[cfg(test)]
mod tests;
