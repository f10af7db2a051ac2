//! A disk that can be filled: a file system in memory, which only root may mount.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use xioflow_kit::Stage;

/// Room for everything that a soak stores between two prunings, and for its journal.
const SIZE: &str = "size=1g";

/// A file system of its own in the stage.
#[derive(Debug)]
pub(crate) struct Disk<'a> {
    stage: &'a Stage,
    path: PathBuf,
}

impl<'a> Disk<'a> {
    /// Mounts one; `None` for a user who may not.
    pub(crate) fn below(stage: &'a Stage) -> Option<Self> {
        if !stage.is_privileged() {
            return None;
        }
        let path = stage.folder("disk");
        let mount = ["-t", "tmpfs", "-o", SIZE, "none"];
        let mounted = stage.run("mount").args(mount).arg(&path).finish();
        if !mounted.status.success() {
            eprintln!("skipped: a full disk, since no file system can be mounted here\n{mounted}");
            return None;
        }
        Some(Self { stage, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all the room that is left; [`Disk::relieve`] gives it back.
    pub(crate) fn fill(&self) {
        let free = statvfs(&self.path).expect("a file system");
        let filler = File::create(self.filler()).expect("a file on our own file system");
        // Others write meanwhile, so it may be more than there is by now: then it is full as well.
        fallocate(
            &filler,
            FallocateFlags::empty(),
            0,
            free.f_bfree * free.f_frsize,
        )
        .ok();
    }

    /// Makes room again.
    pub(crate) fn relieve(&self) {
        fs::remove_file(self.filler()).ok();
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        self.relieve();
        self.stage.end_arbiters();
        let unmounted = self.stage.run("umount").arg(&self.path).finish();
        if !std::thread::panicking() {
            unmounted.assert_code(0);
        }
    }
}
