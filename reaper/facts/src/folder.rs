//! Where this process stands, for the case that the folder is gone.

use alloc::vec::Vec;

use xioflow_sys::{CWD, readlinkat};

use crate::CannotTell;
use crate::path::proc_path;

/// Longest path that the kernel gives, its NUL included (`PATH_MAX`).
const PATH_LEN_MAX: usize = 4096;

/// What the kernel puts behind the name of a folder that was removed, see proc(5).
const REMOVED: &[u8] = b" (deleted)";

/// The name that the working directory of this process had. For one that getcwd(2) no longer
/// finds: of one that is there, the name may end in the kernel's own mark by chance.
///
/// Somebody else may stand behind that name by now.
///
/// # Errors
/// [`CannotTell`] where `/proc` does not say.
pub fn former_folder() -> Result<Vec<u8>, CannotTell> {
    let path = proc_path!("/proc/self/cwd");
    let mut link = [0; PATH_LEN_MAX];
    let len = readlinkat(CWD, path.as_c_str(), &mut link).map_err(CannotTell::unreadable(path))?;
    let name = &link[..len];
    Ok(name.strip_suffix(REMOVED).unwrap_or(name).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_there_has_its_name() {
        let here = std::env::current_dir().expect("a folder");
        let name = former_folder().expect("/proc says");
        assert_eq!(name, here.as_os_str().as_encoded_bytes());
    }
}
