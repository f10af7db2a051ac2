//! One connection as the loop has it: its socket, what was received, and the descriptors that came along.
//! What is sent is in `outgoing`.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use xioflow_rpc::REQUEST_MAX_BYTES;
use xioflow_rpc::codec::{LineBuffer, LineError};

use crate::client::Client;
use crate::limits::{DESCRIPTORS_WAITING_MAX, UNFINISHED_MAX};
use crate::peer::Peer;

/// Names a connection; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) u64);

/// What a connection may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Only to greet.
    New,
    /// Everything.
    Greeted,
    /// It greeted with another protocol: only to end the arbiter.
    OtherProtocol,
    /// Nothing any more. What waits is still sent.
    Dismissed,
}

/// What reading has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Something came.
    Some,
    /// Nothing is there now.
    Nothing,
    /// The client says nothing more, and may still listen.
    End,
    /// The connection is over.
    Broken,
    /// More descriptors came than can wait.
    TooManyDescriptors,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Arc<OwnedFd>,
    pub(crate) client: Arc<Client>,
    pub(crate) peer: Peer,
    pub(crate) phase: Phase,
    lines: LineBuffer,
    descriptors: VecDeque<OwnedFd>,
    /// The request that is being looked at has taken its own.
    pub(crate) has_taken: bool,
    /// There may be whole lines that were received and not looked at.
    pub(crate) has_lines: bool,
    /// One of its lines is being looked at beside the loop; the next ones wait.
    pub(crate) reading_line: bool,
    /// Until when the end of a long line has to come.
    pub(crate) long_until: Option<Instant>,
    /// How much of an unfinished line the loop has counted.
    pub(crate) unfinished_bytes: usize,
    /// The client has ended its side.
    pub(crate) input_ended: bool,
    /// What the loop waits for of it.
    pub(crate) interest: Interest,
}

/// What the loop waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Connection {
    pub(crate) fn new(socket: Arc<OwnedFd>, client: Arc<Client>, peer: Peer) -> Self {
        Self {
            socket,
            client,
            peer,
            phase: Phase::New,
            lines: LineBuffer::new(REQUEST_MAX_BYTES),
            descriptors: VecDeque::new(),
            has_taken: false,
            has_lines: false,
            reading_line: false,
            long_until: None,
            unfinished_bytes: 0,
            input_ended: false,
            interest: Interest {
                read: true,
                write: false,
            },
        }
    }

    /// Reads once what is there.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Read {
        // Room for as many as may wait, and one more that says that there were too many.
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_WAITING_MAX + 1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            flags,
        );
        let received = match received {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Read::Nothing,
            Err(_) => return Read::Broken,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        // The system has closed what there was no room for, or could not give it a number.
        let cut = received.flags.contains(ReturnFlags::CTRUNC);
        if cut || self.descriptors.len() > DESCRIPTORS_WAITING_MAX {
            return Read::TooManyDescriptors;
        }
        if received.bytes == 0 {
            return Read::End;
        }
        self.lines.push(&buffer[..received.bytes]);
        self.has_lines = true;
        Read::Some
    }

    /// How much of a line has come whose end has not.
    pub(crate) fn unfinished_len(&self) -> usize {
        match self.lines.finish() {
            Err(LineError::Unfinished { len }) => len,
            Ok(()) | Err(LineError::TooLong { .. }) => 0,
        }
    }

    /// The next whole line.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        let line = self.lines.next_line();
        self.has_lines = matches!(line, Ok(Some(_)));
        line
    }

    /// Takes the descriptors of a request; none if fewer have come.
    pub(crate) fn take_descriptors(&mut self, count: usize) -> Option<Vec<OwnedFd>> {
        if count > self.descriptors.len() {
            return None;
        }
        self.has_taken = true;
        Some(self.descriptors.drain(..count).collect())
    }

    /// Whether descriptors wait for a request that names them.
    pub(crate) fn has_descriptors(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// Whether requests are looked at now.
    pub(crate) fn may_ask(&self) -> bool {
        self.phase != Phase::Dismissed
            && !self.reading_line
            && self.client.unfinished() < UNFINISHED_MAX
            && !self.client.outgoing.is_full()
    }

    /// Whether nothing is left to be done for it.
    pub(crate) fn is_over(&self) -> bool {
        let says_nothing = self.phase == Phase::Dismissed || (self.input_ended && !self.has_lines);
        says_nothing
            && !self.reading_line
            && self.client.unfinished() == 0
            && self.client.outgoing.waiting_bytes() == 0
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.client.outgoing.close();
    }
}
