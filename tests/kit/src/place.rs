//! Where the cases of one user find what they run, and leave their temporary files.
//!
//! For runners, which are executed again for each case. The programs are copies: the build may lie where only
//! root can look, and a build that goes on beside the suite must not change what it examines.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::stage::{ORDINARY_ID, PROGRAMS, bin_dir, running_as_root};

/// Copies of the programs and of the runner, and a folder for temporary files, gone when dropped.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    user_id: Option<u32>,
}

impl Place {
    /// For the user of this process and, as root, for one without privileges. `folder` makes a new folder that others
    /// may enter (mode 0755).
    ///
    /// # Panics
    /// When the system refuses.
    pub fn of_each_user(folder: impl Fn() -> TempDir) -> Vec<Self> {
        let ordinary = running_as_root().then_some(ORDINARY_ID);
        let users = [None].into_iter().chain(ordinary.map(Some));
        users.map(|user| Self::set_up(folder(), user)).collect()
    }

    fn set_up(folder: TempDir, user_id: Option<u32>) -> Self {
        let place = Self { folder, user_id };
        for path in [place.programs(), place.temporary()] {
            fs::create_dir(&path).expect("a folder");
            place.give(&path);
        }
        for name in PROGRAMS {
            let built = bin_dir().join(name);
            if built.exists() {
                place.copy(&built, &place.programs().join(name));
            }
        }
        let ourselves = std::env::current_exe().expect("a program");
        place.copy(&ourselves, &place.runner());
        place
    }

    /// Whose cases have it, for people.
    #[must_use]
    pub const fn user_name(&self) -> &'static str {
        match self.user_id {
            None => "this user",
            Some(_) => "an ordinary user",
        }
    }

    /// The folder of the programs. They belong to the user, who then may link them into stages.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// The runner, to be executed again as the user. Its environment is the caller's business.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.runner());
        command.current_dir(self.temporary());
        if let Some(id) = self.user_id {
            // As root, std also drops all supplementary groups on the way to another user.
            command.uid(id).gid(id);
        }
        command
    }

    /// The user's own folder for temporary files; the runner stands in it when it is executed again.
    #[must_use]
    pub fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// Whether its user may make pid namespaces, tried with unshare(1).
    #[must_use]
    pub fn has_pid_namespaces(&self) -> bool {
        let mut unshare = Command::new("/usr/bin/unshare");
        if self.user_id.is_some() || !running_as_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        if let Some(id) = self.user_id {
            unshare.uid(id).gid(id);
        }
        let tried = unshare.args(["--pid", "--fork", "--mount-proc", "true"]);
        tried.output().is_ok_and(|it| it.status.success())
    }

    fn runner(&self) -> PathBuf {
        self.folder.path().join("runner")
    }

    fn copy(&self, from: &Path, to: &Path) {
        fs::copy(from, to).unwrap_or_else(|error| panic!("copy {}: {error}", from.display()));
        self.give(to);
    }

    fn give(&self, path: &Path) {
        if self.user_id.is_some() {
            chown(path, self.user_id, self.user_id).expect("chown");
        }
    }
}
