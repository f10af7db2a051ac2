//! Holds a stored file against its record: there, as long, and the same bytes. Reads only.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};
use xioflow_journal::Output;

use super::digest::hex;
use super::stored::open_artifact;

/// What is read at once.
const READ_LEN: usize = 256 * 1024;

/// How a stored file compares with its record.
#[derive(Debug)]
pub enum StoredFileState {
    /// It is what was recorded.
    Whole,
    /// It is as long as recorded; a storage error has left no hash to compare it by.
    Unhashed,
    /// It is gone, and was not pruned.
    Missing,
    /// It has another length.
    Length {
        /// Bytes that it has.
        found: u64,
        /// Bytes that it should have.
        recorded: u64,
    },
    /// It is as long as recorded, and its content is another.
    Altered {
        /// The SHA-256 that it has, in hexadecimal.
        found: String,
    },
    /// It cannot be read, or something else stands under its name.
    Unreadable(io::Error),
}

/// Compares the file of an output with its record. `read` is told how many bytes were read, as they are.
///
/// A link is not followed, and nothing that is no file is waited for.
///
/// # Examples
/// ```
/// # let stage = xioflow_kit::Stage::new();
/// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
/// # let domain = options.open(stage.domain())?;
/// use xioflow_kernel::journal::Query;
/// use xioflow_kernel::{Command, StoredFileState, check_stored_file};
///
/// let lines = Command::new("/bin/sh").args(["-c", "seq 1 20000"]).inherit_env();
/// domain.operation(lines)?.id("count").run()?;
/// let outputs = domain.journal().outputs("count")?;
/// let artifacts = domain.folder().join("artifacts");
/// let state = check_stored_file(&artifacts, &outputs[0], &mut |_| {});
/// assert!(matches!(state, StoredFileState::Whole));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_stored_file(
    artifacts: &Path,
    output: &Output,
    read: &mut dyn FnMut(u64),
) -> StoredFileState {
    let name = output.artifact.as_deref().unwrap_or_default();
    match open_artifact(name, &artifacts.join(name)) {
        Ok(file) => compare(file, output, read).unwrap_or_else(StoredFileState::Unreadable),
        Err(error) if error.kind() == io::ErrorKind::NotFound => StoredFileState::Missing,
        Err(error) => StoredFileState::Unreadable(error),
    }
}

fn compare(
    mut file: File,
    output: &Output,
    read: &mut dyn FnMut(u64),
) -> io::Result<StoredFileState> {
    // What comes behind a gap is in the journal.
    let recorded = output.gap.map_or(output.total_bytes, |gap| gap.from);
    let found = file.metadata()?.len();
    let hash = match &output.sha256 {
        // What a storage error left has no length either.
        None => return Ok(StoredFileState::Unhashed),
        Some(_) if found != recorded => {
            return Ok(StoredFileState::Length { found, recorded });
        }
        Some(hash) => hash,
    };
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_LEN];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            len => {
                hasher.update(&buffer[..len]);
                read(len as u64);
            }
        }
    }
    let found = hex(&hasher.finalize());
    Ok(match found == *hash {
        true => StoredFileState::Whole,
        false => StoredFileState::Altered { found },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use xioflow_journal::{Gap, Stream};

    fn output(artifact: &str, bytes: &[u8]) -> Output {
        Output {
            stream: Stream::Stdout,
            total_bytes: bytes.len() as u64,
            lines: None,
            sha256: Some(hex(&Sha256::digest(bytes))),
            artifact: Some(artifact.to_owned()),
            content: None,
            gap: None,
            spill_error: None,
            pruned_at_ms: None,
        }
    }

    #[test]
    fn each_way_to_differ_has_its_name() {
        use StoredFileState::{Altered, Length, Missing, Unhashed, Unreadable, Whole};
        let folder = tempfile::tempdir().unwrap();
        let put =
            |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        let mut read = 0;
        let mut check =
            |output: &Output| check_stored_file(folder.path(), output, &mut |len| read += len);
        put("op", b"12345");
        assert!(matches!(check(&output("op", b"12345")), Whole));
        let other = check(&output("op", b"54321"));
        assert!(matches!(other, Altered { .. }), "{other:?}");
        let longer = check(&output("op", b"123456"));
        assert!(
            matches!(
                longer,
                Length {
                    found: 5,
                    recorded: 6
                }
            ),
            "{longer:?}"
        );
        assert!(matches!(check(&output("none", b"")), Missing));

        let mut with_gap = output("op", b"12345");
        (with_gap.total_bytes, with_gap.gap) = (100, Some(Gap { from: 5, to: 90 }));
        assert!(matches!(check(&with_gap), Whole), "the hash is of the file");
        let mut unhashed = output("op", b"other");
        unhashed.sha256 = None;
        assert!(matches!(check(&unhashed), Unhashed));

        symlink(folder.path().join("op"), folder.path().join("link")).unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        for other in ["link", "folder", "../op", "/etc/passwd", ""] {
            let state = check(&output(other, b"12345"));
            assert!(matches!(state, Unreadable(_)), "{other}: {state:?}");
        }
        assert_eq!(read, 15, "what was read is told");
    }
}
