//! Waits until `cgroup.events` says something, by notification and with a deadline.
//!
//! The kernel marks the file as changed for whoever polls it (kernfs, `POLLPRI`), so no time passes
//! between the last exit and the answer, and none is spent on looking. Neighbour: `state` reads it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, retry_on_intr};

use crate::directory::Directory;
use crate::error::GroupError;
use crate::state::{self, GroupState};

/// `cgroup.events` has two lines.
const STATE_LEN_MAX: usize = 256;

/// Waits until the state is as wanted; false when the time is over before. A group that is removed
/// meanwhile has the state `gone`.
pub(crate) fn wait_for(
    directory: &Directory,
    within: Duration,
    gone: GroupState,
    wanted: impl Fn(GroupState) -> bool,
) -> Result<bool, GroupError> {
    let start = Instant::now();
    let Some(file) = open(directory)? else {
        return Ok(wanted(gone));
    };
    loop {
        if wanted(read(directory, &file)?.unwrap_or(gone)) {
            return Ok(true);
        }
        let left = within.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        wait_change(&file, left)?;
    }
}

/// The state now; null when the group is gone.
pub(crate) fn state_now(directory: &Directory) -> Result<Option<GroupState>, GroupError> {
    match open(directory)? {
        Some(file) => read(directory, &file),
        None => Ok(None),
    }
}

fn open(directory: &Directory) -> Result<Option<OwnedFd>, GroupError> {
    match directory.file(state::FILE) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(directory: &Directory, file: &OwnedFd) -> Result<Option<GroupState>, GroupError> {
    let path = || directory.path().join(state::FILE);
    match pread(file) {
        Ok(text) => match GroupState::parse(&text) {
            Some(state) => Ok(Some(state)),
            None => Err(GroupError::Garbled { path: path() }),
        },
        Err(Errno::NODEV) => Ok(None),
        Err(errno) => Err(GroupError::read(path(), errno)),
    }
}

/// Reads a short control file from its beginning, which also takes note of its change.
pub(crate) fn pread(file: &OwnedFd) -> Result<String, Errno> {
    let mut buffer = [0; STATE_LEN_MAX];
    let len = retry_on_intr(|| rustix::io::pread(file, &mut buffer, 0))?;
    Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
}

fn wait_change(file: &OwnedFd, left: Duration) -> Result<(), GroupError> {
    // A time that does not fit is longer than any machine runs.
    let left = Timespec::try_from(left).ok();
    let mut fds = [PollFd::new(file, PollFlags::PRI)];
    match rustix::event::poll(&mut fds, left.as_ref()) {
        // An interrupted wait is a short one: the caller looks, and waits for the rest.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(GroupError::system(
            "wait for a control group to change",
            errno,
        )),
    }
}
