//! bubblewrap: the file system read-only in a mount namespace, with writable folders on top.
//!
//! Neighbours: `write_trial` is what the probe runs in it, `user_namespaces` has the usual cause
//! when it fails.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::bounded::run_bounded;
use crate::driver::{DriverState, Loss};
use crate::program::{find_program, install_command, one_line};
use crate::user_namespaces::UserNamespaces;
use crate::write_trial::WriteTrial;

/// How long one start may take. It takes some ten milliseconds; a loaded machine is slower.
const START_LIMIT: Duration = Duration::from_secs(5);

/// Finds `bwrap` in `PATH`, starts it with one writable folder, and tries to write outside.
///
/// Starts at most three short programs and leaves nothing behind.
#[must_use]
pub fn bubblewrap() -> DriverState {
    probe(&std::env::var_os("PATH").unwrap_or_default(), START_LIMIT)
}

fn probe(path: &OsStr, limit: Duration) -> DriverState {
    let Some(program) = find_program("bwrap", path) else {
        return DriverState::Absent {
            remedy: install_command("bubblewrap", path),
        };
    };
    let trial = match WriteTrial::new() {
        Ok(trial) => trial,
        Err(error) => {
            return DriverState::CannotTell {
                why: format!("set up a trial: {error}"),
            };
        }
    };
    let attempt = |proc| trial.run(&program, &arguments(&trial.writable(), proc), limit);
    let losses = match attempt(Proc::Mounted) {
        Ok(()) => Vec::new(),
        // Containers cover parts of /proc, and the kernel then refuses to have it mounted anew.
        Err(why) => match attempt(Proc::AsBound) {
            Ok(()) => vec![Loss::ProcReadOnly],
            Err(_) => {
                let remedy = UserNamespaces::observe().remedy().map(str::to_owned);
                return DriverState::Broken {
                    path: program,
                    why,
                    remedy,
                };
            }
        },
    };
    DriverState::Ready {
        version: version(&program, limit),
        path: program,
        losses,
    }
}

/// What is done about `/proc`.
#[derive(Clone, Copy)]
enum Proc {
    /// It is mounted again over the read-only one.
    Mounted,
    /// It stays as it came with the root, read-only.
    AsBound,
}

/// The arguments before the command: everything read-only, devices fresh, one folder writable.
///
/// The pid namespace is shared on purpose: the helper must be able to see what it holds.
fn arguments(writable: &Path, proc: Proc) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
            .map(OsString::from)
            .into();
    if matches!(proc, Proc::Mounted) {
        arguments.extend(["--proc", "/proc"].map(OsString::from));
    }
    arguments.extend(
        [
            OsStr::new("--bind"),
            writable.as_os_str(),
            writable.as_os_str(),
        ]
        .map(OsString::from),
    );
    arguments.push("--".into());
    arguments
}

/// Only shown; a driver that works without a version is still one that works.
fn version(program: &Path, limit: Duration) -> Option<String> {
    let finished = run_bounded(Command::new(program).arg("--version"), limit).ok()?;
    finished
        .status
        .success()
        .then(|| one_line(&finished.stdout))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Failure;
    use crate::testing::script_in;

    /// Drops the driver's own arguments and leaves the command.
    const DROP_ARGUMENTS: &str = "while [ \"$1\" != -- ]; do shift; done; shift\n";

    /// Puts a shell script in place of bubblewrap.
    fn probe_script(script: &str, limit: Duration) -> DriverState {
        let dir = tempfile::tempdir().expect("a folder");
        script_in(dir.path(), "bwrap", script);
        probe(dir.path().as_os_str(), limit)
    }

    fn failure(script: &str, limit: Duration) -> Failure {
        match probe_script(script, limit) {
            DriverState::Broken { why, .. } => why,
            other => panic!("expected a broken driver, got {other:?}"),
        }
    }

    #[test]
    fn one_that_confines_nothing_is_found_out() {
        let script = format!("{DROP_ARGUMENTS}exec \"$@\"\n");
        assert_eq!(failure(&script, START_LIMIT), Failure::Escaped);
    }

    #[test]
    fn one_that_fails_is_shown_with_its_first_line() {
        let expected = Failure::NotWritten {
            exit_code: Some(1),
            signal: None,
            first_line: Some("bwrap: no permission".into()),
        };
        let script = "echo 'bwrap: no permission' >&2; echo more >&2; exit 1\n";
        assert_eq!(failure(script, START_LIMIT), expected);
    }

    #[test]
    fn success_without_the_write_is_no_success() {
        let expected = Failure::NotWritten {
            exit_code: Some(0),
            signal: None,
            first_line: None,
        };
        assert_eq!(failure("exit 0\n", START_LIMIT), expected);
    }

    #[test]
    fn one_that_hangs_is_killed() {
        let limit = Duration::from_millis(50);
        assert_eq!(
            failure("exec sleep 60\n", limit),
            Failure::TimedOut { limit_ms: 50 }
        );
    }

    #[test]
    fn one_that_cannot_mount_proc_is_weaker() {
        // Confines by taking the second file name away, unless it is asked for /proc.
        let script = format!(
            "[ \"$1\" = --version ] && {{ echo 'bubblewrap 0.0.0'; exit 0; }}\n\
             case \"$*\" in *--proc*) exit 1;; esac\n{DROP_ARGUMENTS}\
             exec \"$1\" \"$2\" \"$3\" \"$4\" \"$5\" /nonexistent/outside\n"
        );
        match probe_script(&script, START_LIMIT) {
            DriverState::Ready {
                version, losses, ..
            } => {
                assert_eq!(version.as_deref(), Some("bubblewrap 0.0.0"));
                assert_eq!(losses, [Loss::ProcReadOnly]);
            }
            other => panic!("expected a ready driver, got {other:?}"),
        }
    }

    #[test]
    fn an_absent_one_is_no_broken_one() {
        let state = probe(OsStr::new("/nonexistent"), START_LIMIT);
        assert_eq!(state, DriverState::Absent { remedy: None });
    }

    #[test]
    fn the_one_on_this_host_is_told_in_full() {
        match bubblewrap() {
            DriverState::Ready { path, .. } | DriverState::Broken { path, .. } => {
                assert!(path.is_absolute() && path.ends_with("bwrap"));
            }
            DriverState::Absent { .. } => println!("skipped: bubblewrap is not installed"),
            DriverState::CannotTell { why } => panic!("no trial in the temporary folder: {why}"),
        }
    }
}
