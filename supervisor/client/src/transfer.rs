//! Bytes and descriptors through a blocking Unix socket. `connection` makes messages of them.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, send, sendmsg,
};
use xioflow_rpc::DESCRIPTORS_MAX;

/// Sends all of `bytes`; the descriptors travel with the first one. There are at most
/// [`DESCRIPTORS_MAX`] of them.
pub(crate) fn send_all(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut sent = send_first(socket, bytes, descriptors)?;
    while sent < bytes.len() {
        // Without NOSIGNAL an arbiter that has gone would end this program with SIGPIPE.
        sent += retry_on_intr(|| send(socket, &bytes[sent..], SendFlags::NOSIGNAL))?;
    }
    Ok(())
}

/// The kernel takes the descriptors with the first byte that it takes, however many those are.
fn send_first(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<usize, Errno> {
    if descriptors.is_empty() {
        return Ok(0);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    retry_on_intr(|| {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::TOOBIG);
        }
        let slices = [IoSlice::new(bytes)];
        sendmsg(socket, &slices, &mut control, SendFlags::NOSIGNAL)
    })
}

/// What one attempt to receive has brought.
pub(crate) enum Attempt {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The other end is closed.
    End,
}

/// Receives once; with `may_wait` until there is something. Descriptors that came along, which no
/// arbiter sends, are dropped by the kernel: plain recv(2) takes none.
pub(crate) fn receive(
    socket: &OwnedFd,
    buffer: &mut [u8],
    may_wait: bool,
) -> Result<Attempt, Errno> {
    let flags = if may_wait {
        RecvFlags::empty()
    } else {
        RecvFlags::DONTWAIT
    };
    match retry_on_intr(|| recv(socket, &mut *buffer, flags)) {
        // A closed end that had not read everything looks like a reset (unix(7)).
        Ok((0, _)) | Err(Errno::CONNRESET) => Ok(Attempt::End),
        Ok((count, _)) => Ok(Attempt::Bytes(count)),
        Err(Errno::AGAIN) => Ok(Attempt::Nothing),
        Err(error) => Err(error),
    }
}

/// Waits until there is something to read, the end included; false when it is `deadline` first.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, deadline: Instant) -> Result<bool, Errno> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The longest time that the kernel takes stands for all that are longer.
fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}
