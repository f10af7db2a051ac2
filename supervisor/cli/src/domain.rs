//! Which domain a command means.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Name of a domain's folder where none is given.
const FOLDER: &str = ".xioflow";

/// Environment variable that names the domain.
pub(crate) const DOMAIN_VARIABLE: &str = "XIOFLOW_DOMAIN";

/// The domain: as asked, else as the environment says, else at the top of the git work tree
/// around the current folder, else in the current folder.
pub(crate) fn locate(asked: Option<&Path>) -> PathBuf {
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let named = env::var_os(DOMAIN_VARIABLE);
    choose(asked, named.as_deref(), &here, |folder| {
        folder.join(".git").exists()
    })
}

/// The rule, without the system.
fn choose(
    asked: Option<&Path>,
    named: Option<&OsStr>,
    here: &Path,
    is_work_tree: impl Fn(&Path) -> bool,
) -> PathBuf {
    match (asked, named) {
        (Some(asked), _) => asked.to_path_buf(),
        // An empty variable is one that somebody has unset the only way they could.
        (None, Some(named)) if !named.is_empty() => PathBuf::from(named),
        _ => here
            .ancestors()
            .find(|folder| is_work_tree(folder))
            .unwrap_or(here)
            .join(FOLDER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_places() {
        let here = Path::new("/w/tree/src");
        let work_tree = |folder: &Path| folder == Path::new("/w/tree");
        let nowhere = |_: &Path| false;
        let asked = Some(Path::new("/d"));
        let named = Some(OsStr::new("/e"));
        assert_eq!(choose(asked, named, here, work_tree), Path::new("/d"));
        assert_eq!(choose(None, named, here, work_tree), Path::new("/e"));
        let empty = Some(OsStr::new(""));
        assert_eq!(
            choose(None, empty, here, work_tree),
            Path::new("/w/tree/.xioflow")
        );
        assert_eq!(
            choose(None, None, here, nowhere),
            Path::new("/w/tree/src/.xioflow")
        );
    }
}
