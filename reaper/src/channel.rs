//! Frames in and out of the control socket. Neither direction ever blocks the loop.

use alloc::vec::Vec;

use xioflow_protocol::{Decoder, FrameError, Reply, Request, encode};
use xioflow_sys::{AsFd, BorrowedFd, Errno, OwnedFd, POLLIN, POLLOUT, recv, send, shutdown_write};

/// How much is read before the loop looks at its other events.
const READS_MAX: usize = 64;

/// How much may wait for a supervisor that does not read. All replies of an operation together
/// are far less, so more of it means that the other end is not one.
const OUT_LEN_MAX: usize = 1024 * 1024;

/// The control socket with what waits on both sides.
#[derive(Debug)]
pub(crate) struct Channel<'fd> {
    socket: BorrowedFd<'fd>,
    decoder: Decoder,
    descriptors: Vec<OwnedFd>,
    descriptors_lost: bool,
    out: Vec<u8>,
    /// A descriptor that travels with the byte at this position of `out`.
    attached: Option<(usize, OwnedFd)>,
    reading: bool,
    writing: bool,
}

/// What came of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Perhaps some messages; the other end is there.
    Open,
    /// The other end is gone.
    End,
}

/// The descriptors that have come.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether there were more than could be received.
    pub(crate) lost: bool,
}

impl<'fd> Channel<'fd> {
    /// Speaks over a socket that stays open as long.
    pub(crate) const fn new(socket: BorrowedFd<'fd>) -> Self {
        Self {
            socket,
            decoder: Decoder::new(),
            descriptors: Vec::new(),
            descriptors_lost: false,
            out: Vec::new(),
            attached: None,
            reading: true,
            writing: true,
        }
    }

    /// What to wait for; `None` when the socket has nothing more to say.
    pub(crate) fn interest(&self) -> Option<(BorrowedFd<'fd>, i16)> {
        let read = if self.reading { POLLIN } else { 0 };
        let write = if self.is_flushed() { 0 } else { POLLOUT };
        (read | write != 0).then_some((self.socket, read | write))
    }

    /// Whether everything that was said has left, or never can.
    pub(crate) fn is_flushed(&self) -> bool {
        self.out.is_empty() || !self.writing
    }

    /// Whether nobody is at the other end.
    pub(crate) const fn is_gone(&self) -> bool {
        !self.writing
    }

    /// Takes in what has come.
    pub(crate) fn receive(&mut self) -> Input {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..READS_MAX {
            if !self.reading {
                return Input::Open;
            }
            match recv(self.socket, &mut buffer) {
                Ok(received) if received.is_end() => {
                    // Only its own direction: it may still listen.
                    self.stop_reading();
                    return Input::End;
                }
                Ok(received) => {
                    self.decoder.push(&buffer[..received.len]);
                    self.descriptors.extend(received.descriptors);
                    self.descriptors_lost |= received.truncated;
                    if received.len < buffer.len() {
                        return Input::Open;
                    }
                }
                Err(Errno::EAGAIN) => return Input::Open,
                Err(Errno::EINTR) => {}
                Err(_) => return self.end(),
            }
        }
        Input::Open
    }

    fn end(&mut self) -> Input {
        self.close();
        Input::End
    }

