//! The file system that a domain lies on: what it is, and whether locks and syncing work there.
//!
//! Neighbours: `file_system` knows the kinds, `ofd_lock` tries the lock.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::file_system::{FileSystem, by_magic};
use super::ofd_lock;
use super::report::{Finding, with_causes};

/// Less free space than this is not much for the output of commands.
const FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;

/// The remedy for every file system that is not right: another place.
const ELSEWHERE: &str = "export XIOFLOW_DOMAIN=/path/on/a/local/disk";

/// Looks at the domain's folder, or at the nearest one above that exists; a file is made in it,
/// locked, synced and removed.
pub(super) fn look(domain: &Path) -> Finding {
    let Some(folder) = nearest_folder(domain) else {
        return Finding::cannot_tell(format!("no folder above {} exists", domain.display()));
    };
    let stat = match rustix::fs::statfs(&folder) {
        Ok(stat) => stat,
        Err(errno) => {
            return Finding::cannot_tell(format!("look at {}: {errno}", folder.display()));
        }
    };
    let space = Space {
        // Magic numbers have 32 bits, in a field that is wider or signed on some systems.
        file_system: by_magic(low_bits(stat.f_type)),
        free_bytes: unsigned(stat.f_bsize).saturating_mul(stat.f_bavail),
    };
    let trial = try_file(&folder);
    judge(&folder, &space, &trial).with_facts(json!({
        "folder": folder.to_string_lossy(),
        "domainExists": domain.is_dir(),
        "fileSystem": space.file_system.name,
        "magic": format!("{:#x}", space.file_system.magic),
        "durability": space.file_system.durability.name(),
        "freeBytes": space.free_bytes,
        "ofdLocks": trial.locks.as_ref().ok(),
        "fsync": trial.synced.is_ok(),
    }))
}

struct Space {
    file_system: FileSystem,
    free_bytes: u64,
}

/// What became of a file in the folder.
struct Trial {
    /// Whether locks exclude each other.
    locks: io::Result<bool>,
    /// Whether a write to it could be synced, and the folder too.
    synced: io::Result<()>,
}

fn judge(folder: &Path, space: &Space, trial: &Trial) -> Finding {
    let place = format!("{} ({})", folder.display(), space.file_system.name);
    if let Err(error) = &trial.synced {
        return Finding::missing(format!(
            "write and sync a file in {place}: {}",
            with_causes(error)
        ))
        .with_remedy(Some(ELSEWHERE.to_owned()));
    }
    match &trial.locks {
        Ok(true) => usable(&place, space),
        Ok(false) => Finding::missing(format!("two openings could lock the same file in {place}"))
            .with_remedy(Some(ELSEWHERE.to_owned())),
        Err(error) => Finding::missing(format!("lock a file in {place}: {}", with_causes(error)))
            .with_remedy(Some(ELSEWHERE.to_owned())),
    }
}

fn usable(place: &str, space: &Space) -> Finding {
    let works = format!(
        "locks exclude and syncing works in {place}, {} MiB free",
        space.free_bytes >> 20
    );
    if let Some(warning) = space.file_system.durability.warning() {
        let remedy = Some(ELSEWHERE.to_owned());
        return Finding::weaker(format!("{works}; {warning}")).with_remedy(remedy);
    }
    match space.free_bytes < FREE_BYTES_MIN {
        true => Finding::weaker(format!("{works}, which is little for output")),
        false => Finding::ready(works),
    }
}

/// The folder itself, or the nearest one above it. A relative path is taken from the current one.
fn nearest_folder(domain: &Path) -> Option<PathBuf> {
    let domain = std::path::absolute(domain).ok()?;
    domain
        .ancestors()
        .find(|folder| folder.is_dir())
        .map(Path::to_owned)
}

fn try_file(folder: &Path) -> Trial {
    let made = tempfile::Builder::new()
        .prefix(".xioflow-doctor-")
        .tempfile_in(folder);
    match made {
        Ok(mut file) => Trial {
            locks: ofd_lock::excludes(file.path()),
            synced: sync(file.as_file_mut(), folder),
        },
        Err(error) => {
            // Nothing was locked, so nothing is known of locks; the write says what is wrong.
            let locks = Err(io::Error::new(error.kind(), "no file to lock"));
            Trial {
                locks,
                synced: Err(error),
            }
        }
    }
}

fn sync(file: &mut std::fs::File, folder: &Path) -> io::Result<()> {
    file.write_all(b"xioflow doctor\n")?;
    file.sync_all()?;
    std::fs::File::open(folder)?.sync_all()
}

fn low_bits(value: impl Into<i64>) -> u32 {
    let bytes = value.into().to_le_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn unsigned(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Check, Verdict};

    const EXT4: u32 = 0xef53;
    const TMPFS: u32 = 0x0102_1994;

    fn verdict(
        magic: u32,
        free_bytes: u64,
        locks: io::Result<bool>,
        synced: io::Result<()>,
    ) -> Verdict {
        let space = Space {
            file_system: by_magic(magic),
            free_bytes,
        };
        let finding = judge(Path::new("/domain"), &space, &Trial { locks, synced });
        Check::new("domain-filesystem", "file system", true, finding).verdict
    }

    #[test]
    fn a_local_disk_with_room_is_ready() {
        assert_eq!(
            verdict(EXT4, FREE_BYTES_MIN, Ok(true), Ok(())),
            Verdict::Ready
        );
        assert_eq!(
            verdict(EXT4, FREE_BYTES_MIN - 1, Ok(true), Ok(())),
            Verdict::Weaker
        );
        assert_eq!(verdict(TMPFS, u64::MAX, Ok(true), Ok(())), Verdict::Weaker);
    }

    #[test]
    fn without_locks_or_syncing_there_is_no_domain() {
        let refused = || io::Error::from(io::ErrorKind::Unsupported);
        assert_eq!(verdict(EXT4, u64::MAX, Ok(false), Ok(())), Verdict::Missing);
        assert_eq!(
            verdict(EXT4, u64::MAX, Err(refused()), Ok(())),
            Verdict::Missing
        );
        assert_eq!(
            verdict(EXT4, u64::MAX, Ok(true), Err(refused())),
            Verdict::Missing
        );
    }

    #[test]
    fn a_domain_that_does_not_exist_yet_is_judged_by_the_folder_above() {
        let dir = tempfile::tempdir().expect("a folder");
        let domain = dir.path().join("a/b/.xioflow");
        assert_eq!(nearest_folder(&domain).as_deref(), Some(dir.path()));

        let check = Check::new("domain-filesystem", "file system", true, look(&domain));
        assert_eq!(check.facts["folder"], dir.path().to_string_lossy().as_ref());
        assert_eq!(check.facts["domainExists"], false);
        assert_eq!(
            std::fs::read_dir(dir.path())
                .expect("it is a folder")
                .count(),
            0
        );
    }

    #[test]
    fn a_folder_that_takes_no_file_is_missing() {
        let check = Check::new(
            "domain-filesystem",
            "fs",
            true,
            look(Path::new("/proc/self")),
        );
        assert_eq!(check.verdict, Verdict::Missing, "{}", check.detail);
        assert_eq!(check.facts["ofdLocks"], serde_json::Value::Null);
    }

    #[test]
    fn magic_numbers_keep_their_bits_whatever_their_sign() {
        assert_eq!(low_bits(0xff53_4d42_u32), 0xff53_4d42);
        assert_eq!(low_bits(0xff53_4d42_u32.cast_signed()), 0xff53_4d42);
    }
}
