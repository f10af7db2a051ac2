//! The end of a pipe that a host writes a command's standard input into while it runs.
//!
//! A pipe and not a socket, because a command may open `/dev/stdin` by name, which a socket
//! refuses.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// The command's end, or why there is no pipe.
pub(crate) type StdinReader = Result<OwnedFd, Errno>;

/// Writes a command's standard input, from any thread, before and after the command starts.
///
/// Dropping it is the end of the input. What is written waits in a pipe (64 KiB, see pipe(7)); a
/// write beyond that waits for the command to read. So write much of it on another thread than the
/// one that runs the operation, and drop the writer when all is written: a command that reads to
/// the end does not end before.
///
/// # Errors
/// [`io::ErrorKind::BrokenPipe`] when nobody will read it: the command has ended or closed its
/// input, did not start, or the operation was answered from the record. A submission that joins
/// one that is running keeps its writer waiting until that one has ended, because only then is it
/// known whether this one runs. No SIGPIPE reaches the host, whatever its disposition.
///
/// The error of pipe(2) if there is no pipe; the operation fails with the same.
///
/// # Examples
/// ```
/// # let stage = xioflow_kit::Stage::new();
/// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
/// # let domain = options.open(stage.domain())?;
/// use std::io::Write;
/// use xioflow_kernel::Command;
///
/// let mut operation = domain.operation(Command::new("/bin/cat"))?;
/// let mut input = operation.stdin_stream();
/// let running = operation.start()?;
/// writeln!(input, "one line at a time")?;
/// drop(input); // the end
/// assert_eq!(running.wait()?.stdout, "one line at a time\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StdinWriter {
    pipe: Result<OwnedFd, Errno>,
}

/// Makes both ends.
pub(crate) fn stream() -> (StdinReader, StdinWriter) {
    match pipe_with(PipeFlags::CLOEXEC) {
        Ok((reader, writer)) => (Ok(reader), StdinWriter { pipe: Ok(writer) }),
        Err(errno) => (Err(errno), StdinWriter { pipe: Err(errno) }),
    }
}

impl Write for StdinWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let pipe = self.pipe.as_ref().map_err(|errno| *errno)?;
        Ok(without_sigpipe(|| rustix::io::write(pipe, bytes))?)
    }

    /// Does nothing: what was written is in the pipe.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes with SIGPIPE blocked for this thread, and takes the one that a broken pipe leaves.
///
/// The kernel sends it to the very thread that writes, before write(2) returns, so there is one to
/// take whenever the pipe is broken, and none is ever waited for.
fn without_sigpipe(write: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let sigpipe = SigSet::from(Signal::SIGPIPE);
    let before = sigpipe
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .map_err(errno)?;
    let written = write();
    if written == Err(Errno::PIPE) {
        sigpipe.wait().map_err(errno)?;
    }
    before.thread_set_mask().map_err(errno)?;
    written
}

fn errno(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_broken_pipe_is_an_error_and_no_signal() {
        let signalled = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::clone(&signalled)).unwrap();
        let (reader, mut writer) = stream();
        writer.write_all(b"kept").unwrap();
        drop(reader);
        let broken = writer.write(b"lost").unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
        assert!(!signalled.load(Ordering::SeqCst), "the host was signalled");
        // Its mask is as before: a write of its own is signalled.
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        drop(reader);
        assert_eq!(rustix::io::write(writer, b"x"), Err(Errno::PIPE));
        assert!(signalled.load(Ordering::SeqCst), "this write is signalled");
    }

    #[test]
    fn a_pipe_that_could_not_be_made_is_said_by_the_writer_too() {
        let mut writer = StdinWriter {
            pipe: Err(Errno::MFILE),
        };
        let error = writer.write(b"x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
}
