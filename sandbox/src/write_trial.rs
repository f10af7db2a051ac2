//! The trial every driver is put to: one write inside, one outside.
//!
//! Neighbours: a driver wraps the trial's command; what became of the two files decides. Exit
//! codes and messages of the driver do not.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bounded::{BoundedError, Finished, run_bounded};
use crate::driver::Failure;
use crate::program::one_line;

/// Tries to write the file outside first, so that the file inside proves that both were tried.
const SCRIPT: &str = "echo out > \"$2\"; echo in > \"$1\"";

/// Two folders of which one is meant to be writable. Removed when dropped.
pub(crate) struct WriteTrial {
    folder: tempfile::TempDir,
}

impl WriteTrial {
    /// Prepares the folders and makes sure that both can be written now: a write that would fail
    /// anyway proves nothing about a driver.
    pub(crate) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("xioflow-trial-")
            .tempdir()?;
        let trial = Self { folder };
        for part in ["inside", "outside"] {
            std::fs::create_dir(trial.part(part))?;
            let control = trial.part(part).join("control");
            std::fs::write(&control, b"")?;
            std::fs::remove_file(&control)?;
        }
        Ok(trial)
    }

    fn part(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder that the driver is to leave writable.
    pub(crate) fn writable(&self) -> PathBuf {
        self.part("inside")
    }

    fn written(&self) -> PathBuf {
        self.part("inside").join("written")
    }

    fn escaped(&self) -> PathBuf {
        self.part("outside").join("escaped")
    }

    /// Runs the trial's command under `driver` with these arguments before it.
    pub(crate) fn run(
        &self,
        driver: &Path,
        arguments: &[OsString],
        limit: Duration,
    ) -> Result<(), Failure> {
        self.reset();
        let mut command = Command::new(driver);
        command
            .args(arguments)
            .args(["/bin/sh", "-c", SCRIPT, "sh"].map(OsStr::new));
        command.arg(self.written()).arg(self.escaped());
        command
            .current_dir(self.writable())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let result = run_bounded(&mut command, limit);
        judge(result, self.written().exists(), self.escaped().exists())
    }

    /// A trial may be run several times. A file that is not there need not be removed, and one
    /// that cannot be removed shows up as written again.
    fn reset(&self) {
        for file in [self.written(), self.escaped()] {
            std::fs::remove_file(file).ok();
        }
    }
}

fn judge(
    result: Result<Finished, BoundedError>,
    written: bool,
    escaped: bool,
) -> Result<(), Failure> {
    if escaped {
        return Err(Failure::Escaped);
    }
    match result {
        Ok(_) if written => Ok(()),
        Ok(finished) => Err(Failure::NotWritten {
            exit_code: finished.status.code(),
            signal: finished.status.signal(),
            first_line: one_line(&finished.stderr),
        }),
        Err(
            BoundedError::TimedOut { limit_ms, .. } | BoundedError::Unkillable { limit_ms, .. },
        ) => Err(Failure::TimedOut { limit_ms }),
        Err(error @ (BoundedError::Start { .. } | BoundedError::Wait { .. })) => {
            Err(Failure::NotRun {
                why: with_cause(&error),
            })
        }
    }
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
