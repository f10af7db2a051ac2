//! The folder of a domain: where its parts are, and making them so that a failure can be undone.
//! Who may write in it is for `lock` to say.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc;

use crate::error::StorageError;

const DATABASE: &str = "domain.db";
const LOCK: &str = "domain.lock";
const ARTIFACTS: &str = "artifacts";
const HOLDERS: &str = "holders";
const IGNORE: &str = ".gitignore";
/// The arbiter's, which may be there before the database is.
const SOCKET: &str = "kernel.sock";

/// Tells git to leave out everything beside it, and itself.
const IGNORE_ALL: &[u8] = b"*\n";

/// The paths of a domain. Making one touches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainDir {
    root: PathBuf,
}

impl DomainDir {
    /// Names the domain in `root`. The path is made absolute, so that it stays right when the
    /// process changes its working directory.
    ///
    /// # Errors
    /// Fails only where the current directory cannot be read or `root` is empty.
    pub fn new(root: &Path) -> io::Result<Self> {
        Ok(Self {
            root: std::path::absolute(root)?,
        })
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The SQLite database. While this process has it open, it must not open and close it by
    /// other means: closing any descriptor of it drops SQLite's locks.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    /// The write-ahead log of the database, present while somebody has it open or after a crash.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.beside_database("-wal")
    }

    /// The file that the owner holds locked.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    /// Output of operations that is too large for the database.
    #[must_use]
    pub fn artifacts(&self) -> PathBuf {
        self.root.join(ARTIFACTS)
    }

    /// Last words of helpers that outlived their supervisor.
    #[must_use]
    pub fn holders(&self) -> PathBuf {
        self.root.join(HOLDERS)
    }

    /// The copy of the database that was made before it left this version of the schema.
    #[must_use]
    pub fn backup(&self, version: u32) -> PathBuf {
        self.beside_database(&format!(".v{version}"))
    }

    /// A file whose name is that of the database and `suffix`.
    pub(crate) fn beside_database(&self, suffix: &str) -> PathBuf {
        self.root.join(format!("{DATABASE}{suffix}"))
    }

    /// Makes the folder and its parents where they are missing, each with mode 0700. What is made
    /// stays, whatever comes later.
    ///
    /// # Errors
    /// [`StorageError`] if something in the way is no folder, or the system refuses.
    pub fn make(&self) -> Result<(), StorageError> {
        let mut made = Made::default();
        self.make_root(&mut made)?;
        made.keep();
        Ok(())
    }

    /// Makes the folder and its parents where they are missing.
    pub(crate) fn make_root(&self, made: &mut Made) -> Result<(), StorageError> {
        make_folders(&self.root, made)
            .map_err(StorageError::context(&self.root, "make the domain folder"))
    }

    /// Makes what lies in the folder beside the database and the lock.
    ///
    /// The mode and the ignore file are ours to decide only in a folder that holds nothing else.
    pub(crate) fn make_contents(&self, made: &mut Made) -> Result<(), StorageError> {
        let mut is_new = false;
        for folder in [self.artifacts(), self.holders()] {
            is_new |= make_folder(&folder, made).map_err(StorageError::context(&folder, "make"))?;
        }
        if is_new {
            sync_folder(&self.root).map_err(StorageError::context(&self.root, "sync"))?;
        }
        if self
            .holds_only_ours()
            .map_err(StorageError::context(&self.root, "list"))?
        {
            let ignore = self.root.join(IGNORE);
            make_ignore(&ignore, made).map_err(StorageError::context(&ignore, "write"))?;
        }
        Ok(())
    }

