//! Where an ordinary user finds what it runs: the build may lie where only root can look.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use xioflow_kit::{PROGRAMS, bin_dir};

/// `nobody` on every distribution.
pub(super) const ORDINARY_ID: u32 = 65534;

/// Copies of the programs and of the runner, and a folder for temporary files.
pub(super) struct OrdinaryPlace {
    folder: TempDir,
}

impl OrdinaryPlace {
    /// Copies everything.
    ///
    /// # Panics
    /// When the system refuses.
    pub(super) fn set_up() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("xioflow-conformance-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder");
        let place = Self { folder };
        for path in [place.bin_dir(), place.temporary()] {
            fs::create_dir(&path).expect("a folder");
            give(&path);
        }
        for name in PROGRAMS {
            let built = bin_dir().join(name);
            if built.exists() {
                copy(&built, &place.bin_dir().join(name));
            }
        }
        let ourselves = std::env::current_exe().expect("a program");
        copy(&ourselves, &place.runner());
        place
    }

    pub(super) fn bin_dir(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    pub(super) fn runner(&self) -> PathBuf {
        self.folder.path().join("conformance")
    }
}

/// A copy and no link: it is to belong to the ordinary user, who then may link it into stages.
fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap_or_else(|error| panic!("copy {}: {error}", from.display()));
    give(to);
}

fn give(path: &Path) {
    chown(path, Some(ORDINARY_ID), Some(ORDINARY_ID)).expect("chown");
}
