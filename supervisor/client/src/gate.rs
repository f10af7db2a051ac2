//! `arbiter.lock`: whoever holds it is the one that starts an arbiter. `starter` hands it to the
//! arbiter, which keeps it until it listens.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use crate::endpoint::Endpoint;

/// Its name in the domain's folder.
pub(crate) const LOCK_NAME: &str = "arbiter.lock";

/// The lock. It goes with its open file description (flock(2)): handed to another process it stays
/// held, and it ends when one of both unlocks it or the last has closed it.
///
/// Dropping unlocks. Closing the file would not do while another thread starts a program: until that
/// has executed, it has a copy of every descriptor.
#[derive(Debug)]
pub(crate) struct Gate(Option<File>);

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // What cannot be unlocked is unlocked by closing it.
            flock(file, FlockOperation::Unlock).ok();
        }
    }
}

impl Gate {
    /// Takes the lock, waiting for at most `patience`; `None` when another holds it for longer.
    ///
    /// A lock on a file that is not at its place any more keeps nobody out, so then all begins again.
    pub(crate) fn acquire(endpoint: &Endpoint, patience: Duration) -> io::Result<Option<Self>> {
        let begun = Instant::now();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            let Some(gate) = lock_within(open(endpoint)?, left)? else {
                return Ok(None);
            };
            if gate.is_in_place(endpoint)? {
                return Ok(Some(gate));
            }
        }
    }

    /// The file, for the one that is started. It stays locked for as long as that one wants.
    pub(crate) fn hand_over(mut self) -> Option<OwnedFd> {
        self.0.take().map(OwnedFd::from)
    }

    fn is_in_place(&self, endpoint: &Endpoint) -> io::Result<bool> {
        let Some(file) = &self.0 else {
            return Ok(false);
        };
        let ours = fstat(file)?;
        match statat(endpoint, LOCK_NAME, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Endpoint {
    /// Waits while an arbiter is being started, for at most `patience`. There may be none afterwards.
    ///
    /// # Errors
    /// Those of opening and locking a file in the domain's folder.
    pub fn await_start(&self, patience: Duration) -> io::Result<()> {
        Gate::acquire(self, patience).map(drop)
    }
}

fn open(endpoint: &Endpoint) -> io::Result<File> {
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(endpoint, LOCK_NAME, how, Mode::RUSR | Mode::WUSR)?;
    Ok(file.into())
}

/// Locks `file` within `patience`.
///
/// flock(2) has no time limit. So a thread waits in the kernel, without polling, and hands the locked
/// file over. If nobody takes it any more, the thread drops it in the same moment: it remains until
/// the holder leaves, holds nothing but one descriptor, and ends by itself.
fn lock_within(file: File, patience: Duration) -> io::Result<Option<Gate>> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(Some(Gate(Some(file)))),
        Err(Errno::WOULDBLOCK) if patience.is_zero() => return Ok(None),
        Err(Errno::WOULDBLOCK | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let (hand_over, locked) = mpsc::channel();
    thread::Builder::new()
        .name("arbiter-gate".into())
        .spawn(move || {
            let result = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
            let result = result.map(|()| Gate(Some(file)));
            // A receiver that is gone has given up; the gate comes back in the error and is dropped.
            drop(hand_over.send(result));
        })?;
    match locked.recv_timeout(patience) {
        Ok(result) => Ok(Some(result?)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => {
            Err(io::Error::other("the waiting thread ended early"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOR_LONG: Duration = Duration::from_secs(60);

    fn endpoint() -> (tempfile::TempDir, Endpoint) {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::open(folder.path()).unwrap();
        (folder, endpoint)
    }

    #[test]
    fn one_passes_and_the_next_waits_for_it() {
        let (_folder, endpoint) = endpoint();
        let gate = Gate::acquire(&endpoint, Duration::ZERO).unwrap().unwrap();
        assert!(Gate::acquire(&endpoint, Duration::ZERO).unwrap().is_none());
        let short = Duration::from_millis(20);
        assert!(Gate::acquire(&endpoint, short).unwrap().is_none());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| Gate::acquire(&endpoint, FOR_LONG).unwrap().is_some());
            drop(gate);
            assert!(waiter.join().unwrap());
        });
        // The waiter that gave up has left nothing behind.
        assert!(Gate::acquire(&endpoint, FOR_LONG).unwrap().is_some());
    }

    #[test]
    fn a_lock_that_was_handed_over_stays_until_its_new_holder_unlocks_it() {
        let (_folder, endpoint) = endpoint();
        let gate = Gate::acquire(&endpoint, Duration::ZERO).unwrap().unwrap();
        let file = gate.hand_over().unwrap();
        let copy = file.try_clone().unwrap();
        drop(file);
        assert!(Gate::acquire(&endpoint, Duration::ZERO).unwrap().is_none());
        flock(&copy, FlockOperation::Unlock).unwrap();
        assert!(Gate::acquire(&endpoint, Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn a_lock_on_a_file_that_left_its_place_does_not_count() {
        let (folder, endpoint) = endpoint();
        let gate = Gate::acquire(&endpoint, Duration::ZERO).unwrap().unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| Gate::acquire(&endpoint, FOR_LONG).unwrap().unwrap());
            std::fs::remove_file(folder.path().join(LOCK_NAME)).unwrap();
            drop(gate);
            let found = waiter.join().unwrap();
            assert!(found.is_in_place(&endpoint).unwrap());
        });
    }
}
