//! An absolute path that starts from a folder which may be gone.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::observe;

/// An absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// The error number if it starts from a folder that is gone. Its name is known, but nobody may
    /// go there by it: another folder may have the name by now.
    pub(crate) gone: Option<i32>,
}

impl Place {
    /// One that is where its path says.
    pub(crate) fn there(path: PathBuf) -> Self {
        Self { path, gone: None }
    }

    /// The folder of this process.
    pub(crate) fn here() -> Self {
        Self::found(std::env::current_dir())
    }

    fn found(here: io::Result<PathBuf>) -> Self {
        match here {
            Ok(path) => Self::there(path),
            Err(error) => Self {
                path: observe::former_folder().unwrap_or_else(|| PathBuf::from(".")),
                gone: error.raw_os_error().or(Some(Errno::NOENT.raw_os_error())),
            },
        }
    }

    /// What a relative path names from here.
    pub(crate) fn below(&self, path: &Path) -> Self {
        Self {
            path: self.path.join(path),
            gone: self.gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_gone_is_never_taken_for_another() {
        let number = Some(Errno::NOENT.raw_os_error());
        // The test's own folder is there, and has the name that the kernel gives.
        let here = std::env::current_dir().unwrap();
        let gone = Place::found(Err(Errno::NOENT.into()));
        assert_eq!((&gone.path, gone.gone), (&here, number));
        let below = gone.below(Path::new("below"));
        assert_eq!((below.path, below.gone), (here.join("below"), number));
    }
}
