//! One helper and the socket to it: frames with descriptors in both directions.
//!
//! The socket never blocks: what does not fit waits in `outgoing` until the poll loop of the
//! operation finds room, so a helper that does not read cannot hold up its supervisor.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::bounds::{brief, check};
use super::points;
use super::registry;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, kill_process};
use xioflow_killpoint as killpoint;
use xioflow_protocol::{
    Decoder, FEATURE_RECORDED, FEATURE_SUSPEND, FrameError, Hello, LaunchDescriptor,
    PROTOCOL_VERSION, Reply, Request, encode,
};

/// Bytes read from the socket at once; replies are small.
const READ_LEN: usize = 16 * 1024;

/// Reads of one call, so that a helper that sends a frame byte by byte, faster than it can be taken,
/// does not keep its supervisor from everything else.
const READS_PER_CALL: usize = 16;

/// Descriptors that travel with one message of ours: those of a launch.
const DESCRIPTORS_MAX: usize = LaunchDescriptor::COUNT;

/// Why a helper cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Its program could not be started.
    #[error("failed to start the helper {path}")]
    Start {
        /// The program.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It went away.
    #[error(transparent)]
    Lost(#[from] HelperLost),
    /// It is of a release that cannot do what the command needs.
    #[error(
        "the helper (release {release}) lacks the feature {feature}, which this command needs; install it \
         from the same release as this program"
    )]
    Lacks {
        /// What it lacks, by its name in the protocol.
        feature: &'static str,
        /// Its release.
        release: String,
    },
}

