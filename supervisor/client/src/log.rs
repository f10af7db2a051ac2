//! `arbiter.log`: where an arbiter that was started for a client writes what it has nobody to tell.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, openat};

use crate::endpoint::Endpoint;

/// Its name in the domain's folder.
const LOG_NAME: &str = "arbiter.log";

/// A log that is longer when an arbiter is started is begun anew. An arbiter writes a line where
/// something went wrong, so this is years of trouble.
const LOG_MAX_BYTES: u64 = 1024 * 1024;

/// How much of its end is quoted when an arbiter has died.
const TAIL_MAX_BYTES: usize = 2048;

/// The log, and where the part of the next arbiter begins.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    pub(crate) path: PathBuf,
    begin: u64,
}

impl Log {
    /// Opens it at its end.
    pub(crate) fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let how =
            OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(endpoint, LOG_NAME, how, Mode::RUSR | Mode::WUSR)?);
        let mut begin = file.metadata()?.len();
        if begin > LOG_MAX_BYTES {
            file.set_len(0)?;
            begin = 0;
        }
        let path = endpoint.path().join(LOG_NAME);
        Ok(Self { file, path, begin })
    }

    /// A descriptor for the arbiter.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// The end of what was written since it was opened, from the beginning of a line where there is
    /// one. What cannot be read is said to be that.
    pub(crate) fn tail(&self) -> String {
        match self.read_tail() {
            Ok(tail) => tail,
            Err(error) => format!("(it cannot be read: {error})"),
        }
    }

    fn read_tail(&self) -> io::Result<String> {
        let end = self.file.metadata()?.len();
        let from = self.begin.max(end.saturating_sub(TAIL_MAX_BYTES as u64));
        let mut bytes = vec![0; TAIL_MAX_BYTES];
        let len = self.file.read_at(&mut bytes, from)?;
        let text = String::from_utf8_lossy(&bytes[..len]);
        let whole = match text.split_once('\n') {
            Some((_, lines)) if from > self.begin => lines,
            _ => &text,
        };
        Ok(whole.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_tail_is_of_this_arbiter_and_begins_with_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::open(folder.path()).unwrap();
        std::fs::write(folder.path().join(LOG_NAME), "of another\n").unwrap();
        let log = Log::open(&endpoint).unwrap();
        assert_eq!(log.tail(), "");
        let mut theirs = File::from(log.descriptor().unwrap());
        theirs.write_all(b"first\nsecond\n").unwrap();
        assert_eq!(log.tail(), "first\nsecond");
        for number in 0..1000 {
            writeln!(theirs, "line {number}").unwrap();
        }
        let tail = log.tail();
        assert!(
            tail.len() <= TAIL_MAX_BYTES && tail.starts_with("line ") && tail.ends_with(" 999")
        );
    }

    #[test]
    fn a_log_that_is_too_long_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::open(folder.path()).unwrap();
        let path = folder.path().join(LOG_NAME);
        let long = File::create(&path).unwrap();
        long.set_len(LOG_MAX_BYTES + 1).unwrap();
        assert_eq!(Log::open(&endpoint).unwrap().begin, 0);
        assert_eq!(path.metadata().unwrap().len(), 0);
    }
}
