//! git: found, started, and whether it accepts the work tree here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use xioflow_sandbox::{Finished, find_program, install_command, one_line, run_bounded};

use super::report::{Finding, with_causes};

/// How long one call may take; it reads a few small files.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Looks for git in `PATH`, and asks it about `work_dir`.
pub(super) fn look(work_dir: &Path) -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Without this a message would say "." where a folder is meant.
    let work_dir = &std::path::absolute(work_dir).unwrap_or_else(|_| work_dir.to_owned());
    let Some(git) = find_program("git", &path) else {
        return Finding::missing("git is not in PATH")
            .with_remedy(install_command("git", &path))
            .with_facts(json!({ "path": null, "version": null, "workTree": null }));
    };
    let version = match call(&git, work_dir, &["--version"]) {
        Ok(finished) if finished.status.success() => one_line(&finished.stdout),
        Ok(finished) => {
            return Finding::missing(format!("{} ended with {}", git.display(), finished.status));
        }
        Err(what) => return Finding::missing(what),
    };
    let shown = version.clone().unwrap_or_else(|| "git".to_owned());
    let (finding, accepted) = judge_tree(&git, work_dir, &shown);
    finding.with_facts(json!({
        "path": git.to_string_lossy(),
        "version": version,
        "workTree": accepted,
    }))
}

/// A repository above that git does not accept is not the same as none.
fn judge_tree(git: &Path, work_dir: &Path, shown: &str) -> (Finding, Option<bool>) {
    let place = work_dir.display();
    match call(git, work_dir, &["rev-parse", "--is-inside-work-tree"]) {
        Ok(finished) if finished.status.success() => {
            let inside = finished.stdout.starts_with(b"true");
            let word = if inside { "is" } else { "is not" };
            (
                Finding::ready(format!("{shown}; {place} {word} in a work tree")),
                Some(inside),
            )
        }
        Ok(finished) => match repository_above(work_dir) {
            None => (
                Finding::ready(format!("{shown}; {place} is not in a work tree")),
                Some(false),
            ),
            Some(repository) => {
                let said =
                    one_line(&finished.stderr).unwrap_or_else(|| finished.status.to_string());
                let detail = format!("{shown} does not accept {}: {said}", repository.display());
                (
                    Finding::weaker(detail).with_remedy(trust(&repository)),
                    None,
                )
            }
        },
        Err(what) => (Finding::cannot_tell(what), None),
    }
}

/// The usual cause is a tree of another user, which git wants to be told to trust.
fn trust(repository: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let owner = std::fs::metadata(repository).ok()?.uid();
    let foreign = owner != rustix::process::geteuid().as_raw();
    let tree = repository.parent()?.to_str()?.replace('\'', r"'\''");
    foreign.then(|| format!("git config --global --add safe.directory '{tree}'"))
}

/// In a linked work tree and in a submodule `.git` is a file.
fn repository_above(work_dir: &Path) -> Option<PathBuf> {
    let work_dir = std::path::absolute(work_dir).ok()?;
    work_dir
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|candidate| candidate.exists())
}

/// Variables that would point git at another repository are taken away.
fn call(git: &Path, work_dir: &Path, arguments: &[&str]) -> Result<Finished, String> {
    let mut command = Command::new(git);
    command.args(arguments).current_dir(work_dir);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_git(name)) {
        command.env_remove(name);
    }
    run_bounded(&mut command, CALL_LIMIT).map_err(|error| with_causes(&error))
}

fn is_of_git(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"GIT_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Check, Verdict};

    fn check(work_dir: &Path) -> Check {
        Check::new("git", "git", false, look(work_dir))
    }

    #[test]
    fn a_folder_without_a_repository_and_one_with_a_broken_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let plain = check(dir.path());
        if plain.verdict == Verdict::Missing {
            println!("skipped: git is not installed");
            return;
        }
        if repository_above(dir.path()).is_none() {
            assert_eq!(plain.facts["workTree"], false);
            assert_eq!(plain.verdict, Verdict::Ready);
        }
        std::fs::write(dir.path().join(".git"), "nonsense").expect("a broken repository");
        let broken = check(dir.path());
        assert_eq!(broken.verdict, Verdict::Weaker, "{}", broken.detail);
        assert_eq!(broken.facts["workTree"], serde_json::Value::Null);
    }

    #[test]
    fn a_work_tree_is_recognised() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let Some(git) = find_program("git", &path) else {
            println!("skipped: git is not installed");
            return;
        };
        let made = call(&git, dir.path(), &["init", "--quiet"]).expect("git starts");
        assert!(made.status.success());
        std::fs::create_dir(dir.path().join("below")).expect("a folder in it");
        assert_eq!(check(&dir.path().join("below")).facts["workTree"], true);
    }
}
