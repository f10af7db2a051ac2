//! The file of one stream, from its first byte on. The folder that it is in is `folder`.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat, unlinkat};
use sha2::{Digest, Sha256};
use xioflow_journal::{Output, Stream};
use xioflow_killpoint as killpoint;

use super::digest::hex;
use super::folder::Artifacts;
use super::head_tail::{HeadTail, Kept};
use super::lines::LineCount;
use crate::plain_file;

/// Names longer than this are encoded; with the suffix they stay below the 255 bytes of a file name.
const READABLE_NAME_MAX: usize = 120;

/// The beginning of the file names of one operation.
///
/// Ordinary ids stay readable. Any other id, whatever it contains, becomes its hash behind a `~`,
/// which no ordinary id begins with. An id with a capital is not ordinary: where case does not count in
/// names, as in some folders of ext4 and on most disks of macOS, `Build` and `build` would share a file.
pub(crate) fn artifact_stem(operation_id: &str) -> String {
    let ordinary = !operation_id.is_empty()
        && operation_id.len() <= READABLE_NAME_MAX
        && !operation_id.starts_with(['.', '-'])
        && operation_id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b));
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
    /// None while nothing was printed, or if it could not be made.
    file: Option<Arc<File>>,
    /// Why the file is not, or not whole: the disk failed. Nothing more is written then.
    error: Option<String>,
}

impl Spool {
    pub(crate) fn new(artifacts: Arc<Artifacts>, stem: &str, stream: Stream) -> Self {
        Self {
            artifacts,
            name: file_name(stem, stream),
            file: None,
            error: None,
        }
    }

    /// The file's name in the artifacts folder.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What went wrong, if something did.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Writes all of `bytes`; false once the file cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        if self.error.is_some() {
            return false;
        }
        if self.file.is_none() {
            match self.create() {
                Ok(file) => self.file = Some(Arc::new(file)),
                Err(error) => self.fail("create", &error),
            }
        }
        let Some(file) = &self.file else {
            return false;
        };
        killpoint::pass(|| "spool:before-write");
        if let Err(error) = file.as_ref().write_all(bytes) {
            self.fail("write", &error);
            return false;
        }
        killpoint::pass(|| "spool:after-write");
        true
    }

    fn create(&self) -> io::Result<File> {
        // Exclusive: a file that is there already is somebody's, whatever its name.
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        killpoint::pass(|| "spool:before-create");
        let folder = self.artifacts.descriptor();
        let file = openat(folder, &self.name, flags, Mode::from(0o600))?;
        killpoint::pass(|| "spool:after-create");
        Ok(File::from(file))
    }

    fn fail(&mut self, act: &str, error: &io::Error) {
        let path = self.artifacts.path().join(&self.name);
        self.error = Some(format!("failed to {act} {}: {error}", path.display()));
    }

    /// The file, for reading by offset; it outlives the file's name.
    pub(crate) fn handle(&self) -> Option<Arc<File>> {
        self.file.clone()
    }

    /// The first `len` bytes of the file, which are few. An error is kept like one of writing.
    pub(crate) fn read_back(&mut self, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let Some(file) = &self.file else {
            return Vec::new();
        };
        if let Err(error) = file.read_exact_at(&mut bytes, 0) {
            self.fail("read", &error);
            return Vec::new();
        }
        bytes
    }

    /// Makes the file durable; an error is kept like one of writing.
    pub(crate) fn sync(&mut self) {
        let Some(file) = &self.file else { return };
        killpoint::pass(|| "spool:before-sync");
        if let Err(error) = file.sync_data().and_then(|()| self.artifacts.sync()) {
            self.fail("sync", &error);
        }
        killpoint::pass(|| "spool:after-sync");
    }

    /// Removes a file that is not whole, as [`Spool::remove`] does, and frees its room at once: who
    /// follows the output still has it open, and the record of the operation may need that room.
    pub(crate) fn discard(&mut self) -> u64 {
        if let Some(file) = &self.file {
            // If that fails its room is free when the last of them has closed it.
            file.set_len(0).ok();
        }
        self.remove()
    }

    /// Removes the file, if it is still the one that was made here; says how long a file is that
    /// could not be removed.
    pub(crate) fn remove(&mut self) -> u64 {
        let Some(file) = &self.file else { return 0 };
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        let removed = fstat(file).and_then(|ours| {
            let found = statat(
                self.artifacts.descriptor(),
                &self.name,
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
            if (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino) {
                killpoint::pass(|| "spool:before-remove");
                unlinkat(self.artifacts.descriptor(), &self.name, AtFlags::empty())?;
                killpoint::pass(|| "spool:after-remove");
            }
            Ok(())
        });
        // What went wrong first is what people need to know.
        match removed {
            Ok(()) => 0,
            Err(error) => {
                if self.error.is_none() {
                    self.fail("remove", &error.into());
                }
                len
            }
        }
    }
}

