//! Starts the real helper and speaks its protocol, each step within one deadline.
//!
//! Neighbours: `helper` greets it, `subreaper` and `pid_namespace` have it hold a tree. It is closer to the wire than
//! the kernel's own link, because it judges the helper alone.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};
use xioflow_protocol::{
    Decoder, FrameError, Hello, Launch, LaunchDescriptor, PROTOCOL_VERSION, ProtocolFault, Reply,
    Request, encode,
};
use xioflow_sandbox::wait_bounded;

/// How long a helper may take to be gone after its peer is: time for a plan that kills at once.
const END_LIMIT: Duration = Duration::from_secs(8);

const READ_LEN: usize = 4096;

/// Why the helper could not be spoken with.
#[derive(Debug, thiserror::Error)]
pub(super) enum HolderError {
    /// It did not start.
    #[error("start {path}")]
    Start { path: String, source: io::Error },
    /// The socket to it failed.
    #[error("{step} the helper")]
    Socket {
        step: &'static str,
        source: io::Error,
    },
    /// It did not answer in time.
    #[error("the helper did not answer within {limit_ms} ms")]
    TimedOut { limit_ms: u128 },
    /// It did not end when its peer was gone, and was killed.
    #[error("the helper did not end within {limit_ms} ms after its peer")]
    Overstayed { limit_ms: u128 },
    /// It went away.
    #[error("the helper went away in the middle")]
    Gone,
    /// What it sent is no message.
    #[error("the helper sent something that is no message")]
    Frame(#[source] FrameError),
    /// It refused to go on.
    #[error("{0}")]
    Refused(ProtocolFault),
    /// It broke an invariant of its own.
    #[error("the helper failed inside: {0}")]
    Panicked(String),
    /// It sent a message that does not belong here.
    #[error("the helper sent {got} where {wanted} was due")]
    OutOfOrder { wanted: &'static str, got: String },
}

/// A helper that was started, and the socket to it.
pub(super) struct Holder {
    child: Child,
    socket: OwnedFd,
    decoder: Decoder,
    begun: Instant,
    limit: Duration,
}

impl Holder {
    /// Starts the helper. Everything until the end of the conversation shares `limit`.
    pub(super) fn start(path: &Path, limit: Duration) -> Result<Self, HolderError> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|errno| failed("make a socket for", errno))?;
        let mut command = Command::new(path);
        command
            .env_clear()
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = command.spawn();
        let child = started.map_err(|source| HolderError::Start {
            path: path.display().to_string(),
            source,
        })?;
        Ok(Self {
            child,
            socket,
            decoder: Decoder::new(),
            begun: Instant::now(),
            limit,
        })
    }

    /// Exchanges greetings.
    pub(super) fn hello(&mut self) -> Result<Hello, HolderError> {
        self.hello_with(&[])
    }

    /// The same, asking for what these features name.
    pub(super) fn hello_with(&mut self, features: &[&str]) -> Result<Hello, HolderError> {
        self.send(&Request::Hello(Hello {
            protocol: PROTOCOL_VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            identity: None,
            features: features.iter().map(|&it| it.to_owned()).collect(),
        }))?;
        match self.next_reply()? {
            Reply::Hello(hello) => Ok(hello),
            other => Err(out_of_order("a greeting", &other)),
        }
    }

    /// Sends a request that carries no descriptors.
    pub(super) fn send(&mut self, request: &Request) -> Result<(), HolderError> {
        self.send_frame(request, &[])
    }

    /// Sends a launch with its descriptors, in the order of [`LaunchDescriptor`].
    pub(super) fn launch(
        &mut self,
        launch: Launch,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), HolderError> {
        self.send_frame(&Request::Launch(launch), descriptors)
    }

