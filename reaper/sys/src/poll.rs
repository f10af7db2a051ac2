//! Waiting for descriptors.

use core::marker::PhantomData;
use core::ptr;
use core::time::Duration;

use linux_raw_sys::general as raw;

use crate::{BorrowedFd, Errno};

#[expect(
    clippy::cast_possible_truncation,
    reason = "the bits of poll(2) fit 16 bits"
)]
const fn bits(value: u32) -> i16 {
    value as i16
}

/// There is something to read, or the end of it.
pub const POLLIN: i16 = bits(raw::POLLIN);
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
}

/// Waits until one of the descriptors is ready or `timeout` is over; `None` waits for ever.
///
/// # Errors
/// As in ppoll(2).
pub fn ppoll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    let timeout = timeout.map(|span| raw::__kernel_timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    });
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
