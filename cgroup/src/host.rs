//! What a remedy depends on: who asks, and whether systemd could delegate a group.
//!
//! Neighbour: `remedy` turns it into a command.

use std::path::Path;

/// Facts about the host and the caller that decide which remedy works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Effective user id of the caller.
    pub uid: u32,
    /// Whether systemd is the service manager, by the test of sd_booted(3).
    pub systemd: bool,
    /// Whether the caller's own systemd manager can be reached from here: the socket in
    /// `XDG_RUNTIME_DIR` that `systemd-run --user` talks to.
    pub user_manager: bool,
}

impl Host {
    /// Looks at the running system.
    #[must_use]
    pub fn observe() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            systemd: Path::new("/run/systemd/system").is_dir(),
            user_manager: std::env::var_os("XDG_RUNTIME_DIR")
                .is_some_and(|dir| Path::new(&dir).join("systemd/private").exists()),
        }
    }
}
