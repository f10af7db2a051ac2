//! Programs for tests, written so that they can be started at once.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a shell script named `name` into `dir`.
///
/// Another process does the writing: a descriptor of ours, inherited for a moment by a child that
/// another test starts just then, would make the kernel refuse to run the script (ETXTBSY).
pub(crate) fn script_in(dir: &Path, name: &str, content: &str) -> PathBuf {
    let file = dir.join(name);
    let status = Command::new("/bin/sh")
        .args([
            "-c",
            "printf '#!/bin/sh\n%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"",
            "sh",
        ])
        .arg(&file)
        .arg(content)
        .status()
        .expect("a shell starts");
    assert!(status.success(), "{} is written", file.display());
    file
}
