//! Descriptors as values: owned, and closed when dropped, or borrowed for a while.
//!
//! `core` has none; these behave like those of `std::os::fd`.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicI32, Ordering};

use linux_raw_sys::general as raw;

use crate::Errno;

/// A descriptor's number, which says nothing of who closes it.
pub type RawFd = i32;

/// A descriptor that is ours; dropping it closes it.
#[derive(Debug)]
pub struct OwnedFd(RawFd);

/// A descriptor that stays open while this value lives.
#[derive(Debug, Clone, Copy)]
pub struct BorrowedFd<'fd> {
    number: RawFd,
    owner: PhantomData<&'fd OwnedFd>,
}

/// Stands for the current directory where a directory's descriptor is asked for (`AT_FDCWD`).
pub const CWD: BorrowedFd<'static> = BorrowedFd {
    number: raw::AT_FDCWD,
    owner: PhantomData,
};

/// What can lend a descriptor.
pub trait AsFd {
    /// Lends the descriptor.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl OwnedFd {
    /// Takes over a descriptor by its number.
    ///
    /// # Safety
    /// The number must be an open descriptor that nobody else will close.
    #[must_use]
    pub const unsafe fn from_raw(number: RawFd) -> Self {
        Self(number)
    }

    /// Takes the descriptor that a system call has just returned.
    ///
    /// # Safety
    /// `returned` must be the result of a call that makes a new descriptor.
    pub(crate) const unsafe fn from_call(returned: usize) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            reason = "descriptors are below 2^31"
        )]
        let number = returned as RawFd;
        Self(number)
    }

    /// The number, for messages.
    #[must_use]
    pub const fn raw(&self) -> RawFd {
        self.0
    }
}

impl AsFd for OwnedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        BorrowedFd {
            number: self.0,
            owner: PhantomData,
        }
    }
}

impl AsFd for BorrowedFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        *self
    }
}

impl<T: AsFd> AsFd for &T {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (*self).as_fd()
    }
}

impl BorrowedFd<'_> {
    /// The number, for messages.
    #[must_use]
    pub const fn raw(self) -> RawFd {
        self.number
    }
}

impl Drop for OwnedFd {
    fn drop(&mut self) {
        // An error of close(2) on Linux leaves nothing to do: the number is free in every case.
        // SAFETY: the number is ours alone (the contract of `from_raw`), and this value is gone.
        let _closed = unsafe { call!(close, self.0) };
    }
}

/// Makes `target` refer to what `source` refers to; it stays open across exec.
///
/// Meant for 0, 1 and 2, which nobody owns as values.
///
/// # Errors
/// As in dup(2); EINVAL when both are the same number.
pub fn dup3(source: BorrowedFd<'_>, target: StandardFd) -> Result<(), Errno> {
    // SAFETY: takes no pointer. dup3 closes whatever `target` was, and 0, 1 and 2 have no owner: they are open from the
    // start, so no call hands them out. Where a program began without one of them, the helper's first steps give
    // up what came there (`close_standard` of its set-up moves it up and drops it) before they call this.
    unsafe { call!(dup3, source, target.number(), 0u32) }.map(drop)
}

/// Marks a descriptor close-on-exec.
///
/// # Errors
/// As in fcntl(2), `F_SETFD`.
pub fn close_on_exec(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: takes no pointer and closes nothing now.
    unsafe { call!(fcntl, fd, raw::F_SETFD, raw::FD_CLOEXEC) }.map(drop)
}

/// One of the three standard descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardFd {
    /// Standard input, 0.
    Input,
    /// Standard output, 1.
    Output,
    /// Standard error, 2.
    Error,
}

impl StandardFd {
    /// All three, in order.
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Error];

    const fn number(self) -> RawFd {
        match self {
            Self::Input => 0,
            Self::Output => 1,
            Self::Error => 2,
        }
    }

    /// The descriptor as it is at this moment.
    #[must_use]
    pub const fn borrow(self) -> BorrowedFd<'static> {
        BorrowedFd {
            number: self.number(),
            owner: PhantomData,
        }
    }
}

/// Duplicates a descriptor to the lowest free number from `lowest` on, close-on-exec.
///
/// # Errors
/// As in fcntl(2), `F_DUPFD_CLOEXEC`.
pub fn duplicate_above(source: BorrowedFd<'_>, lowest: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointer; the descriptor it returns is new, so nobody else owns it.
    unsafe {
        let returned = call!(fcntl, source, raw::F_DUPFD_CLOEXEC, lowest)?;
        Ok(OwnedFd::from_call(returned))
    }
}

/// Remembers a descriptor that lives as long as the process, for code that has no other way to
/// reach it: a panic handler.
#[derive(Debug)]
pub struct LastResortFd(AtomicI32);

impl LastResortFd {
    /// Remembers nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicI32::new(-1))
    }

    /// Remembers a descriptor that is never closed.
    pub fn keep(&self, fd: BorrowedFd<'static>) {
        self.0.store(fd.number, Ordering::Relaxed);
    }

    /// The descriptor, if one was kept.
    #[must_use]
    pub fn get(&self) -> Option<BorrowedFd<'static>> {
        // Only `keep` stores, and only a descriptor that stays open for ever.
        let number = self.0.load(Ordering::Relaxed);
        (number >= 0).then_some(BorrowedFd {
            number,
            owner: PhantomData,
        })
    }
}

impl Default for LastResortFd {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenFlags, fstat, openat};

    #[test]
    fn a_descriptor_can_be_marked_and_stays_open_for_now() {
        let null = openat(CWD, c"/dev/null", OpenFlags::READ, 0).expect("/dev/null opens");
        let number = null.raw();
        close_on_exec(null.as_fd()).expect("it is open");
        fstat(null.as_fd()).expect("it still is");
        drop(null);
        let gone = BorrowedFd {
            number,
            owner: PhantomData,
        };
        assert_eq!(close_on_exec(gone), Err(Errno::EBADF));
    }

    #[test]
    fn a_dropped_descriptor_is_closed() {
        let null = openat(CWD, c"/dev/null", OpenFlags::READ, 0).expect("/dev/null opens");
        let far = duplicate_above(null.as_fd(), 300).expect("there is room");
        let number = far.raw();
        assert!(number >= 300);
        drop(far);
        let gone = BorrowedFd {
            number,
            owner: PhantomData,
        };
        assert_eq!(fstat(gone).map(drop), Err(Errno::EBADF));
    }
}
