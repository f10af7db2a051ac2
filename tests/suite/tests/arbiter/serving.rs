//! `xioflow arbiter` in the foreground, with options of its own.

use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use xioflow_kit::{Deadline, Stage, Started, wait};

/// An arbiter that serves the stage's domain.
pub(crate) struct Serving<'a>(Started<'a>);

impl<'a> Serving<'a> {
    /// Starts one, and waits until it listens. It ends when it is told to.
    pub(crate) fn start(stage: &'a Stage, options: &[&str]) -> Self {
        let folder = stage.domain();
        let made = stage.run("mkdir").args(["-m", "700"]).arg(&folder);
        // One of another time is as good.
        made.arg("-p").finish().assert_code(0);
        let program = stage.xioflow().args(["arbiter", "--idle", "never"]);
        let started = program.args(options).deadline(Deadline::USUAL * 10).start();
        let socket = folder.join("kernel.sock");
        wait::file(&socket, Deadline::usual());
        wait::until("the arbiter", Deadline::usual(), || {
            UnixStream::connect(&socket).is_ok()
        });
        Self(started)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Has it end in order; it has nothing to complain about.
    pub(crate) fn end(self) {
        self.0.signal(Signal::TERM);
        let finished = self.0.finish();
        let complaints = String::from_utf8_lossy(&finished.stderr);
        let complaints = complaints
            .lines()
            .filter(|line| !line.contains("serving the domain"));
        assert_eq!(complaints.count(), 0, "{finished}");
    }
}
