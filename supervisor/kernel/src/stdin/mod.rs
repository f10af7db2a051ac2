//! A command's standard input: what it can be, and how it is opened without anybody waiting where
//! no timeout and no cancellation reaches. `open` opens files, `fifo` waits for a writer, `writer`
//! is the end that a host streams into.

mod fifo;
mod open;
mod writer;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::caller::Place;
use crate::control::Control;

pub use writer::StdinWriter;

pub(crate) use open::in_memory;
pub(crate) use writer::{StdinReader, stream};

/// Where a command's standard input comes from.
///
/// To write it while the command runs, see [`crate::OperationBuilder::stdin_stream`].
#[derive(Debug, Clone, Default)]
pub enum Stdin {
    /// It is empty.
    #[default]
    Null,
    /// There is none: descriptor 0 is not open, as after `<&-` in a shell.
    ///
    /// The first file that the program opens then becomes its descriptor 0, unless its runtime
    /// sees to that (Rust's opens `/dev/null` before `main`, glibc does for set-user-ID programs).
    /// Few programs expect it; [`Stdin::Null`] is what most people want.
    Closed,
    /// These bytes, then the end. A command that does not read them holds nobody up.
    Bytes(Arc<[u8]>),
    /// This file, from its beginning. A FIFO is waited for until it has a writer, before anything
    /// of the command runs; the operation's timeout covers that, and it can be cancelled.
    File(PathBuf),
    /// This descriptor, shared with the caller. Its position and flags are shared too.
    Descriptor(Arc<OwnedFd>),
}

/// Why there is no standard input, and so no command.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// The system refused.
    Failed(io::Error),
    /// Somebody stopped the operation while a FIFO was waited for.
    Cancelled,
    /// Its timeout was over while a FIFO was waited for.
    TimedOut,
}

impl From<rustix::io::Errno> for NotOpened {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Failed(errno.into())
    }
}

impl Stdin {
    /// This text, then the end.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::bytes(text.into().into_bytes())
    }

    /// These bytes, then the end.
    #[must_use]
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(bytes.into().into())
    }

    /// Opens it; none where it is closed. `file` says where a file of it is. Only a FIFO without a
    /// writer is waited for: until `until`, or a wish to stop in `control`.
    pub(crate) fn open(
        &self,
        file: Option<&Place>,
        control: &Control,
        until: Option<Instant>,
    ) -> Result<Option<OwnedFd>, NotOpened> {
        match self {
            Self::Null => open::file(Path::new("/dev/null"), control, until).map(Some),
            Self::Closed => Ok(None),
            Self::File(path) => match file {
                Some(&Place {
                    gone: Some(errno), ..
                }) => Err(NotOpened::Failed(io::Error::from_raw_os_error(errno))),
                Some(file) => open::file(&file.path, control, until).map(Some),
                None => open::file(path, control, until).map(Some),
            },
            Self::Descriptor(descriptor) => {
                descriptor.try_clone().map(Some).map_err(NotOpened::Failed)
            }
            Self::Bytes(bytes) => open::in_memory(bytes).map(Some).map_err(NotOpened::from),
        }
    }

    /// What it is about in a message: the file.
    pub(crate) fn subject(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.display().to_string()),
            Self::Null | Self::Closed | Self::Bytes(_) | Self::Descriptor(_) => None,
        }
    }
}