    fn send_frame(&mut self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<(), HolderError> {
        let mut frame = Vec::new();
        encode(request, &mut frame).map_err(HolderError::Frame)?;
        let mut sent = self.send_part(&frame, fds)?;
        while sent < frame.len() {
            sent += self.send_part(&frame[sent..], &[])?;
        }
        Ok(())
    }

    /// Descriptors travel with the first byte.
    fn send_part(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, HolderError> {
        self.wait_for(PollFlags::OUT)?;
        let space = rustix::cmsg_space!(ScmRights(LaunchDescriptor::COUNT));
        let mut space = vec![MaybeUninit::uninit(); space];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(failed("send descriptors to", rustix::io::Errno::NOBUFS));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::io::retry_on_intr(|| {
            sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)
        })
        .map_err(|errno| match errno {
            rustix::io::Errno::PIPE => HolderError::Gone,
            errno => failed("write to", errno),
        })
    }

    /// The next message. That the helper refuses or failed is an error.
    pub(super) fn next_reply(&mut self) -> Result<Reply, HolderError> {
        loop {
            match self.decoder.next_message().map_err(HolderError::Frame)? {
                Some(Reply::Refused(fault)) => return Err(HolderError::Refused(fault)),
                Some(Reply::Panicked { message }) => return Err(HolderError::Panicked(message)),
                Some(reply) => return Ok(reply),
                None => self.receive()?,
            }
        }
    }

    fn receive(&mut self) -> Result<(), HolderError> {
        self.wait_for(PollFlags::IN)?;
        match read_some(&self.socket) {
            Ok(bytes) if bytes.is_empty() => Err(HolderError::Gone),
            Ok(bytes) => {
                self.decoder.push(&bytes);
                Ok(())
            }
            // It went without reading all that we sent.
            Err(rustix::io::Errno::CONNRESET) => Err(HolderError::Gone),
            Err(errno) => Err(failed("read from", errno)),
        }
    }

    fn wait_for(&self, flags: PollFlags) -> Result<(), HolderError> {
        let left = self.limit.saturating_sub(self.begun.elapsed());
        match wait_until(&self.socket, flags, left) {
            Ok(true) => Ok(()),
            Ok(false) => Err(HolderError::TimedOut {
                limit_ms: self.limit.as_millis(),
            }),
            Err(errno) => Err(failed("wait for", errno)),
        }
    }

    /// What is left of the time for the whole conversation.
    pub(super) fn time_left(&self) -> Duration {
        self.limit.saturating_sub(self.begun.elapsed())
    }

    /// Ends the conversation and waits until the helper is gone; what it held is stopped by it.
    pub(super) fn finish(mut self) -> Result<ExitStatus, HolderError> {
        self.close()
    }

    /// Kills it, and waits for its end: what becomes of what it held is what is asked.
    pub(super) fn kill(mut self) -> Result<(), HolderError> {
        let failed = |step| move |source| HolderError::Socket { step, source };
        self.child.kill().map_err(failed("kill"))?;
        self.child.wait().map(drop).map_err(failed("wait for"))
    }

    /// The helper sees the end of the stream at once. What it still has to say fits the socket.
    fn close(&mut self) -> Result<ExitStatus, HolderError> {
        // It may have gone before us, and then there is nothing to be shut down.
        shutdown(&self.socket, Shutdown::Write).ok();
        let failed = |step| move |source| HolderError::Socket { step, source };
        if let Some(status) =
            wait_bounded(&mut self.child, END_LIMIT).map_err(failed("wait for"))?
        {
            return Ok(status);
        }
        self.child.kill().map_err(failed("kill"))?;
        let limit_ms = END_LIMIT.as_millis();
        // Reaped where possible; the finding is the same if even that takes too long.
        wait_bounded(&mut self.child, END_LIMIT).map_err(failed("wait for"))?;
        Err(HolderError::Overstayed { limit_ms })
    }
}

impl Drop for Holder {
    /// Killing the helper would set free what it holds, so it is asked first, here too.
    fn drop(&mut self) {
        // Whoever drops it without `finish` reports an error of its own already.
        self.close().ok();
    }
}

pub(super) fn out_of_order(wanted: &'static str, got: &Reply) -> HolderError {
    // The name is the first word of the debug form; the rest may be long.
    let got = format!("{got:?}");
    let name = got
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    HolderError::OutOfOrder {
        wanted,
        got: name.to_owned(),
    }
}

fn failed(step: &'static str, errno: rustix::io::Errno) -> HolderError {
    HolderError::Socket {
        step,
        source: errno.into(),
    }
}

/// Waits until the descriptor is ready or closed; false when the time is over.
pub(super) fn wait_until(
    fd: &OwnedFd,
    flags: PollFlags,
    left: Duration,
) -> rustix::io::Result<bool> {
    // Longer than any limit here; a duration that does not fit cannot come up.
    let timeout = Timespec::try_from(left).unwrap_or(Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    });
    let mut interest = [PollFd::new(fd, flags)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut interest, Some(&timeout)))? > 0)
}

