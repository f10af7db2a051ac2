//! Waiting for descriptors.

use core::marker::PhantomData;
use core::ptr;
use core::time::Duration;

use linux_raw_sys::general as raw;

use crate::{BorrowedFd, Errno, RawFd};

#[expect(
    clippy::cast_possible_truncation,
    reason = "the bits of poll(2) fit 16 bits"
)]
const fn bits(value: u32) -> i16 {
    value as i16
}

/// There is something to read, or the end of it.
pub const POLLIN: i16 = bits(raw::POLLIN);
/// Something exceptional has happened; of a file of a control group: it has changed since it was read.
pub const POLLPRI: i16 = bits(raw::POLLPRI);
/// There is room to write.
pub const POLLOUT: i16 = bits(raw::POLLOUT);
/// The other end is gone.
pub const POLLHUP: i16 = bits(raw::POLLHUP);
/// The descriptor is in error.
pub const POLLERR: i16 = bits(raw::POLLERR);

/// A descriptor and what is awaited of it; `pollfd` of poll(2).
#[derive(Debug)]
#[repr(transparent)]
pub struct PollFd<'fd> {
    entry: raw::pollfd,
    owner: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> PollFd<'fd> {
    /// Awaits `events` of `fd`; without a descriptor the entry is skipped.
    #[must_use]
    pub fn new(fd: Option<BorrowedFd<'fd>>, events: i16) -> Self {
        let number = fd.map_or(-1, BorrowedFd::raw);
        Self {
            entry: raw::pollfd {
                fd: number,
                events,
                revents: 0,
            },
            owner: PhantomData,
        }
    }

    /// What has happened.
    #[must_use]
    pub const fn happened(&self) -> i16 {
        self.entry.revents
    }

    /// The number of the descriptor; negative without one. For a simulation, which has no kernel to ask.
    #[must_use]
    pub const fn number(&self) -> RawFd {
        self.entry.fd
    }

    /// Says that these of the awaited events have happened, in place of the kernel.
    pub const fn mark(&mut self, events: i16) {
        self.entry.revents |= events & self.entry.events;
    }
}

/// Waits until one of the descriptors is ready or `timeout` is over; `None` waits for ever.
///
/// poll(2) refuses more entries than RLIMIT_NOFILE has descriptors, and any process of the same user may lower that limit
/// while this one runs. Then select(2) is asked, which has no such rule.
///
/// # Errors
/// As in ppoll(2).
pub fn ppoll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    let timeout = timeout.map(|span| raw::__kernel_timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    });
    match poll(fds, timeout) {
        Err(Errno::EINVAL) => select(fds, timeout),
        other => other,
    }
}

type Timeout = Option<raw::__kernel_timespec>;

fn poll(fds: &mut [PollFd<'_>], timeout: Timeout) -> Result<usize, Errno> {
    let timeout: *const _ = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `PollFd` is transparent over `pollfd`, and the kernel writes only their results;
    // the descriptors are borrowed by the entries; `timeout` is null or a local value that
    // outlives the call; no signal mask is given.
    unsafe {
        call!(
            ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            timeout,
            ptr::null::<u64>(),
            0usize
        )
    }
}

/// How many descriptors a set of select(2) has room for.
const SET_LEN: usize = 1024;

/// Descriptors by their bits, as select(2) has them in words of `unsigned long`.
#[derive(Debug, Clone, Copy)]
struct Set([u64; SET_LEN / 64]);

impl Set {
    const EMPTY: Self = Self([0; SET_LEN / 64]);

    fn add(&mut self, number: usize) -> Option<()> {
        *self.0.get_mut(number / 64)? |= 1 << (number % 64);
        Some(())
    }

    fn has(&self, number: usize) -> bool {
        self.0
            .get(number / 64)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// The same by pselect6(2). The end of the other side shows as something to read.
fn select(fds: &mut [PollFd<'_>], timeout: Timeout) -> Result<usize, Errno> {
    let (mut to_read, mut to_write, mut exceptional) = (Set::EMPTY, Set::EMPTY, Set::EMPTY);
    let mut highest = 0;
    for fd in fds.iter() {
        // Negative: the entry is skipped.
        let Ok(number) = usize::try_from(fd.entry.fd) else {
            continue;
        };
        for (event, set) in [
            (POLLIN, &mut to_read),
            (POLLOUT, &mut to_write),
            (POLLPRI, &mut exceptional),
        ] {
            if fd.entry.events & event != 0 {
                set.add(number).ok_or(Errno::EINVAL)?;
                highest = highest.max(number + 1);
            }
        }
    }
    let sets = [&mut to_read, &mut to_write, &mut exceptional];
    pselect6(highest, sets, timeout)?;
    for fd in fds.iter_mut() {
        let is_in = |set: &Set| usize::try_from(fd.entry.fd).is_ok_and(|it| set.has(it));
        let bits = |set: &Set, event| if is_in(set) { event } else { 0 };
        let happened =
            bits(&to_read, POLLIN) | bits(&to_write, POLLOUT) | bits(&exceptional, POLLPRI);
        fd.entry.revents = happened & fd.entry.events;
    }
    Ok(fds.iter().filter(|fd| fd.happened() != 0).count())
}

fn pselect6(highest: usize, sets: [&mut Set; 3], timeout: Timeout) -> Result<usize, Errno> {
    let [to_read, to_write, exceptional] = sets;
    let mut timeout = timeout;
    let timeout: *mut _ = timeout.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: the kernel reads and writes as many bits of each set as `highest` says, which is at most what a
    // set has; `timeout` is null or a local value that outlives the call, and the kernel may write what is left
    // of it; no signal mask is given.
    unsafe {
        call!(
            pselect6,
            highest,
            ptr::from_mut(to_read),
            ptr::from_mut(to_write),
            ptr::from_mut(exceptional),
            timeout,
            ptr::null::<u8>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsFd, SocketKind, send, socketpair};

    type Way = fn(&mut [PollFd<'_>], Timeout) -> Result<usize, Errno>;

    #[test]
    fn select_sees_what_poll_sees() {
        let (ours, theirs) = socketpair(SocketKind::Records).expect("a pair");
        let none = Timeout::Some(raw::__kernel_timespec {
            tv_sec: 0,
            tv_nsec: 0,
        });
        let ways: [Way; 2] = [poll, select];
        let look = |way: Way| {
            let mut fds = [
                PollFd::new(None, POLLIN),
                PollFd::new(Some(ours.as_fd()), POLLIN),
                PollFd::new(Some(theirs.as_fd()), POLLOUT),
                PollFd::new(Some(ours.as_fd()), POLLIN | POLLOUT),
            ];
            let count = way(&mut fds, none).expect("a look");
            (count, fds.map(|fd| fd.happened()))
        };
        for way in ways {
            assert_eq!(look(way), (2, [0, 0, POLLOUT, POLLOUT]));
        }
        send(theirs.as_fd(), b"x", None).expect("sent");
        for way in ways {
            assert_eq!(look(way), (3, [0, POLLIN, POLLOUT, POLLIN | POLLOUT]));
        }
    }

    #[test]
    fn the_end_of_the_other_side_is_something_to_read() {
        let (ours, theirs) = socketpair(SocketKind::Records).expect("a pair");
        drop(theirs);
        let mut fds = [PollFd::new(Some(ours.as_fd()), POLLIN)];
        assert_eq!(select(&mut fds, None), Ok(1));
        assert_eq!(fds[0].happened(), POLLIN);
    }
}
