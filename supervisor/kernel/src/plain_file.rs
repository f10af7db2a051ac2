//! Opening files that another process may have replaced by something else.
//!
//! The folders of a domain belong to its user, and so does every command that runs in it: what is
//! found under a name there is looked at before it is believed. A pipe is not waited for, a link is
//! not followed, and what is not a file is an error.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// Opens a file for reading.
///
/// # Errors
/// Those of openat(2), ELOOP for a link among them; and that it is something else than a file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_in(CWD, path)
}

/// Opens a file for reading that is in an open folder.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_in(folder: impl AsFd, name: impl AsRef<Path>) -> io::Result<File> {
    // NONBLOCK: opening a pipe would wait for somebody to write to it. A file does not mind.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(folder, name.as_ref(), flags | OFlags::NOCTTY, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        other => Err(io::Error::other(format!(
            "it is no file but a {}",
            name_of(other)
        ))),
    }
}

/// What a thing that is no plain file is, in a word.
pub(crate) fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "folder",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Symlink => "link",
        FileType::RegularFile | FileType::Unknown => "thing of another kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mknodat;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_file_is_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "content").unwrap();
        symlink(path("file"), path("link")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from(0o600), 0).unwrap();

        let mut content = String::new();
        let mut file = open(&path("file")).unwrap();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        let error = |path: &Path| open(path).unwrap_err();
        assert_eq!(error(&path("none")).kind(), io::ErrorKind::NotFound);
        let followed = error(&path("link")).raw_os_error();
        assert_eq!(followed, Some(rustix::io::Errno::LOOP.raw_os_error()));
        assert!(error(&path("pipe")).to_string().contains("pipe"));
        assert!(error(folder.path()).to_string().contains("folder"));
        assert!(error(Path::new("/dev/zero")).to_string().contains("device"));
    }
}