/// Reads what a crashed owner left of one stream: hashed, and referenced by its name. `None` when
/// there is no file.
pub(crate) fn spooled(artifacts: &Artifacts, stem: &str, stream: Stream) -> Option<(Kept, Output)> {
    let name = file_name(stem, stream);
    let mut output = Output {
        stream,
        total_bytes: 0,
        lines: None,
        sha256: None,
        artifact: None,
        content: None,
        gap: None,
        spill_error: None,
        pruned_at_ms: None,
    };
    let mut kept = HeadTail::new(crate::operation::DEFAULT_MAX_OUTPUT_BYTES);
    let mut lines = LineCount::default();
    let read = match plain_file::open_in(artifacts.descriptor(), &name) {
        // What is referenced must survive what comes next, and be found under its name.
        Ok(file) => {
            hash_file(file, &mut kept, &mut lines).and_then(|hash| artifacts.sync().map(|()| hash))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Err(error),
    };
    output.total_bytes = kept.total();
    match read {
        Ok(hash) => {
            output.sha256 = Some(hash);
            output.lines = Some(lines.total());
            output.artifact = Some(name);
        }
        Err(error) => {
            let path = artifacts.path().join(&name);
            output.spill_error = Some(format!("failed to read {}: {error}", path.display()));
        }
    }
    Some((kept.finish(), output))
}

fn hash_file(mut file: File, kept: &mut HeadTail, lines: &mut LineCount) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => break,
            len => {
                hash.update(&buffer[..len]);
                lines.add(&buffer[..len]);
                kept.push(&buffer[..len]);
            }
        }
    }
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
            "Build",
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
        let artifacts = Arc::new(Artifacts::open(folder.path().to_path_buf(), u64::MAX).unwrap());
        let mut spool = Spool::new(artifacts, "op", Stream::Stdout);
        assert!(!spool.write(b"ours"));
        assert!(spool.error().unwrap().contains("op-stdout.log"));
        spool.remove();
        let kept = std::fs::read(folder.path().join("op-stdout.log")).unwrap();
        assert_eq!(kept, b"theirs");
    }

    #[test]
    fn what_is_discarded_takes_no_room_though_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Arc::new(Artifacts::open(folder.path().to_path_buf(), u64::MAX).unwrap());
        let mut spool = Spool::new(artifacts, "op", Stream::Stdout);
        assert!(spool.write(&[b'x'; 10_000]));
        let followed = spool.handle().unwrap();
        spool.fail("write", &io::Error::from(rustix::io::Errno::NOSPC));
        assert_eq!(spool.discard(), 0);
        assert_eq!(followed.metadata().unwrap().len(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_silent_stream_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Arc::new(Artifacts::open(folder.path().to_path_buf(), u64::MAX).unwrap());
        let mut spool = Spool::new(artifacts, "op", Stream::Stderr);
        spool.sync();
        spool.remove();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
