//! Finds the helper's program. There is one order, and no fallback that is not in it.

use std::env;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// File name of the helper's program.
pub const HELPER_PROGRAM: &str = "xioflow-reaper";

/// Environment variable that names the helper's program, before every other place.
pub const HELPER_VARIABLE: &str = "XIOFLOW_REAPER_PATH";

/// Folder fixed when this library is built, for distributions that keep helpers out of `bin`.
const LIBEXEC_DIR: Option<&str> = option_env!("XIOFLOW_LIBEXEC_DIR");

/// Why there is no helper to start.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The variable names something that cannot be it.
    #[error(
        "{HELPER_VARIABLE} names {}, which {problem}; correct it or unset it",
        path.display()
    )]
    Variable {
        /// What the variable says.
        path: PathBuf,
        /// What is wrong with that.
        problem: String,
    },
    /// It is in none of the places.
    #[error(
        "{HELPER_PROGRAM} was not found (looked for {}); install it beside the program, or name it: {HELPER_VARIABLE}=/path/to/{HELPER_PROGRAM}",
        list(looked)
    )]
    NotFound {
        /// The places, in their order.
        looked: Vec<PathBuf>,
    },
}

fn list(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nowhere, since /proc does not say where this program is".to_owned();
    }
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Finds the helper's program: where [`HELPER_VARIABLE`] says, else beside the running executable,
/// else in the folder that was fixed at build time.
///
/// # Errors
/// [`LocateError::Variable`] if the variable is set to a file that cannot be executed: it is never
/// passed over. [`LocateError::NotFound`] if no place has it.
pub fn find_helper() -> Result<PathBuf, LocateError> {
    if let Some(named) = env::var_os(HELPER_VARIABLE) {
        let path = PathBuf::from(named);
        return match executable(&path) {
            Ok(()) => Ok(path),
            Err(problem) => Err(LocateError::Variable {
                path,
                problem: problem.to_string(),
            }),
        };
    }
    let mut looked = Vec::new();
    for folder in folders() {
        let path = folder.join(HELPER_PROGRAM);
        if executable(&path).is_ok() {
            return Ok(path);
        }
        looked.push(path);
    }
    Err(LocateError::NotFound { looked })
}

fn folders() -> Vec<PathBuf> {
    // The link is followed: an installed `xioflow` may be a link into its package's folder.
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| exe.canonicalize().ok())
        .and_then(|exe| exe.parent().map(Path::to_path_buf));
    beside
        .into_iter()
        .chain(LIBEXEC_DIR.map(PathBuf::from))
        .collect()
}

fn executable(path: &Path) -> io::Result<()> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("is not a file"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(io::Error::other("is not executable"));
    }
    Ok(())
}
