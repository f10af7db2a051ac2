//! A run on a terminal of its own, for what happens only there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::stage::Stage;
use crate::wait::Deadline;

/// A command whose three streams are one terminal, which controls its session.
#[derive(Debug)]
#[must_use = "a started run has to be finished"]
pub struct Terminal<'a> {
    stage: &'a Stage,
    child: Child,
    keyboard: File,
    screen: Vec<u8>,
    deadline: Deadline,
}

/// The two ends of a new pseudo-terminal: ours, and the one that the command gets.
pub(crate) fn pair() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("a pseudo-terminal");
    grantpt(&ours).expect("a pseudo-terminal of ours");
    unlockpt(&ours).expect("a pseudo-terminal of ours");
    let name = ptsname(&ours, Vec::new()).expect("the name of a pseudo-terminal");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty()).expect("the other end");
    (ours, theirs)
}

impl<'a> Terminal<'a> {
    pub(crate) fn new(stage: &'a Stage, child: Child, ours: OwnedFd, deadline: Deadline) -> Self {
        Self {
            stage,
            child,
            keyboard: ours.into(),
            screen: Vec::new(),
            deadline,
        }
    }

    /// Types.
    ///
    /// # Panics
    /// When the terminal takes nothing any more.
    pub fn type_in(&self, bytes: &[u8]) {
        (&self.keyboard)
            .write_all(bytes)
            .expect("a terminal takes what is typed");
    }

    /// Waits until this is on the screen, after what an earlier wait has found.
    ///
    /// # Panics
    /// With the screen, when the command or the deadline ends first.
    pub fn wait_for(&mut self, part: &str) {
        loop {
            let found = self
                .screen
                .windows(part.len())
                .position(|at| at == part.as_bytes());
            if let Some(at) = found {
                self.screen.drain(..at + part.len());
                return;
            }
            assert!(self.read(), "no {part:?} on the screen: {}", self.text());
        }
    }

    /// Waits until everybody has left the terminal, and returns the exit status of the first
    /// process and what is on the screen since the last wait.
    ///
    /// # Panics
    /// When the deadline passes first; everything that the stage has caused is killed then.
    pub fn finish(mut self) -> (Option<i32>, String) {
        while self.read() {}
        let over = !self.deadline.passed();
        if !over {
            self.stage.kill_all();
        }
        let status = self
            .child
            .wait()
            .expect("a child of ours can be waited for");
        assert!(over, "still on the terminal, which shows {}", self.text());
        (status.code(), self.text())
    }

    /// Reads what the terminal shows next; false at its end or the deadline's.
    fn read(&mut self) -> bool {
        if !self
            .deadline
            .poll(&mut [PollFd::new(&self.keyboard, PollFlags::IN)])
        {
            return false;
        }
        let mut block = [0; 4096];
        match self.keyboard.read(&mut block) {
            Ok(0) => false,
            Ok(len) => {
                self.screen.extend_from_slice(&block[..len]);
                true
            }
            // Nobody has the other end open any more.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => false,
            Err(error) => panic!("read from the terminal: {error}"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen).into_owned()
    }
}
