//! The folder of stored output. What is found in it under a name is looked at and never followed, and what
//! is removed is removed through the folder's own descriptor.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat, unlinkat};
use rustix::io::Errno;
use xioflow_killpoint as killpoint;

use super::budget::DiskBudget;
use crate::plain_file::name_of;

/// The folder of stored output, held open so that nothing can be put in its place.
#[derive(Debug)]
pub(crate) struct Artifacts {
    folder: OwnedFd,
    path: PathBuf,
    budget: Arc<DiskBudget>,
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A plain file.
    File(FileId),
    /// Something else; what, in a word.
    Other(&'static str),
    /// Nothing.
    Nothing,
}

/// A file, so that another one under its name can be told from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    /// How long it is.
    pub(crate) bytes: u64,
}

impl FileId {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
        }
    }

    fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl Artifacts {
    /// Opens the folder, which may hold `max_bytes`, and counts what is in it.
    pub(crate) fn open(path: PathBuf, max_bytes: u64) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
        let folder = rustix::fs::open(&path, flags, Mode::empty())?;
        let mut artifacts = Self {
            folder,
            path,
            budget: Arc::new(DiskBudget::new(max_bytes, 0)),
        };
        let used = artifacts.stored_bytes()?;
        artifacts.budget = Arc::new(DiskBudget::new(max_bytes, used));
        Ok(artifacts)
    }

    /// What its files may take and take now.
    pub(crate) fn budget(&self) -> &Arc<DiskBudget> {
        &self.budget
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder itself, for what is opened relative to it.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Flushes the folder itself, so that a file in it is found after a power loss.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }

    /// What stands under a name. Nothing is followed or opened.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Found> {
        if !is_file_name(name) {
            return Ok(Found::Other("path"));
        }
        match statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Found::File(FileId::of(&stat)),
                other => Found::Other(name_of(other)),
            }),
            Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(Found::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `each` with every name in the folder and what stands there.
    pub(crate) fn for_each<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(&OsStr, Found) -> Result<(), E>,
    ) -> Result<(), E> {
        // A position of its own: other threads read the folder as well.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let own = openat(&self.folder, ".", flags, Mode::empty()).map_err(io::Error::from)?;
        for entry in Dir::new(own).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                each(name, self.look(name)?)?;
            }
        }
        Ok(())
    }

    /// Removes the file of this name, if it is the one that was looked at. Whoever has it open goes on
    /// reading it. Its room is given back.
    ///
    /// Says whether it was: something else may stand there by now, and stays.
    pub(crate) fn remove(&self, name: &OsStr, looked_at: &FileId) -> io::Result<bool> {
        match self.look(name)? {
            Found::File(found) if found.is_same_file(looked_at) => {
                killpoint::pass(|| "artifact:before-remove");
                unlinkat(&self.folder, name, AtFlags::empty())?;
                killpoint::pass(|| "artifact:after-remove");
                self.budget.give_back(found.bytes);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The length of all its files. One that goes away meanwhile counts nothing.
    fn stored_bytes(&self) -> io::Result<u64> {
        let mut sum = 0;
        self.for_each(|_, found| {
            if let Found::File(file) = found {
                sum += file.bytes;
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(sum)
    }
}

/// Whether a name leads to something in the folder and nowhere else. Names come from the database, which
/// somebody else may have written to.
pub(crate) fn is_file_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty() && name != "." && name != ".." && !bytes.iter().any(|it| b"/\0".contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn artifacts(folder: &tempfile::TempDir) -> Artifacts {
        Artifacts::open(folder.path().to_path_buf(), u64::MAX).unwrap()
    }

    fn file(artifacts: &Artifacts, name: &str) -> FileId {
        match artifacts.look(OsStr::new(name)).unwrap() {
            Found::File(file) => file,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn only_the_file_that_was_looked_at_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let artifacts = artifacts(&folder);
        let looked_at = file(&artifacts, "a");
        assert_eq!((looked_at.bytes, artifacts.budget().used()), (5, 5));

        std::fs::write(folder.path().join("b"), "another").unwrap();
        std::fs::rename(folder.path().join("b"), &path).unwrap();
        assert!(!artifacts.remove(OsStr::new("a"), &looked_at).unwrap());
        assert!(path.exists(), "another file took its name");

        let looked_at = file(&artifacts, "a");
        assert!(artifacts.remove(OsStr::new("a"), &looked_at).unwrap());
        assert!(!path.exists());
        assert_eq!(artifacts.budget().used(), 0, "its room is given back");
    }

    #[test]
    fn what_is_no_file_is_named_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        symlink(outside.path(), folder.path().join("link")).unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        let artifacts = artifacts(&folder);
        let look = |name: &str| artifacts.look(OsStr::new(name)).unwrap();
        assert_eq!(look("link"), Found::Other("link"));
        assert_eq!(look("folder"), Found::Other("folder"));
        assert_eq!(look("none"), Found::Nothing);
        assert_eq!(look(&"x".repeat(5000)), Found::Nothing);
        assert_eq!(artifacts.budget().used(), 0);
        for path in ["../x", "/etc/passwd", "..", ".", "", "a\0b", "folder/x"] {
            assert_eq!(look(path), Found::Other("path"), "{path:?}");
        }
    }

    #[test]
    fn two_walks_at_once_each_see_everything() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..300 {
            std::fs::write(folder.path().join(at.to_string()), "").unwrap();
        }
        let artifacts = artifacts(&folder);
        let mut seen = (0, 0);
        artifacts
            .for_each(|_, _| {
                seen.0 += 1;
                if seen.0 == 1 {
                    artifacts.for_each(|_, _| {
                        seen.1 += 1;
                        Ok::<_, io::Error>(())
                    })?;
                }
                Ok::<_, io::Error>(())
            })
            .unwrap();
        assert_eq!(seen, (300, 300));
    }
}
