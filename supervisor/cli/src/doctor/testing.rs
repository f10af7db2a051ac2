//! A helper for tests that says what it is told to, whatever it is asked.

use std::path::{Path, PathBuf};
use std::process::Command;

use xioflow_protocol::{Hello, PROTOCOL_VERSION, Reply, encode};

/// The greeting of a helper of our own version.
pub(super) fn greeting() -> Reply {
    Reply::Hello(Hello {
        protocol: PROTOCOL_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        identity: None,
        features: Vec::new(),
    })
}

/// A program that sends these replies at once and then reads until its peer is gone.
pub(super) fn scripted_helper(dir: &Path, replies: &[Reply]) -> PathBuf {
    let mut bytes = Vec::new();
    for reply in replies {
        encode(reply, &mut bytes).expect("a reply fits a frame");
    }
    babbling_helper(dir, &bytes)
}

/// The same with bytes that need not be replies.
pub(super) fn babbling_helper(dir: &Path, bytes: &[u8]) -> PathBuf {
    std::fs::write(dir.join("replies"), bytes).expect("a file of replies");
    let file = dir.join("helper");
    // Another process writes the program: a descriptor of ours, inherited for a moment by a child
    // that another test starts just then, would make the kernel refuse to run it (ETXTBSY).
    let status = Command::new("/bin/sh")
        .args([
            "-c",
            "printf '%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"",
            "sh",
        ])
        .arg(&file)
        .arg(format!(
            "#!/bin/sh\n/bin/cat '{}/replies' >&0\n/bin/cat >/dev/null",
            dir.display()
        ))
        .status()
        .expect("a shell starts");
    assert!(status.success(), "{} is written", file.display());
    file
}
