//! Where the cases of one user find what they run, and leave their temporary files.
//!
//! The programs are copies: the build may lie where only root can look, and a build that goes on
//! beside the suite must not change what it examines.

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, StatVfsMountFlags, statvfs};
use tempfile::TempDir;
use xioflow_kit::{PROGRAMS, bin_dir};

/// `nobody` on every distribution.
const ORDINARY_ID: u32 = 65534;

/// Copies of the programs and of the runner, and a folder for temporary files, gone when dropped.
pub(super) struct Place {
    folder: TempDir,
    user_id: Option<u32>,
}

/// File systems in memory, on every Linux.
const MEMORY: &str = "/dev/shm";

/// What the copies and the cases that run at once take, with a wide margin.
const ROOM_BYTES: u64 = 1024 * 1024 * 1024;

/// A folder in memory where there is room and programs can be executed, unless `TMPDIR` names another place. Who
/// is killed loses nothing that was written, so for what is examined here that is the same, and four times
/// as fast: no commit waits for a disk.
fn folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("xioflow-matrix-")
        .permissions(Permissions::from_mode(0o755));
    let fits = |memory: StatVfs| {
        let executes = !memory.f_flag.contains(StatVfsMountFlags::NOEXEC);
        executes && memory.f_bavail * memory.f_frsize >= ROOM_BYTES
    };
    let is_free = env::var_os("TMPDIR").is_none();
    match is_free && statvfs(MEMORY).is_ok_and(fits) {
        true => builder.tempdir_in(MEMORY).or_else(|_| builder.tempdir()),
        false => builder.tempdir(),
    }
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
        let folder = folder().expect("a folder");
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
        let ourselves = env::current_exe().expect("a program");
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
