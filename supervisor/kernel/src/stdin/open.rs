//! Opens what a command is to read, without ever waiting in open(2).

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{
    FileType, MemfdFlags, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, memfd_create,
};
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::{NotOpened, fifo};
use crate::control::Control;

/// Opens a file of any kind, as the command will have it: blocking.
///
/// The open itself must not block (a FIFO has no writer, a line no carrier), so it is done with
/// `O_NONBLOCK`. A terminal must not become ours, hence `O_NOCTTY`.
pub(super) fn file(
    path: &Path,
    control: &Control,
    until: Option<Instant>,
) -> Result<OwnedFd, NotOpened> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Fifo {
        fifo::wait_for_writer(&file, path, control, until)?;
    }
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// A file in memory: a command that does not read it costs nothing and holds nobody up.
pub(crate) fn in_memory(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let memory = memfd_create(c"xioflow-stdin", MemfdFlags::CLOEXEC)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = (bytes.len() - rest.len()) as u64;
        let written = retry_on_intr(|| pwrite(memory.as_fd(), rest, offset))?;
        rest = &rest[written..];
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_their_beginning() {
        let stdin = in_memory(b"hello").unwrap();
        let mut read = [0; 8];
        assert_eq!(rustix::io::read(stdin, &mut read).unwrap(), 5);
        assert_eq!(&read[..5], b"hello");
    }

    #[test]
    fn a_file_is_handed_over_as_one_that_blocks() {
        let control = Control::new().unwrap();
        let file = file(Path::new("/dev/zero"), &control, None).unwrap();
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    }
}