    fn holds_only_ours(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.root)? {
            if !is_ours(&entry?.file_name()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The user that owns the folder.
    pub(crate) fn owner_uid(&self) -> Result<u32, StorageError> {
        fs::metadata(&self.root)
            .map(|m| m.uid())
            .map_err(StorageError::context(&self.root, "examine"))
    }
}

fn is_ours(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let prefixes = ["domain.", "arbiter."];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
        || [ARTIFACTS, HOLDERS, IGNORE, SOCKET].contains(&name)
}

/// What one opening has made, to be taken back if it fails.
#[derive(Debug, Default)]
pub(crate) struct Made(Vec<PathBuf>);

impl Made {
    pub(crate) fn add(&mut self, path: PathBuf) {
        self.0.push(path);
    }

    /// Keeps everything.
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    /// Removes in reverse order. A folder that somebody else has put something in stays, as
    /// does whatever the system will not let go: the error that is being reported comes first.
    fn drop(&mut self) {
        for path in self.0.drain(..).rev() {
            let is_folder = path.symlink_metadata().is_ok_and(|m| m.is_dir());
            let removed = if is_folder {
                fs::remove_dir(&path)
            } else {
                fs::remove_file(&path)
            };
            drop(removed);
        }
    }
}

/// Makes a folder and its parents where they are missing, so that a power failure does not take
/// them, and with them all that is synced inside.
fn make_folders(path: &Path, made: &mut Made) -> io::Result<()> {
    let is_new = match make_folder(path, made) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make_folders(path.parent().ok_or(e)?, made)?;
            make_folder(path, made)?
        }
        other => other?,
    };
    match path.parent() {
        Some(parent) if is_new => sync_foreign_folder(parent),
        _ => Ok(()),
    }
}

/// Makes one folder with mode 0700, or finds it made. Says whether it made it.
fn make_folder(path: &Path, made: &mut Made) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            made.add(path.to_owned());
            // The umask may have taken bits away.
            fs::set_permissions(path, Permissions::from_mode(0o700))?;
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && fs::metadata(path)?.is_dir() => {
            Ok(false)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::ErrorKind::NotADirectory.into())
        }
        // Where nothing can be made, what exists already is still good enough.
        Err(_) if path.is_dir() => Ok(false),
        Err(e) => Err(e),
    }
}

fn make_ignore(path: &Path, made: &mut Made) -> io::Result<()> {
    let (mut file, is_new) = open_private(path)?;
    if is_new {
        made.add(path.to_owned());
    }
    // Empty after a crash between making and writing it. Two writers write the same bytes.
    if file.metadata()?.len() == 0 {
        file.write_all(IGNORE_ALL)
    } else {
        Ok(())
    }
}

/// Opens a file for reading and writing, and makes it with mode 0600 where it is missing.
/// Says whether it made it.
pub(crate) fn open_private(path: &Path) -> io::Result<(File, bool)> {
    let mut how = OpenOptions::new();
    // A link would make somebody else's file ours.
    how.read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    loop {
        match how.clone().create_new(true).open(path) {
            Ok(file) => {
                file.set_permissions(Permissions::from_mode(0o600))?;
                return Ok((file, true));
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) if !path.exists() => return Err(e),
            Err(_) => {}
        }
        match how.open(path) {
            // It went away between the two attempts: the next round makes it.
            Err(e)
                if e.kind() == io::ErrorKind::NotFound
                    && path.parent().is_some_and(Path::exists) => {}
            other => return other.and_then(plain).map(|file| (file, false)),
        }
    }
}

/// Opens a file for reading. What is something else is an error: a link would lead elsewhere, and a
/// pipe would be waited for.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    how.open(path).and_then(plain)
}

fn plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is something else than a file"))
    }
}

/// Writes the entries of a folder to disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The same for a folder that is not of a domain. One that may be written in and not read cannot be
/// opened for that, and some file systems have no such thing for folders: there its entries
/// are as durable as they get.
fn sync_foreign_folder(path: &Path) -> io::Result<()> {
    match sync_folder(path) {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_made_is_private_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DomainDir::new(&folder.path().join("a").join("b")).unwrap();
        for _ in 0..2 {
            dir.make().unwrap();
            for made in [dir.root(), dir.root().parent().unwrap()] {
                assert_eq!(made.metadata().unwrap().mode() & 0o7777, 0o700);
            }
        }
        let file = folder.path().join("file");
        File::create(&file).unwrap();
        assert!(DomainDir::new(&file).unwrap().make().is_err());
    }

    /// An arbiter puts its files there before the journal does.
    #[test]
    fn files_of_an_arbiter_are_ours_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DomainDir::new(folder.path()).unwrap();
        for name in ["arbiter.lock", "arbiter.log", "kernel.sock", "domain.db"] {
            File::create(folder.path().join(name)).unwrap();
        }
        assert!(dir.holds_only_ours().unwrap());
        File::create(folder.path().join("kernel.c")).unwrap();
        assert!(!dir.holds_only_ours().unwrap());
    }
}
