//! Which domain a command means.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::exit::Code;
use crate::failure::Failure;

/// Name of a domain's folder where none is given.
const FOLDER: &str = ".xioflow";

/// Environment variable that names the domain.
pub(crate) const DOMAIN_VARIABLE: &str = "XIOFLOW_DOMAIN";

/// The domain: as asked, else as the environment says, else at the top of the git work tree
/// around the current folder, else in the current folder.
pub(crate) fn locate(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    let here = env::current_dir();
    let named = env::var_os(DOMAIN_VARIABLE);
    let base = here.as_deref().unwrap_or(Path::new("."));
    let folder = choose(asked, named.as_deref(), base, |folder| {
        folder.join(".git").exists()
    });
    match here {
        // Whatever is there by that name now is not where this was started.
        Err(error) if folder.is_relative() => Err(Failure::of_act(
            "no_folder",
            Code::CannotOpen,
            "the folder that this was started in is gone, and the domain is looked for from there",
            &error,
        )
        .hint(format!(
            "--domain DIR or {DOMAIN_VARIABLE} names one by its absolute path"
        ))),
        _ => Ok(folder),
    }
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