    /// Takes the next message.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, FrameError> {
        self.decoder.next_message()
    }

    /// Whether what has come ends with a whole message.
    pub(crate) fn is_between_messages(&self) -> bool {
        self.decoder.finish().is_ok()
    }

    /// Takes the descriptors that have come.
    ///
    /// One read may take the end of one message and the beginning of the next, and the descriptors
    /// of either, so they are not told apart by message: only a launch takes any.
    pub(crate) fn take_descriptors(&mut self) -> Arrived {
        let descriptors = core::mem::take(&mut self.descriptors);
        let lost = core::mem::take(&mut self.descriptors_lost);
        Arrived { descriptors, lost }
    }

    /// How many descriptors have come and were not taken.
    pub(crate) fn waiting_descriptors(&self) -> usize {
        self.descriptors.len() + usize::from(self.descriptors_lost)
    }

    /// Forgets what has come and reads nothing more: it cannot be trusted.
    pub(crate) fn stop_listening(&mut self) {
        self.stop_reading();
        self.decoder = Decoder::new();
    }

    fn stop_reading(&mut self) {
        self.reading = false;
        self.descriptors.clear();
    }

    /// Neither reads nor writes any more: nobody is there to do either.
    fn close(&mut self) {
        self.stop_reading();
        self.writing = false;
        self.out.clear();
        self.attached = None;
    }

    /// Says something. Tells whether the other end is still there.
    pub(crate) fn say(&mut self, reply: &Reply) -> Input {
        self.say_with(reply, None)
    }

    /// Says something, and hands over a descriptor with it.
    pub(crate) fn say_with(&mut self, reply: &Reply, descriptor: Option<OwnedFd>) -> Input {
        if !self.writing {
            return Input::End;
        }
        let at = self.out.len();
        let encoded = encode(reply, &mut self.out);
        debug_assert!(encoded.is_ok(), "replies are bounded far below a frame");
        if let Some(descriptor) = descriptor {
            self.attached = Some((at, descriptor));
        }
        self.flush()
    }

    /// Sends what there is room for. Tells whether the other end is still there.
    pub(crate) fn flush(&mut self) -> Input {
        while !self.out.is_empty() {
            match self.send_some() {
                Ok(len) => self.sent(len),
                Err(Errno::EAGAIN) if self.out.len() <= OUT_LEN_MAX => return Input::Open,
                Err(Errno::EINTR) => {}
                Err(_) => return self.end(),
            }
        }
        Input::Open
    }

    fn send_some(&self) -> Result<usize, Errno> {
        match &self.attached {
            Some((0, descriptor)) => send(self.socket, &self.out, Some(descriptor.as_fd())),
            Some((at, _)) => send(self.socket, &self.out[..*at], None),
            None => send(self.socket, &self.out, None),
        }
    }

    fn sent(&mut self, len: usize) {
        self.out.drain(..len);
        self.attached = match self.attached.take() {
            // It was handed over with the first byte; ours is closed here.
            Some((0, _)) | None => None,
            Some((at, descriptor)) => Some((at - len, descriptor)),
        };
    }

    /// Ends the conversation so that the other end reads all of it and then a clean end: what it
    /// sent meanwhile is taken in, since closing over it would look like a broken connection.
    pub(crate) fn finish(&mut self) {
        let _no_more = shutdown_write(&self.socket);
        let mut buffer = [0; 1024];
        while recv(self.socket, &mut buffer).is_ok_and(|received| !received.is_end()) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use xioflow_protocol::{Hello, PROTOCOL_VERSION};
    use xioflow_sys::{CWD, SocketKind, openat, socketpair};

    fn pair() -> (OwnedFd, Channel<'static>) {
        let (ours, theirs) = socketpair(SocketKind::Stream).expect("a pair");
        let theirs: &'static OwnedFd = Box::leak(Box::new(theirs));
        (ours, Channel::new(theirs.as_fd()))
    }

    fn frame(request: &Request) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(request, &mut bytes).expect("short");
        bytes
    }

    #[test]
    fn messages_and_descriptors_arrive() {
        let (ours, mut channel) = pair();
        let null =
            openat(CWD, c"/dev/null", xioflow_sys::OpenFlags::READ, 0).expect("/dev/null opens");
        send(ours.as_fd(), &frame(&Request::Release), None).expect("sent");
        send(ours.as_fd(), &frame(&Request::Discard), Some(null.as_fd())).expect("sent");
        let mut seen = Vec::new();
        while seen.len() < 2 {
            assert_eq!(channel.receive(), Input::Open);
            while let Some(request) = channel.next().expect("well-formed") {
                seen.push(request);
            }
        }
        assert_eq!(seen, [Request::Release, Request::Discard]);
        assert_eq!(channel.waiting_descriptors(), 1);
        let arrived = channel.take_descriptors();
        assert_eq!((arrived.descriptors.len(), arrived.lost), (1, false));
        drop(ours);
        assert_eq!(channel.receive(), Input::End);
        assert!(channel.interest().is_none() && channel.is_between_messages());
        assert_eq!(channel.say(&Reply::Running), Input::End);
        assert!(channel.is_gone());
    }

    #[test]
    fn a_supervisor_that_does_not_read_blocks_nothing_and_loses_nothing() {
        let (ours, mut channel) = pair();
        let hello = Hello {
            protocol: PROTOCOL_VERSION,
            release: "x".repeat(4000),
            identity: None,
            features: Vec::new(),
        };
        let mut said = 0;
        while channel.is_flushed() {
            assert_eq!(channel.say(&Reply::Hello(hello.clone())), Input::Open);
            said += 1;
        }
        assert_eq!(
            channel.interest().map(|(_, events)| events),
            Some(POLLIN | POLLOUT)
        );
        let null =
            openat(CWD, c"/dev/null", xioflow_sys::OpenFlags::READ, 0).expect("/dev/null opens");
        assert_eq!(channel.say_with(&Reply::Running, Some(null)), Input::Open);
        let mut decoder = Decoder::new();
        let (mut heard, mut descriptors) = (0, 0);
        let mut buffer = [0; 8192];
        loop {
            let received = recv(ours.as_fd(), &mut buffer).expect("something has come");
            decoder.push(&buffer[..received.len]);
            descriptors += received.descriptors.len();
            assert_eq!(channel.flush(), Input::Open);
            while let Some(reply) = decoder.next_message::<Reply>().expect("well-formed") {
                match reply {
                    Reply::Hello(_) => heard += 1,
                    other => {
                        assert_eq!(other, Reply::Running);
                        assert_eq!((heard, descriptors), (said, 1));
                        return;
                    }
                }
            }
        }
    }

    #[test]
    fn an_other_end_that_never_reads_is_given_up() {
        let (_ours, mut channel) = pair();
        let hello = Hello {
            protocol: 1,
            release: "x".repeat(100_000),
            identity: None,
            features: Vec::new(),
        };
        let mut end = Input::Open;
        for _ in 0..40 {
            end = channel.say(&Reply::Hello(hello.clone()));
        }
        assert_eq!(end, Input::End);
    }
}
