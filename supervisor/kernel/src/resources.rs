//! Names of resources as they are admitted, compared and recorded. `operation/admit` asks here;
//! `leases` says which of them exclude each other.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::caller::Caller;
use crate::error::ExecuteError;

/// Resources with this prefix name a folder, and overlap with folders in or around it.
pub(crate) const FOLDER_PREFIX: &str = "workspace:write:";

/// How many symbolic links are followed in one path, as in path_resolution(7).
const LINKS_MAX: usize = 40;

/// Gives folders their real path, and drops repetitions.
///
/// # Errors
/// [`ExecuteError::InvalidLease`] for one without a name: it would be one that everybody means.
/// [`InvalidCommand::NoFolder`](crate::InvalidCommand::NoFolder) for a relative one of a caller without a
/// folder.
pub(crate) fn admissible(
    leases: Vec<String>,
    caller: &Caller,
) -> Result<Vec<String>, ExecuteError> {
    let mut admitted = Vec::with_capacity(leases.len());
    for lease in leases {
        let folder = lease.strip_prefix(FOLDER_PREFIX);
        if folder.unwrap_or(&lease).is_empty() {
            return Err(ExecuteError::InvalidLease { lease });
        }
        admitted.push(match folder {
            Some(path) => format!("{FOLDER_PREFIX}{}", real_folder(path, caller)?.display()),
            None => lease,
        });
    }
    admitted.sort_unstable();
    admitted.dedup();
    Ok(admitted)
}

fn real_folder(path: &str, caller: &Caller) -> Result<PathBuf, ExecuteError> {
    let place = caller.complete("leased folder", Path::new(path))?;
    // What starts from a folder that is gone is only a name.
    Ok(match place.gone {
        Some(_) => PathBuf::from(path),
        None => real_path(&place.path),
    })
}

/// The real path of a folder, whether it is there or will be.
///
/// What is there is resolved as the system does it, and what is not is taken by its name. So a
/// folder that the command makes is the same one before and after, and is found to be inside of
/// whatever it will be in.
fn real_path(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    let mut ahead = parts(path);
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        // A root takes the place of all that was before it.
        let next = real.join(part);
        match std::fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                ahead.extend(parts(&target));
            }
            _ => real = next,
        }
    }
    real
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let named = |part: &Component<'_>| *part != Component::CurDir;
    path.components()
        .rev()
        .filter(named)
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_has_the_same_name_before_it_is_there_and_after() {
        let stage = tempfile::tempdir().unwrap();
        let here = stage.path().canonicalize().unwrap();
        std::fs::create_dir(here.join("real")).unwrap();
        symlink("real", here.join("link")).unwrap();
        symlink(here.join("real/later"), here.join("dangling")).unwrap();
        let cases = [
            ("link/new", "real/new"),
            ("link/new/../other/", "real/other"),
            ("real/new/", "real/new"),
            ("real/./new", "real/new"),
            ("dangling", "real/later"),
            ("dangling/../deep/er", "real/deep/er"),
        ];
        for (written, meant) in cases {
            let (written, meant) = (here.join(written), here.join(meant));
            assert_eq!(real_path(&written), meant, "{} before", written.display());
            std::fs::create_dir_all(&meant).unwrap();
            assert_eq!(real_path(&written), meant, "{} after", written.display());
        }
    }

    #[test]
    fn what_is_there_is_resolved_as_the_system_does_it() {
        for path in ["/", "/..", "/proc/self/..", ".", "/usr/../tmp/"] {
            let real = real_folder(path, &Caller::own()).unwrap();
            assert_eq!(real, Path::new(path).canonicalize().unwrap());
        }
    }

    #[test]
    fn a_ring_of_links_is_a_name() {
        let stage = tempfile::tempdir().unwrap();
        let here = stage.path().canonicalize().unwrap();
        symlink("b", here.join("a")).unwrap();
        symlink("a", here.join("b")).unwrap();
        assert!(real_path(&here.join("a/x")).starts_with(&here));
    }

    #[test]
    fn nothing_is_no_resource() {
        for lease in ["", FOLDER_PREFIX] {
            let refused = admissible(vec!["x".to_owned(), lease.to_owned()], &Caller::own());
            assert!(matches!(refused, Err(ExecuteError::InvalidLease { .. })));
        }
        let twice = vec!["x".to_owned(), "a".to_owned(), "x".to_owned()];
        let twice = admissible(twice, &Caller::own());
        assert_eq!(twice.unwrap(), ["a", "x"]);
    }
}
