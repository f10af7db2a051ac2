//! Reading files of `/proc` whole.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt;

use xioflow_sys::{AsFd, BorrowedFd, CWD, Errno, OpenFlags, openat, read};

use crate::ProcPath;

/// Why a question could not be answered. It says nothing of what the answer would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotTell {
    /// A file could not be read.
    Unreadable {
        /// Which.
        path: ProcPath,
        /// What the kernel said.
        errno: Errno,
    },
    /// A file did not have the form that proc(5) describes.
    Malformed {
        /// Which.
        path: ProcPath,
    },
    /// The process exists, but `/proc` does not show it (a `hidepid` mount, or none at all).
    Hidden {
        /// Its number.
        pid: u32,
    },
}

impl fmt::Display for CannotTell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, errno } => write!(f, "{path} could not be read: {errno}"),
            Self::Malformed { path } => write!(f, "{path} has an unknown form"),
            Self::Hidden { pid } => {
                write!(
                    f,
                    "process {pid} exists, but /proc does not show it to this user"
                )
            }
        }
    }
}

impl core::error::Error for CannotTell {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Unreadable { errno, .. } => Some(errno),
            Self::Malformed { .. } | Self::Hidden { .. } => None,
        }
    }
}

impl CannotTell {
    pub(crate) fn unreadable(path: ProcPath) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Unreadable { path, errno }
    }
}

/// Says whether an error means that the process of a path is gone.
pub(crate) fn is_gone(errno: Errno) -> bool {
    errno == Errno::ENOENT || errno == Errno::ESRCH
}

/// Reads a file that is known to be short into `buffer`.
pub(crate) fn read_short<'b>(path: &ProcPath, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let file = openat(CWD, path.as_c_str(), OpenFlags::READ, 0)?;
    let len = read(file.as_fd(), buffer)?;
    Ok(&buffer[..len])
}

/// Reads a file of any length, and puts it at the end of `into`.
pub(crate) fn read_whole(path: &ProcPath, into: &mut Vec<u8>) -> Result<(), Errno> {
    read_whole_at(CWD, path.as_c_str(), into)
}

/// The same of a file that is named relative to a folder.
pub(crate) fn read_whole_at(
    folder: BorrowedFd<'_>,
    path: &CStr,
    into: &mut Vec<u8>,
) -> Result<(), Errno> {
    const CHUNK_LEN: usize = 16 * 1024;
    let file = openat(folder, path, OpenFlags::READ, 0)?;
    loop {
        let filled = into.len();
        into.resize(filled + CHUNK_LEN, 0);
        let outcome = read(file.as_fd(), &mut into[filled..]);
        into.truncate(filled + outcome.unwrap_or(0));
        if outcome? == 0 {
            return Ok(());
        }
    }
}
