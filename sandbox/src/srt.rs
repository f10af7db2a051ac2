//! srt, the sandbox runtime of the npm world. Looked for, not started: a start takes seconds and
//! opens a proxy.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::bounded::run_bounded;
use crate::program::{find_program, one_line};

const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// The package that brings it.
const INSTALL: &str = "npm install -g @anthropic-ai/sandbox-runtime";

/// Whether srt is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Srt {
    /// It is. Whether it works was not tried.
    Found {
        /// The program.
        path: PathBuf,
        /// What the Node.js it runs on says its version is; null when there is none in `PATH` or
        /// it does not say.
        node_version: Option<String>,
    },
    /// It is not.
    Absent {
        /// The command that installs it.
        remedy: String,
    },
}

/// Looks for srt and for the Node.js that it needs, in `PATH`.
#[must_use]
pub fn srt() -> Srt {
    look(&std::env::var_os("PATH").unwrap_or_default())
}

fn look(path: &OsStr) -> Srt {
    match find_program("srt", path) {
        Some(program) => Srt::Found {
            path: program,
            node_version: node_version(path),
        },
        None => Srt::Absent {
            remedy: INSTALL.to_owned(),
        },
    }
}

fn node_version(path: &OsStr) -> Option<String> {
    let node = find_program("node", path)?;
    let finished = run_bounded(Command::new(node).arg("--version"), VERSION_LIMIT).ok()?;
    finished
        .status
        .success()
        .then(|| one_line(&finished.stdout))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::script_in;

    #[test]
    fn found_with_and_without_its_runtime() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = script_in(dir.path(), "srt", "exit 1");
        let alone = look(dir.path().as_os_str());
        assert_eq!(
            alone,
            Srt::Found {
                path: path.clone(),
                node_version: None
            }
        );

        script_in(dir.path(), "node", "echo v22.1.0");
        let node_version = Some("v22.1.0".to_owned());
        assert_eq!(
            look(dir.path().as_os_str()),
            Srt::Found { path, node_version }
        );
    }

    #[test]
    fn absent_with_the_command_that_installs_it() {
        assert_eq!(
            look(OsStr::new("/nonexistent")),
            Srt::Absent {
                remedy: INSTALL.to_owned()
            }
        );
    }
}
