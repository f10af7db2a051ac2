//! Where the cases of one user find what they run, and leave their temporary files.
//!
//! The programs are copies: the build may lie where only root can look, and a build that goes on
//! beside the suite must not change what it examines.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use xioflow_kit::{PROGRAMS, bin_dir};

/// `nobody` on every distribution.
const ORDINARY_ID: u32 = 65534;

/// Copies of the programs and of the runner, and a folder for temporary files, gone when dropped.
pub(super) struct Place {
    folder: TempDir,
    user_id: Option<u32>,
}

impl Place {
    /// For the user of this process.
    pub(super) fn of_this_user() -> Self {
        Self::set_up(None)
    }

    /// For a user without privileges. Only root can make one.
    pub(super) fn of_an_ordinary_user() -> Self {
        Self::set_up(Some(ORDINARY_ID))
    }

    /// Copies everything.
    ///
    /// # Panics
    /// When the system refuses.
    fn set_up(user_id: Option<u32>) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("xioflow-matrix-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder");
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

    /// The user that cases become, if another than that of this process.
    pub(super) fn user_id(&self) -> Option<u32> {
        self.user_id
    }

    /// Who that is, for people.
    pub(super) fn user_name(&self) -> &'static str {
        match self.user_id {
            None => "this user",
            Some(_) => "an ordinary user",
        }
    }

    /// The folder of the programs. They belong to the user, who then may link them into stages.
    pub(super) fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    pub(super) fn runner(&self) -> PathBuf {
        self.folder.path().join("matrix")
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
