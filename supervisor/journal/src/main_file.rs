//! The one descriptor through which this process looks at a database file without SQLite.
//!
//! POSIX locks belong to the process, and closing *any* descriptor of a file drops all of the
//! process's locks on it, SQLite's included: another process could then remove a log that is in
//! use. So a descriptor opened to read the header is kept, shared by all who have the same
//! domain open, and closed only after the last of their connections.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::folder::open_plain;
use crate::header::HEADER_LEN;
use crate::lock::Standing;
use crate::origin::FileIdentity;

/// Device and inode.
pub(crate) type FileId = (u64, u64);

struct Entry {
    id: FileId,
    users: usize,
    /// More than one where the file was replaced between looking and opening.
    files: Vec<File>,
}

/// All database files that this process has open. As long as the number of open domains.
static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

fn open_files() -> MutexGuard<'static, Vec<Entry>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a database file open. Must outlive every SQLite connection to it in this process.
#[derive(Debug)]
pub(crate) struct MainFile {
    id: FileId,
}

impl MainFile {
    /// Opens `path` for reading, or shares the descriptor that this process has of it already.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut all = open_files();
        let seen = id_of(&fs::metadata(path)?);
        if let Some(entry) = all.iter_mut().find(|e| e.id == seen) {
            entry.users += 1;
            return Ok(Self { id: seen });
        }
        let file = open_plain(path)?;
        let id = id_of(&file.metadata()?);
        match all.iter_mut().find(|e| e.id == id) {
            Some(entry) => {
                entry.users += 1;
                entry.files.push(file);
            }
            None => all.push(Entry {
                id,
                users: 1,
                files: vec![file],
            }),
        }
        Ok(Self { id })
    }

    /// What tells this file from any other.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// What tells this file from a copy of it.
    pub(crate) fn identity(&self) -> io::Result<FileIdentity> {
        let all = open_files();
        let file = self.file(&all)?;
        Ok(FileIdentity::of(&file.metadata()?))
    }

    /// The first bytes of the file, up to [`HEADER_LEN`], and its length.
    pub(crate) fn read_header(&self) -> io::Result<(Vec<u8>, u64)> {
        let all = open_files();
        let file = self.file(&all)?;
        let mut bytes = vec![0; HEADER_LEN];
        let mut filled = 0;
        while filled < HEADER_LEN {
            match file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(filled);
        Ok((bytes, file.metadata()?.len()))
    }

    fn file<'a>(&self, all: &'a [Entry]) -> io::Result<&'a File> {
        let entry = all.iter().find(|e| e.id == self.id);
        let file = entry.and_then(|e| e.files.first());
        Ok(file.ok_or(io::ErrorKind::NotFound)?)
    }
}

impl Drop for MainFile {
    /// Closes under the registry's lock: nobody can open the file again, and lock it, between
    /// the last use and the close.
    fn drop(&mut self) {
        let mut all = open_files();
        if let Some(at) = all.iter().position(|e| e.id == self.id) {
            all[at].users -= 1;
            if all[at].users == 0 {
                all.swap_remove(at);
            }
        }
    }
}

/// Whether the file of this id is still the one at a path.
pub(crate) fn standing(id: FileId, path: &Path) -> io::Result<Standing> {
    match fs::metadata(path) {
        Ok(there) if id_of(&there) == id => Ok(Standing::InPlace),
        Ok(_) => Ok(Standing::Replaced),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Standing::Gone),
        Err(error) => Err(error),
    }
}

/// What tells a file from any other.
pub(crate) fn id_of(metadata: &fs::Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptors_of(path: &Path) -> usize {
        let mine = fs::read_dir("/proc/self/fd").unwrap();
        mine.filter(|e| {
            fs::read_link(e.as_ref().unwrap().path()).is_ok_and(|target| target == path)
        })
        .count()
    }

    #[test]
    fn users_share_one_descriptor_until_the_last_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 120]).unwrap();
        let first = MainFile::open(&path).unwrap();
        let second = MainFile::open(&path).unwrap();
        assert_eq!(descriptors_of(&path), 1);
        drop(first);
        assert_eq!(descriptors_of(&path), 1);
        assert_eq!(second.read_header().unwrap(), (vec![7; HEADER_LEN], 120));
        drop(second);
        assert_eq!(descriptors_of(&path), 0);
    }

    #[test]
    fn a_short_file_gives_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"abc").unwrap();
        assert_eq!(
            MainFile::open(&path).unwrap().read_header().unwrap(),
            (b"abc".to_vec(), 3)
        );
    }
}