/// A helper that is gone, or that can no longer be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelperLost {
    /// Its end of the socket was closed.
    #[error("the helper went away")]
    Gone,
    /// It sent something that is no message.
    #[error("the helper sent garbage: {0}")]
    Garbage(FrameError),
    /// It is of another version.
    #[error(
        "the helper speaks protocol version {found} (release {release}), this supervisor speaks \
         {PROTOCOL_VERSION}; install both from one release"
    )]
    Version {
        /// The version it speaks.
        found: u32,
        /// Its release.
        release: String,
    },
    /// It refused what we sent.
    #[error("the helper refused to go on: {0}")]
    Refused(String),
    /// It broke an invariant of its own.
    #[error("the helper failed: {0}")]
    Panicked(String),
    /// It did not answer in time.
    #[error("the helper gave no answer within {waited_ms} ms")]
    Silent {
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// It answered something else than what was asked.
    #[error("the helper answered out of order ({0})")]
    OutOfOrder(&'static str),
    /// It sent more than any helper may.
    #[error("the helper sent {0}")]
    Excess(&'static str),
    /// The socket failed.
    #[error("the socket to the helper failed: {0}")]
    Socket(String),
}

/// What one read of the socket brought.
#[derive(Debug)]
pub(crate) enum Received {
    /// No whole message for now.
    Nothing,
    /// A message.
    Reply(Reply),
}

/// A running helper.
#[derive(Debug)]
pub(crate) struct HelperLink {
    socket: UnixStream,
    child: Child,
    decoder: Decoder,
    passed: Passed,
    outgoing: Vec<u8>,
    greeted: Option<Hello>,
}

/// The one descriptor that a helper has to pass in its life: the pidfd of the command.
#[derive(Debug)]
enum Passed {
    /// It has not come.
    None,
    /// It waits to be taken.
    One(OwnedFd),
    /// It was taken.
    Taken,
}

impl HelperLink {
    /// Starts a helper and greets it; its answer is read later, so this does not wait for it.
    pub(crate) fn start(program: &Path) -> Result<Self, LinkError> {
        let failed = |source| LinkError::Start {
            path: program.display().to_string(),
            source,
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        // Said before there is anybody to hear it: a helper that dies at once is then noticed where
        // its answer is waited for, and nothing here can fail once there is a process.
        send_greeting(&ours).map_err(failed)?;
        // No `pre_exec`: it would turn posix_spawn into fork, and the helper makes itself clean.
        let mut command = Command::new(program);
        command
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        killpoint::pass(|| "helper:start:before-spawn");
        let child = registry::spawn(&mut command).map_err(failed)?;
        killpoint::pass(|| "helper:start:after-spawn");
        Ok(Self {
            socket: ours,
            child,
            decoder: Decoder::new(),
            passed: Passed::None,
            outgoing: Vec::new(),
            greeted: None,
        })
    }

    /// Queues a message and sends what fits.
    pub(crate) fn send(&mut self, request: &Request) -> Result<(), HelperLost> {
        encode(request, &mut self.outgoing)
            .map_err(|error| HelperLost::Socket(error.to_string()))?;
        points::request(request, "before-send");
        self.flush()?;
        points::request(request, "after-send");
        Ok(())
    }

    /// Sends a message whose descriptors travel with its first byte.
    pub(crate) fn send_with(
        &mut self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), HelperLost> {
        self.flush()?;
        if !self.outgoing.is_empty() {
            // Nothing is ahead of a launch but the greeting, and that was sent.
            return Err(HelperLost::OutOfOrder("it does not read"));
        }
        let mut frame = Vec::new();
        encode(request, &mut frame).map_err(|error| HelperLost::Socket(error.to_string()))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(descriptors));
        killpoint::hold(self.child.id());
        points::request(request, "before-send");
        let sent = sendmsg(
            &self.socket,
            &[IoSlice::new(&frame)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .map_err(socket_error)?;
        self.outgoing.extend_from_slice(&frame[sent..]);
        self.flush()?;
        points::request(request, "after-send");
        Ok(())
    }

    /// Sends what is queued, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> Result<(), HelperLost> {
        let mut sent = 0;
        while sent < self.outgoing.len() {
            match rustix::net::send(&self.socket, &self.outgoing[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(socket_error(error)),
            }
        }
        self.outgoing.drain(..sent);
        Ok(())
    }

    /// Whether something waits to be sent.
    pub(crate) fn wants_to_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes the next message, reading the socket if none is whole yet.
    pub(crate) fn receive(&mut self) -> Result<Received, HelperLost> {
        let mut reads_left = READS_PER_CALL;
        loop {
            match self.decoder.next_message::<Reply>() {
                Ok(Some(Reply::Hello(hello))) => self.greet(hello)?,
                Ok(Some(Reply::Refused(fault))) => return Err(refused(&fault)),
                Ok(Some(Reply::Panicked { message })) => {
                    return Err(HelperLost::Panicked(brief(&message)));
                }
                Ok(Some(_)) if self.greeted.is_none() => {
                    return Err(HelperLost::OutOfOrder("no greeting"));
                }
                Ok(Some(reply)) => {
                    check(&reply).map_err(HelperLost::Excess)?;
                    points::reply(&reply);
                    return Ok(Received::Reply(reply));
                }
                Ok(None) if reads_left > 0 && self.read_some()? => reads_left -= 1,
                Ok(None) => return Ok(Received::Nothing),
                Err(error) => return Err(HelperLost::Garbage(error)),
            }
        }
    }

    fn greet(&mut self, hello: Hello) -> Result<(), HelperLost> {
        if hello.protocol != PROTOCOL_VERSION {
            return Err(HelperLost::Version {
                found: hello.protocol,
                release: brief(&hello.release),
            });
        }
        if self.greeted.is_some() {
            return Err(HelperLost::OutOfOrder("a second greeting"));
        }
        self.greeted = Some(hello);
        Ok(())
    }

    /// Reads once; false when nothing was there.
    fn read_some(&mut self) -> Result<bool, HelperLost> {
        let mut bytes = [0; READ_LEN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let message = loop {
            match recvmsg(
                &self.socket,
                &mut slices,
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Ok(message) => break message,
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                // It went with something of ours unread.
                Err(rustix::io::Errno::CONNRESET) => return Err(self.end_of_stream()),
                Err(error) => return Err(socket_error(error)),
            }
        };
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                for descriptor in descriptors {
                    self.accept(descriptor)?;
                }
            }
        }
        if message.bytes == 0 {
            return Err(self.end_of_stream());
        }
        self.decoder.push(&bytes[..message.bytes]);
        Ok(true)
    }

    fn end_of_stream(&self) -> HelperLost {
        match self.decoder.finish() {
            Ok(()) => HelperLost::Gone,
            Err(error) => HelperLost::Garbage(error),
        }
    }

    /// Keeps the one descriptor that may come; any other is closed, and ends the link.
    fn accept(&mut self, descriptor: OwnedFd) -> Result<(), HelperLost> {
        if !matches!(self.passed, Passed::None) {
            return Err(HelperLost::Excess("more descriptors than it has to pass"));
        }
        self.passed = Passed::One(descriptor);
        Ok(())
    }

    /// Takes the descriptor that the helper passed, if it did.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        match std::mem::replace(&mut self.passed, Passed::Taken) {
            Passed::One(descriptor) => Some(descriptor),
            Passed::None | Passed::Taken => None,
        }
    }

    /// What the helper said of itself, once it has.
    pub(crate) fn greeting(&self) -> Option<&Hello> {
        self.greeted.as_ref()
    }

    /// Continues the helper if it was stopped. It is our child and was not waited for, so its number
    /// means it; a helper that runs takes no notice.
    pub(crate) fn wake(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::CONT).ok();
        }
    }

    /// Has the helper stop every process of its tree, or continue them; one that cannot is not asked.
    pub(crate) fn job_control(&mut self, suspend: bool) -> Result<(), HelperLost> {
        let request = match suspend {
            true => Request::Suspend,
            false => Request::Resume,
        };
        if self.can_suspend() {
            self.send(&request)?;
        }
        Ok(())
    }

    /// Whether it can stop and continue its tree.
    pub(crate) fn can_suspend(&self) -> bool {
        self.knows(FEATURE_SUSPEND)
    }

    /// Says what a helper lacks that has greeted.
    pub(crate) fn check_feature(&self, feature: &'static str) -> Result<(), LinkError> {
        if self.knows(feature) {
            return Ok(());
        }
        let release = self.greeted.as_ref().map(|hello| brief(&hello.release));
        Err(LinkError::Lacks {
            feature,
            release: release.unwrap_or_default(),
        })
    }

    fn knows(&self, feature: &str) -> bool {
        let named = |hello: &Hello| hello.features.iter().any(|name| name == feature);
        self.greeted.as_ref().is_some_and(named)
    }

    /// Tells the helper that its account is durable, so that it leaves no last word. One that
    /// knows no such message has left already.
    pub(crate) fn account_recorded(&mut self) {
        if self.knows(FEATURE_RECORDED) {
            // If it cannot be told it leaves a last word, which recovery removes.
            self.send(&Request::Recorded).ok();
        }
    }

    /// Kills the helper: it is our child and was not waited for, so its number means it.
    pub(crate) fn kill(&mut self) {
        // An error means that it has been waited for already.
        self.child.kill().ok();
    }

    /// Waits until the helper's process has ended, so that what it held has come to whoever adopts
    /// it. One that is not dead but cannot be trusted is killed.
    pub(crate) fn make_sure_it_is_gone(&mut self) {
        self.kill();
        // An error means that it has been waited for already.
        self.child.wait().ok();
    }

    /// Closes the socket and gives back the process, to be waited for.
    pub(crate) fn into_child(self) -> Child {
        killpoint::let_go(self.child.id());
        self.child
    }
}

impl AsFd for HelperLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Puts the greeting into the socket, which is empty and has room for far more.
fn send_greeting(socket: &UnixStream) -> io::Result<()> {
    let greeting = Request::Hello(Hello {
        protocol: PROTOCOL_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        identity: None,
        features: vec![FEATURE_RECORDED.to_owned()],
    });
    let mut frame = Vec::new();
    encode(&greeting, &mut frame).map_err(io::Error::other)?;
    (&*socket).write_all(&frame)
}

fn refused(fault: &xioflow_protocol::ProtocolFault) -> HelperLost {
    match fault {
        xioflow_protocol::ProtocolFault::Version { ours, .. } => HelperLost::Version {
            found: *ours,
            release: "unknown".to_owned(),
        },
        other => HelperLost::Refused(brief(&other.to_string())),
    }
}

fn socket_error(error: rustix::io::Errno) -> HelperLost {
    match error {
        rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET => HelperLost::Gone,
        error => HelperLost::Socket(error.to_string()),
    }
}
