//! Runs a short program with a time limit, for probes.
//!
//! Neighbours: every driver's probe. Commands of users never run here: their trees are held by
//! the helper, while this ends only the process that it started itself.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions};

/// How much of each stream is kept, in bytes: a version or a message, not an output.
const HEAD_LEN_MAX: usize = 4096;

/// How long a killed program may take to be gone. Longer means an uninterruptible sleep.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// How a program ended that kept its time.
#[derive(Debug)]
pub struct Finished {
    /// Its status.
    pub status: ExitStatus,
    /// The first 4 KiB that it printed and that were there at its end.
    pub stdout: Vec<u8>,
    /// The same of its standard error.
    pub stderr: Vec<u8>,
}

/// Why there is no end to report.
#[derive(Debug, thiserror::Error)]
pub enum BoundedError {
    /// It could not be started.
    #[error("start {program:?}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It was killed because its time was over.
    #[error("{program:?} did not end within {limit_ms} ms and was killed")]
    TimedOut {
        /// The program.
        program: String,
        /// The time limit, in milliseconds.
        limit_ms: u128,
    },
    /// It was killed because its time was over, and is still there.
    #[error("{program:?} did not end within {limit_ms} ms, nor when it was killed")]
    Unkillable {
        /// The program.
        program: String,
        /// The time limit, in milliseconds.
        limit_ms: u128,
    },
    /// The system did not say how it ended.
    #[error("wait for {program:?}")]
    Wait {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
}

/// Runs `command` without input and returns its status and the head of its output.
///
/// On return the program is gone, save for [`BoundedError::Unkillable`]. What it may have started
/// is not waited for. One that prints more than a pipe holds (64 KiB) does not keep its time.
///
/// # Errors
/// [`BoundedError`] says by cause why there is no status.
pub fn run_bounded(command: &mut Command, limit: Duration) -> Result<Finished, BoundedError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let started = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(source) => return Err(BoundedError::Start { program, source }),
    };
    let ended = watch(&child);
    let limit_ms = limit.as_millis();
    match ended.recv_timeout(limit) {
        Ok(waited) => waited
            .and_then(|()| finish(child))
            .map_err(|source| BoundedError::Wait { program, source }),
        Err(_) => Err(kill(&mut child, &ended, program, limit_ms)),
    }
}

/// Waits until `child` ends, and reaps it; `None` if its time is over first, and then it still runs.
///
/// # Errors
/// Those of waitid(2), which a child that nobody else reaps does not cause.
pub fn wait_bounded(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    match watch(child).recv_timeout(limit) {
        Ok(waited) => waited.and_then(|()| child.wait()).map(Some),
        Err(_) => Ok(None),
    }
}

/// Says when the child has ended, from a thread of its own, and leaves it to be reaped: until
/// then its number is not used again, so the thread cannot wait for the wrong process.
fn watch(child: &Child) -> Receiver<io::Result<()>> {
    let pid = Pid::from_child(child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited =
            rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options));
        // Nobody listens any more if the child was given up; there is nothing to be done then.
        sender
            .send(waited.map(|_| ()).map_err(io::Error::from))
            .ok();
    });
    receiver
}

fn finish(mut child: Child) -> io::Result<Finished> {
    let status = child.wait()?;
    Ok(Finished {
        status,
        stdout: head(child.stdout)?,
        stderr: head(child.stderr)?,
    })
}

fn kill(
    child: &mut Child,
    ended: &Receiver<io::Result<()>>,
    program: String,
    limit_ms: u128,
) -> BoundedError {
    let killed = child.kill();
    match killed.map(|()| ended.recv_timeout(KILL_WAIT)) {
        Ok(Ok(_)) => match child.wait() {
            Ok(_) => BoundedError::TimedOut { program, limit_ms },
            Err(source) => BoundedError::Wait { program, source },
        },
        Ok(Err(_)) | Err(_) => BoundedError::Unkillable { program, limit_ms },
    }
}

/// Takes what is there without waiting: a process that outlived the program may hold the pipe.
fn head(pipe: Option<impl Read + AsFd>) -> io::Result<Vec<u8>> {
    let Some(mut pipe) = pipe else {
        return Ok(Vec::new());
    };
    rustix::io::ioctl_fionbio(&pipe, true)?;
    let mut bytes = vec![0; HEAD_LEN_MAX];
    let mut len = 0;
    while len < bytes.len() {
        match pipe.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(50);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn status_and_both_streams_come_back() {
        let finished =
            run_bounded(&mut sh("echo out; echo err >&2; exit 3"), LONG).expect("it ends");
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout, b"out\n");
        assert_eq!(finished.stderr, b"err\n");
    }

    #[test]
    fn a_long_output_is_cut() {
        let script = "i=0; while [ $i -lt 1000 ]; do echo 0123456789; i=$((i+1)); done";
        let finished = run_bounded(&mut sh(script), LONG).expect("it ends");
        assert_eq!(finished.stdout.len(), HEAD_LEN_MAX);
    }

    #[test]
    fn a_program_that_overstays_is_killed_and_reaped() {
        let error = run_bounded(&mut sh("exec sleep 60"), SHORT).expect_err("its time is over");
        assert!(
            matches!(error, BoundedError::TimedOut { limit_ms: 50, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_held_pipe_does_not_hold_us() {
        let finished = run_bounded(&mut sh("sleep 60 & echo $!"), LONG).expect("the shell ends");
        let held_by = String::from_utf8(finished.stdout).expect("a pid");
        let held_by = held_by
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .expect("a pid");
        // It lives, so it held the pipe all the time, and we are here in spite of it.
        let killed = rustix::process::kill_process(held_by, rustix::process::Signal::KILL);
        assert_eq!(killed, Ok(()));
    }

    #[test]
    fn waiting_is_bounded_and_leaves_the_child_as_it_is() {
        let mut child = sh("exec sleep 60").spawn().expect("it starts");
        assert!(
            wait_bounded(&mut child, SHORT)
                .expect("it can be waited for")
                .is_none()
        );
        child.kill().expect("it still runs");
        let status = wait_bounded(&mut child, LONG).expect("it can be waited for");
        assert_eq!(status.and_then(|status| status.code()), None);
        assert!(status.is_some(), "it was killed");
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let error = run_bounded(&mut Command::new("/nonexistent/program"), LONG)
            .expect_err("there is no such program");
        assert!(
            error.to_string().contains("/nonexistent/program"),
            "{error}"
        );
    }
}
