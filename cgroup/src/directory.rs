//! An opened directory of the control group file system, and what can be done relative to it.
//!
//! Everything below a group goes through its descriptor, one name at a time and never through a
//! symbolic link, so nothing can be exchanged on the way. Neighbours: all that touch a group.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::error::GroupError;

/// `CGROUP2_SUPER_MAGIC` of linux/magic.h: the type that statfs(2) has for version 2.
const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;

/// The longest control file that is read, in bytes. `cgroup.procs` is the only long one: four
/// million processes, the most that Linux has, are 32 MiB.
const FILE_LEN_MAX: u64 = 32 << 20;

/// Rights of a new group: who made it changes it, and everybody may look, as in the rest of the tree.
const MODE: Mode = Mode::from_raw_mode(0o755);

/// `PATH_MAX` of linux/limits.h.
const PATH_LEN_MAX: usize = 4096;

const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How a child is opened: one that something else is mounted on is not entered (EXDEV), because
/// what is mounted may be a group that is not below this one. openat2(2) came with Linux 5.6.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

/// What a directory has to lie on before anything in it is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// Version 2 of control groups.
    ControlGroups,
    /// Anything: for trees of plain files in tests.
    #[cfg(test)]
    Any,
}

/// An opened group.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    expected: FileSystem,
}

impl Directory {
    /// Opens a directory by its path, and checks what it lies on.
    pub(crate) fn open(path: &Path) -> Result<Self, GroupError> {
        Self::open_on(path, FileSystem::ControlGroups)
    }

    #[cfg(test)]
    pub(crate) fn open_plain(path: &Path) -> Result<Self, GroupError> {
        Self::open_on(path, FileSystem::Any)
    }

    fn open_on(path: &Path, expected: FileSystem) -> Result<Self, GroupError> {
        let fd = retry_on_intr(|| rustix::fs::openat(CWD, path, OPEN, Mode::empty()))
            .map_err(|errno| GroupError::open(path, errno))?;
        Self::checked(fd, path.to_owned(), expected)
    }

    /// Opens a child by its name.
    pub(crate) fn child(&self, name: &OsStr) -> Result<Self, GroupError> {
        let path = self.path_of(name);
        let fd = retry_on_intr(|| rustix::fs::openat2(&self.fd, name, OPEN, Mode::empty(), INSIDE))
            .map_err(|errno| GroupError::open(&path, errno))?;
        Self::checked(fd, path, self.expected)
    }

    /// Opens the directory that this one is in, which has to have that id: ESTALE otherwise.
    pub(crate) fn parent(&self, id: u64) -> Result<Self, GroupError> {
        let fd = retry_on_intr(|| rustix::fs::openat(&self.fd, "..", OPEN, Mode::empty()))
            .map_err(|errno| GroupError::open(&self.path, errno))?;
        let path = self.path.parent().unwrap_or(&self.path).to_owned();
        let parent = Self::checked(fd, path, self.expected)?;
        match parent.id()? == id {
            true => Ok(parent),
            false => Err(GroupError::open(&parent.path, Errno::STALE)),
        }
    }

    /// What messages call a child. Below the longest path that the system takes, they name the
    /// group above: a tree of any depth must not make paths of any length.
    fn path_of(&self, name: &OsStr) -> PathBuf {
        match self.path.as_os_str().len() + name.len() < PATH_LEN_MAX {
            true => self.path.join(name),
            false => self.path.clone(),
        }
    }

    fn checked(fd: OwnedFd, path: PathBuf, expected: FileSystem) -> Result<Self, GroupError> {
        let is_expected = match expected {
            FileSystem::ControlGroups => is_control_group(&fd, &path)?,
            #[cfg(test)]
            FileSystem::Any => true,
        };
        match is_expected {
            true => Ok(Self { fd, path, expected }),
            false => Err(GroupError::NotControlGroup { path }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its inode number: the group's id, which the kernel gives to one group only between two boots.
    pub(crate) fn id(&self) -> Result<u64, GroupError> {
        let stat = rustix::fs::fstat(&self.fd);
        stat.map(|stat| stat.st_ino)
            .map_err(|errno| GroupError::open(&self.path, errno))
    }

    /// The id of a child without opening it; null when there is none of that name.
    pub(crate) fn child_id(&self, name: &OsStr) -> Result<Option<u64>, GroupError> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat.st_ino)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(GroupError::open(&self.path.join(name), errno)),
        }
    }

    /// Makes a child. EEXIST when there is one of that name.
    pub(crate) fn make(&self, name: &OsStr) -> Result<(), GroupError> {
        rustix::fs::mkdirat(&self.fd, name, MODE).map_err(|errno| GroupError::Make {
            path: self.path.join(name),
            source: errno.into(),
        })
    }

    /// Removes a child. EBUSY while it holds a process or a group.
    pub(crate) fn remove(&self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)
    }

    /// Opens one of its files to read.
    pub(crate) fn file(&self, name: &str) -> Result<OwnedFd, GroupError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retry_on_intr(|| rustix::fs::openat(&self.fd, name, flags, Mode::empty()))
            .map_err(|errno| GroupError::read(self.path.join(name), errno))
    }

    /// The content of one of its files. Bytes that are not UTF-8 become marks that no parser takes.
    pub(crate) fn read(&self, name: &str) -> Result<String, GroupError> {
        let mut content = Vec::new();
        File::from(self.file(name)?)
            .take(FILE_LEN_MAX)
            .read_to_end(&mut content)
            .map_err(|error| GroupError::read(self.path.join(name), error))?;
        Ok(String::from_utf8_lossy(&content).into_owned())
    }

    /// The content of a file that not every kernel has; null when there is none.
    pub(crate) fn read_if_there(&self, name: &str) -> Result<Option<String>, GroupError> {
        match self.read(name) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a value to one of its files. The kernel takes all of it or none.
    pub(crate) fn write(&self, name: &str, value: &str) -> Result<(), GroupError> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let write = || {
            let file = retry_on_intr(|| rustix::fs::openat(&self.fd, name, flags, Mode::empty()))?;
            retry_on_intr(|| rustix::io::write(&file, value.as_bytes()))
        };
        let failed = |source: std::io::Error| GroupError::Write {
            path: self.path.join(name),
            value: value.to_owned(),
            source,
        };
        match write() {
            Ok(len) if len == value.len() => Ok(()),
            Ok(_) => Err(failed(std::io::ErrorKind::WriteZero.into())),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Names of the directories in it, at most `max` of them.
    pub(crate) fn children(&self, max: usize) -> Result<Vec<OsString>, GroupError> {
        list(&self.fd, max).map_err(|errno| GroupError::open(&self.path, errno))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Names of the directories in an opened one, at most `max` of them.
fn list(at: impl AsFd, max: usize) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    // `Dir` opens the directory anew, so no two walks share a position.
    for entry in Dir::read_from(at)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if entry.file_type() == FileType::Directory && !is_dots(name) {
            names.push(OsStr::from_bytes(name).to_owned());
        }
        if names.len() == max {
            break;
        }
    }
    Ok(names)
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

fn is_control_group(fd: &OwnedFd, path: &Path) -> Result<bool, GroupError> {
    let stat = rustix::fs::fstatfs(fd).map_err(|errno| GroupError::open(path, errno))?;
    // The field has another width and sign on every architecture.
    Ok(i128::from(stat.f_type) == i128::from(CGROUP2_SUPER_MAGIC))
}
