//! Where the matrix has its programs and its cases their files.

use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{StatVfs, StatVfsMountFlags, statvfs};
use tempfile::TempDir;

/// File systems in memory, on every Linux.
const MEMORY: &str = "/dev/shm";

/// What the copies and the cases that run at once take, with a wide margin.
const ROOM_BYTES: u64 = 1024 * 1024 * 1024;

/// A folder in memory where there is room and programs can be executed, unless `TMPDIR` names another place. Who
/// is killed loses nothing that was written, so for what is examined here that is the same, and four times
/// as fast: no commit waits for a disk.
///
/// # Panics
/// When the system refuses.
pub(super) fn folder() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("xioflow-matrix-")
        .permissions(Permissions::from_mode(0o755));
    let fits = |memory: StatVfs| {
        let executes = !memory.f_flag.contains(StatVfsMountFlags::NOEXEC);
        executes && memory.f_bavail * memory.f_frsize >= ROOM_BYTES
    };
    let is_free = env::var_os("TMPDIR").is_none();
    let made = match is_free && statvfs(MEMORY).is_ok_and(fits) {
        true => builder.tempdir_in(MEMORY).or_else(|_| builder.tempdir()),
        false => builder.tempdir(),
    };
    made.expect("a folder")
}
