//! Being woken when the owner of a domain has committed, by inotify(7) on the domain's folder.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Enough for some dozen notes; more are read in the next round.
const BUFFER_LEN: usize = 4096;

/// A watch on a folder.
#[derive(Debug)]
pub(crate) struct Watch {
    notes: OwnedFd,
}

impl Watch {
    /// Watches `folder`, not what lies in its sub-folders.
    ///
    /// The owner rings by setting the times of its lock file (`ATTRIB`), and its end closes
    /// that file (`CLOSE_WRITE`). A new owner may have made a new one (`CREATE`).
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let notes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let what =
            WatchFlags::ATTRIB | WatchFlags::CLOSE_WRITE | WatchFlags::CREATE | WatchFlags::ONLYDIR;
        inotify::add_watch(&notes, folder, what)?;
        Ok(Self { notes })
    }

    /// Waits for a note; `false` when `timeout` is over first.
    pub(crate) fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let begun = Instant::now();
        loop {
            let left = timeout.saturating_sub(begun.elapsed());
            // A limit too long for the clock is none.
            let limit = Timespec::try_from(left).ok();
            let mut fds = [PollFd::new(&self.notes, PollFlags::IN)];
            match poll(&mut fds, limit.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) => return self.drain().map(|()| true),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Forgets the notes: what they say is asked of the database.
    fn drain(&self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
        loop {
            match rustix::io::read(&self.notes, &mut buffer[..]) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}
