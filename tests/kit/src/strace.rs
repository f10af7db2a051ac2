//! strace(1), which some tests record and kill with: whether there is one.

use std::process::{Command, Stdio};

/// What a test says that needs strace and has none.
pub const MISSING: &str = "skipped: needs strace";

/// Whether there is a strace(1), and it may trace.
#[must_use]
pub fn is_there() -> bool {
    let mut command = Command::new("strace");
    command.args(["-o", "/dev/null", "true"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
