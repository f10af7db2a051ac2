//! A child that does nothing until it is ended, for checks that need one to look at.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Waits for input that never comes. It ends with us, when the pipe to it is closed.
#[derive(Debug)]
pub(super) struct WaitingChild(Child);

impl WaitingChild {
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read -r never"]).stdin(Stdio::piped());
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
    }

    pub(super) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.0)
    }

    /// Reaps it. Waits for its end, so it must have been ended before.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

impl Drop for WaitingChild {
    fn drop(&mut self) {
        // Both do nothing to a child that was reaped, and cannot fail for one that was not.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