/// Reads what is there. A descriptor that travels along is received and closed.
fn read_some(socket: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = vec![0; READ_LEN];
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LaunchDescriptor::COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    bytes.truncate(received.bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::testing;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_program_that_is_not_there() {
        let Err(error) = Holder::start(Path::new("/nonexistent/helper"), LIMIT) else {
            panic!("there is no such program");
        };
        assert!(error.to_string().contains("/nonexistent/helper"), "{error}");
    }

    #[test]
    fn a_program_that_ends_without_a_word_is_gone() {
        let mut holder = Holder::start(Path::new("/bin/true"), LIMIT).expect("it starts");
        assert!(matches!(
            holder.hello(),
            Err(HolderError::Gone | HolderError::Socket { .. })
        ));
    }

    fn answer_of(bytes: &[u8]) -> Result<Hello, HolderError> {
        let dir = tempfile::tempdir().expect("a folder");
        let helper = testing::babbling_helper(dir.path(), bytes);
        let mut holder = Holder::start(&helper, LIMIT).expect("it starts");
        let answer = holder.hello();
        holder.finish().expect("it ends by itself");
        answer
    }

    fn answer_to(reply: &Reply) -> Result<Hello, HolderError> {
        let mut bytes = Vec::new();
        encode(reply, &mut bytes).expect("a reply fits a frame");
        answer_of(&bytes)
    }

    #[test]
    fn a_greeting_comes_back() {
        let hello = answer_to(&testing::greeting()).expect("a greeting");
        assert_eq!(hello.protocol, PROTOCOL_VERSION);
    }

    #[test]
    fn refusal_and_failure_are_told_apart() {
        let fault = ProtocolFault::Version { ours: 2, theirs: 1 };
        let refused = answer_to(&Reply::Refused(fault.clone()));
        assert!(matches!(refused, Err(HolderError::Refused(found)) if found == fault));
        let panicked = answer_to(&Reply::Panicked {
            message: "here".to_owned(),
        });
        assert!(matches!(panicked, Err(HolderError::Panicked(message)) if message == "here"));
    }

    #[test]
    fn a_reply_out_of_its_order_is_named() {
        let Err(error) = answer_to(&Reply::Running) else {
            panic!("that is no greeting")
        };
        assert_eq!(
            error.to_string(),
            "the helper sent Running where a greeting was due"
        );
    }

    #[test]
    fn garbage_and_half_a_frame_are_no_messages() {
        let garbage = answer_of(b"\x04\0\0\0\xff\xff\xff\xff");
        assert!(matches!(
            garbage,
            Err(HolderError::Frame(FrameError::Malformed { len: 4 }))
        ));
        let too_long = answer_of(b"\xff\xff\xff\xff");
        assert!(matches!(
            too_long,
            Err(HolderError::Frame(FrameError::TooLong { .. }))
        ));
    }

    #[test]
    fn a_program_that_never_answers_is_not_waited_for() {
        let limit = Duration::from_millis(50);
        let mut holder = Holder::start(Path::new("/bin/cat"), limit).expect("it starts");
        assert!(matches!(
            holder.hello(),
            Err(HolderError::TimedOut { limit_ms: 50 })
        ));
        // It reads until the end of its input, which finishing brings.
        let status = holder.finish().expect("it ends by itself");
        assert!(status.success());
    }
}
