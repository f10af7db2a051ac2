//! Finds programs, and names the command that installs one.
//!
//! Neighbours: every driver's probe.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

/// The longest line of another program that is shown, in characters.
const LINE_LEN_MAX: usize = 200;

/// How each package manager is told to install something.
const INSTALLERS: [(&str, &str); 6] = [
    ("apt-get", "apt-get install"),
    ("dnf", "dnf install"),
    ("pacman", "pacman -S"),
    ("zypper", "zypper install"),
    ("apk", "apk add"),
    ("brew", "brew install"),
];

/// Finds an executable file in the folders of `path`, which is written like `PATH`.
///
/// Entries that are empty or relative are passed over: they mean the current folder, and a
/// workspace must not be able to put itself in place of a driver.
#[must_use]
pub fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    let executable = rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    executable && path.is_file()
}

/// The command that installs `package` with the package manager that is found in `path`.
#[must_use]
pub fn install_command(package: &str, path: &OsStr) -> Option<String> {
    let (manager, install) = INSTALLERS
        .into_iter()
        .find(|(manager, _)| find_program(manager, path).is_some())?;
    let sudo = match rustix::process::geteuid().is_root() || manager == "brew" {
        true => "",
        false => "sudo ",
    };
    Some(format!("{sudo}{install} {package}"))
}

/// The first line that has something in it, fit to be shown: cut, and without control characters.
#[must_use]
pub fn one_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let shown = line
        .chars()
        .filter(|character| !character.is_control())
        .take(LINE_LEN_MAX);
    Some(shown.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn folder_with(name: &str, mode: u32) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join(name);
        fs::write(&file, "").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode");
        dir
    }

    #[test]
    fn the_first_executable_file_is_taken() {
        let plain = folder_with("tool", 0o644);
        let (first, second) = (folder_with("tool", 0o755), folder_with("tool", 0o755));
        let path =
            std::env::join_paths([plain.path(), first.path(), second.path()]).expect("a path");
        assert_eq!(find_program("tool", &path), Some(first.path().join("tool")));
    }

    #[test]
    fn a_folder_of_that_name_is_not_a_program() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("tool")).expect("a folder in it");
        assert_eq!(find_program("tool", dir.path().as_os_str()), None);
    }

    #[test]
    fn the_current_folder_is_never_searched() {
        for path in ["", ".", ":", "src:./src"] {
            assert_eq!(find_program("lib.rs", OsStr::new(path)), None, "{path:?}");
        }
    }

    #[test]
    fn the_package_manager_decides_the_command() {
        let dir = folder_with("apk", 0o755);
        let command = install_command("bubblewrap", dir.path().as_os_str()).expect("apk is there");
        assert!(command.ends_with("apk add bubblewrap"), "{command}");
        assert_eq!(
            install_command("bubblewrap", OsStr::new("/nonexistent")),
            None
        );
    }

    #[test]
    fn a_line_is_fit_to_be_shown() {
        assert_eq!(
            one_line(b"\n  \n first \nsecond\n").as_deref(),
            Some("first")
        );
        assert_eq!(one_line(b"\x1b[31mred").as_deref(), Some("[31mred"));
        assert_eq!(one_line(b"  \n"), None);
    }

    proptest! {
        #[test]
        fn a_shown_line_is_short_and_plain(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(line) = one_line(&bytes) {
                prop_assert!(line.chars().count() <= LINE_LEN_MAX);
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
