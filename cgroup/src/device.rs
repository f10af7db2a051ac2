//! Finds the disk that a path is on, as `io.max` wants it: the whole disk and not a partition.
//!
//! Neighbour: `limits` has the limit. Source: kernel admin guide, "Control Group v2", IO; sysfs(5).

use std::io;
use std::path::Path;

/// Where the kernel lists block devices by number.
const BLOCK_DEVICES: &str = "/sys/dev/block";

/// Major and minor number of the disk under a path; null where there is no single one, as on
/// overlayfs, btrfs, tmpfs and network file systems.
///
/// # Errors
/// The path, or what the kernel says of its device, cannot be read.
pub fn disk_of(path: &Path) -> io::Result<Option<(u32, u32)>> {
    let device = rustix::fs::stat(path)?.st_dev;
    let number = (rustix::fs::major(device), rustix::fs::minor(device));
    match whole_disk(Path::new(BLOCK_DEVICES), number) {
        // What has no block device has a number all the same, which no disk has.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        answer => answer.map(Some),
    }
}

/// The disk that a block device is, or is a partition of.
fn whole_disk(devices: &Path, (major, minor): (u32, u32)) -> io::Result<(u32, u32)> {
    let entry = devices.join(format!("{major}:{minor}"));
    if !entry.try_exists()? {
        return Err(io::ErrorKind::NotFound.into());
    }
    if !entry.join("partition").try_exists()? {
        return Ok((major, minor));
    }
    // The entry is a link to the partition's folder, which is in that of its disk.
    let number = std::fs::read_to_string(entry.join("../dev"))?;
    parse(&number).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `major:minor`.
fn parse(number: &str) -> Option<(u32, u32)> {
    let (major, minor) = number.trim_end().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A list of devices with one disk, 8:0, and one partition of it, 8:1.
    fn devices() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        let partition = dir.path().join("sda/sda1");
        fs::create_dir_all(&partition).expect("a fake device");
        fs::write(dir.path().join("sda/dev"), "8:0\n").expect("a fake number");
        fs::write(partition.join("partition"), "1\n").expect("a fake mark");
        symlink("sda", dir.path().join("8:0")).expect("a fake entry");
        symlink("sda/sda1", dir.path().join("8:1")).expect("a fake entry");
        dir
    }

    #[test]
    fn a_partition_is_on_its_disk() {
        let devices = devices();
        for number in [(8, 0), (8, 1)] {
            assert_eq!(
                whole_disk(devices.path(), number).ok(),
                Some((8, 0)),
                "{number:?}"
            );
        }
    }

    #[test]
    fn what_is_no_block_device_is_no_disk() {
        let devices = devices();
        let error = whole_disk(devices.path(), (0, 33)).expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(disk_of(Path::new("/proc")).expect("it is there"), None);
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        assert!(disk_of(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn numbers_are_taken_whole() {
        assert_eq!(parse("259:12\n"), Some((259, 12)));
        for text in ["", "8", "8:", ":0", "8:0:1", "a:b"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
