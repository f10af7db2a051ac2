//! The file of one stream, from its first byte on, and the folder of such files.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat, unlinkat};
use sha2::{Digest, Sha256};
use xioflow_journal::{Output, Stream};

use super::digest::hex;
use super::head_tail::{HeadTail, Kept};

/// Names longer than this are encoded; with the suffix they stay below the 255 bytes of a file name.
const READABLE_NAME_MAX: usize = 120;

/// The folder of stored output, held open so that nothing can be put in its place.
#[derive(Debug)]
pub(crate) struct Artifacts {
    folder: OwnedFd,
    path: PathBuf,
}

impl Artifacts {
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
        let folder = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { folder, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes the folder itself, so that a file in it is found after a power loss.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

/// The beginning of the file names of one operation.
///
/// Ordinary ids stay readable. Any other id, whatever it contains, becomes its hash behind a `~`,
/// which no ordinary id begins with.
pub(crate) fn artifact_stem(operation_id: &str) -> String {
    let ordinary = !operation_id.is_empty()
        && operation_id.len() <= READABLE_NAME_MAX
        && !operation_id.starts_with(['.', '-'])
        && operation_id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if ordinary {
        operation_id.to_owned()
    } else {
        format!("~{}", hex(&Sha256::digest(operation_id.as_bytes())))
    }
}

/// The file of one stream.
#[derive(Debug)]
pub(crate) struct Spool {
    artifacts: Arc<Artifacts>,
    name: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing was printed, so there is no file.
    Unborn,
    Open(std::fs::File),
    /// The disk failed; nothing more is written, and why is kept.
    Broken(String),
}

impl Spool {
    pub(crate) fn new(artifacts: Arc<Artifacts>, stem: &str, stream: Stream) -> Self {
        Self {
            artifacts,
            name: file_name(stem, stream),
            state: State::Unborn,
        }
    }

    /// The file's name in the artifacts folder.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What went wrong, if something did.
    pub(crate) fn error(&self) -> Option<&str> {
        match &self.state {
            State::Broken(error) => Some(error),
            State::Unborn | State::Open(_) => None,
        }
    }

    /// Writes all of `bytes`; false once the file cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        if matches!(self.state, State::Unborn) {
            self.state = match self.create() {
                Ok(file) => State::Open(file),
                Err(error) => State::Broken(self.describe("create", &error)),
            };
        }
        let State::Open(file) = &mut self.state else {
            return false;
        };
        if let Err(error) = file.write_all(bytes) {
            self.state = State::Broken(self.describe("write", &error));
            return false;
        }
        true
    }

    fn create(&self) -> io::Result<std::fs::File> {
        // Exclusive: a file that is there already is somebody's, whatever its name.
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&self.artifacts.folder, &self.name, flags, Mode::from(0o600))?;
        Ok(std::fs::File::from(file))
    }

    fn describe(&self, act: &str, error: &io::Error) -> String {
        format!(
            "failed to {act} {}: {error}",
            self.artifacts.path.join(&self.name).display()
        )
    }

    /// A second handle on the file, for reading by offset; it outlives the file's name.
    pub(crate) fn handle(&self) -> Option<std::fs::File> {
        match &self.state {
            // Without one a slow subscriber misses what it was too slow for, and is told so.
            State::Open(file) => file.try_clone().ok(),
            State::Unborn | State::Broken(_) => None,
        }
    }

    /// Makes the file durable; an error is kept like one of writing.
    pub(crate) fn sync(&mut self) {
        let State::Open(file) = &self.state else {
            return;
        };
        if let Err(error) = file.sync_data().and_then(|()| self.artifacts.sync()) {
            self.state = State::Broken(self.describe("sync", &error));
        }
    }

    /// Removes the file, if it is still the one that was made here.
    pub(crate) fn remove(&mut self) {
        let State::Open(file) = &self.state else {
            return;
        };
        let removed = fstat(file)
            .and_then(|ours| {
                let found = statat(
                    &self.artifacts.folder,
                    &self.name,
                    AtFlags::SYMLINK_NOFOLLOW,
                )?;
                if (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino) {
                    unlinkat(&self.artifacts.folder, &self.name, AtFlags::empty())?;
                }
                Ok(())
            })
            .map_err(io::Error::from);
        if let Err(error) = removed {
            self.state = State::Broken(self.describe("remove", &error));
        }
    }
}

/// Reads what a crashed owner left of one stream: hashed, and referenced by its name. `None` when
/// there is no file.
pub(crate) fn spooled(artifacts: &Artifacts, stem: &str, stream: Stream) -> Option<(Kept, Output)> {
    let name = file_name(stem, stream);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut output = Output {
        stream,
        total_bytes: 0,
        sha256: None,
        artifact: None,
        content: None,
        spill_error: None,
    };
    let mut kept = HeadTail::new(crate::operation::DEFAULT_MAX_OUTPUT_BYTES);
    let read = match openat(&artifacts.folder, &name, flags, Mode::empty()) {
        Ok(file) => hash_file(std::fs::File::from(file), &mut kept),
        Err(rustix::io::Errno::NOENT) => return None,
        Err(error) => Err(error.into()),
    };
    output.total_bytes = kept.total();
    match read {
        Ok(hash) => {
            output.sha256 = Some(hash);
            output.artifact = Some(name);
        }
        Err(error) => {
            let path = artifacts.path.join(&name);
            output.spill_error = Some(format!("failed to read {}: {error}", path.display()));
        }
    }
    Some((kept.finish(), output))
}

fn hash_file(mut file: std::fs::File, kept: &mut HeadTail) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => break,
            len => {
                hash.update(&buffer[..len]);
                kept.push(&buffer[..len]);
            }
        }
    }
    // What is referenced must survive what comes next.
    file.sync_data()?;
    Ok(hex(&hash.finalize()))
}

/// Name of the file in the artifacts folder that a stream of an operation is stored in, while the
/// operation runs and for as long as the journal refers to it.
#[must_use]
pub fn artifact_name(operation_id: &str, stream: Stream) -> String {
    file_name(&artifact_stem(operation_id), stream)
}

fn file_name(stem: &str, stream: Stream) -> String {
    format!("{stem}-{stream}.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_ids_become_hashes() {
        for id in [
            "../x",
            "a/b",
            "",
            ".hidden",
            "-rf",
            "a\0b",
            "😀",
            &"x".repeat(4096),
        ] {
            let stem = artifact_stem(id);
            assert!(
                stem.starts_with('~') && stem.len() == 65,
                "{id:?} became {stem}"
            );
        }
        assert_eq!(artifact_stem("build-1.2_x"), "build-1.2_x");
    }

    #[test]
    fn a_file_that_is_there_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("op-stdout.log"), "theirs").unwrap();
        let artifacts = Arc::new(Artifacts::open(folder.path().to_path_buf()).unwrap());
        let mut spool = Spool::new(artifacts, "op", Stream::Stdout);
        assert!(!spool.write(b"ours"));
        assert!(spool.error().unwrap().contains("op-stdout.log"));
        spool.remove();
        let kept = std::fs::read(folder.path().join("op-stdout.log")).unwrap();
        assert_eq!(kept, b"theirs");
    }

    #[test]
    fn a_silent_stream_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Arc::new(Artifacts::open(folder.path().to_path_buf()).unwrap());
        let mut spool = Spool::new(artifacts, "op", Stream::Stderr);
        spool.sync();
        spool.remove();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
