//! A connection that was greeted: requests go out, messages come in. One thread uses it.
//! `transfer` moves the bytes, `xioflow_rpc::codec` knows what they mean.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use xioflow_rpc::codec::{
    EncodeError, LineBuffer, LineError, MessageError, decode_message, decode_result, encode,
};
use xioflow_rpc::envelope::{Id, Message, Request};
use xioflow_rpc::kernel::Welcome;
use xioflow_rpc::method::Method;
use xioflow_rpc::refusal::Fault;
use xioflow_rpc::{DESCRIPTORS_MAX, REPLY_MAX_BYTES, REQUEST_MAX_BYTES};

use crate::transfer::{self, Attempt};

/// How much is received at once.
const READ_LEN: usize = 64 * 1024;

/// Messages that may arrive while [`Connection::call`] waits for its answer. An arbiter answers at once,
/// so more than a few come only on a connection that output streams through, and that one should not
/// be called on.
const SET_ASIDE_MAX: usize = 1024;

/// A connection to the arbiter of a domain. It ends when this is dropped.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    received: LineBuffer,
    /// Whether the other end has closed.
    is_over: bool,
    /// What came while a call waited for something else.
    set_aside: VecDeque<Message>,
    last_id: i64,
    pub(crate) welcome: Welcome,
}

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The arbiter has closed it: it ended, or it has closed connections that it does not like.
    #[error("the arbiter is gone")]
    Gone,
    /// It said nothing for as long as it was waited for.
    #[error("the arbiter does not answer")]
    Silent,
    /// What came is no line.
    #[error("what the arbiter sent is no line")]
    Line(#[from] LineError),
    /// What came is no message.
    #[error("what the arbiter sent is no message")]
    Message(#[from] MessageError),
    /// The request cannot be sent; the connection can still be used.
    #[error("the request cannot be sent")]
    Encode(#[from] EncodeError),
    /// The request has too many descriptors; the connection can still be used.
    #[error("{count} descriptors cannot travel with one request, {DESCRIPTORS_MAX} at most")]
    Descriptors {
        /// How many there were.
        count: usize,
    },
    /// Too much came before the answer to a call.
    #[error("{SET_ASIDE_MAX} messages came before the answer")]
    Flooded,
    /// A system call failed.
    #[error("cannot {doing} the arbiter")]
    System {
        /// What was being done, as a verb.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The arbiter refused it.
    #[error("{0}")]
    Refused(Fault),
    /// The connection did not carry it. Whether the arbiter has done something is not known.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// What is there at this moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// A message.
    Message(Message),
    /// No whole message yet.
    Nothing,
    /// The arbiter is gone, and nothing more comes.
    Gone,
}

impl Connection {
    /// A connection that was not greeted yet.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            received: LineBuffer::new(REPLY_MAX_BYTES),
            is_over: false,
            set_aside: VecDeque::new(),
            last_id: 0,
            welcome: Welcome {
                protocol: 0,
                release: String::new(),
                pid: 0,
                started_at: String::new(),
            },
        }
    }

    /// What the arbiter said of itself.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// An id that no request of this connection had.
    pub fn next_id(&mut self) -> Id {
        self.last_id += 1;
        Id::Number(self.last_id)
    }

    /// Sends a request; the descriptors travel with its first byte. They stay open here. Returns when
    /// the kernel has taken all of it.
    ///
    /// # Errors
    /// [`ConnectionError::Encode`] and [`ConnectionError::Descriptors`] before anything is sent;
    /// [`ConnectionError::Gone`], [`ConnectionError::System`].
    pub fn send<P: Serialize>(
        &mut self,
        request: &Request<P>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ConnectionError> {
        let count = descriptors.len();
        if count > DESCRIPTORS_MAX {
            return Err(ConnectionError::Descriptors { count });
        }
        let line = encode(request, REQUEST_MAX_BYTES)?;
        transfer::send_all(&self.socket, &line, descriptors).map_err(|error| match error {
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => ConnectionError::Gone,
            error => system("write to", error),
        })
    }

    /// Waits for the next message. `None` says that the arbiter is gone.
    ///
    /// # Errors
    /// [`ConnectionError::Line`], also for an end inside a line; [`ConnectionError::Message`];
    /// [`ConnectionError::System`].
    pub fn receive(&mut self) -> Result<Option<Message>, ConnectionError> {
        if let Some(message) = self.set_aside.pop_front() {
            return Ok(Some(message));
        }
        match self.take(Wait::Ever)? {
            Received::Message(message) => Ok(Some(message)),
            Received::Nothing | Received::Gone => Ok(None),
        }
    }

    /// Takes the next message if it is there, and does not wait.
    ///
    /// Messages may be here already that the descriptor of this connection ([`AsFd`]) does not show
    /// any more. So call this until there is nothing, and only then wait for the descriptor.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn try_receive(&mut self) -> Result<Received, ConnectionError> {
        match self.set_aside.pop_front() {
            Some(message) => Ok(Received::Message(message)),
            None => self.take(Wait::No),
        }
    }

    /// Sends a request and waits for its answer. What comes meanwhile and is something else, the next
    /// [`Self::receive`] gives.
    ///
    /// # Errors
    /// [`CallError::Refused`] by the arbiter; [`CallError::Connection`] if there is no answer.
    pub fn call<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: Method,
        params: P,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<R, CallError> {
        self.ask(method, params, descriptors, Wait::Ever)
    }

    /// As [`Self::call`], for at most so long.
    pub(crate) fn call_within<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: Method,
        params: P,
        patience: Duration,
    ) -> Result<R, CallError> {
        self.ask(method, params, &[], Wait::until(patience))
    }

    fn ask<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: Method,
        params: P,
        descriptors: &[BorrowedFd<'_>],
        wait: Wait,
    ) -> Result<R, CallError> {
        let id = self.next_id();
        match self.send(&Request::new(id.clone(), method, params), descriptors) {
            // Whoever has closed already may have said why before, and without that the answer is the same.
            Ok(()) | Err(ConnectionError::Gone) => self.answer(&id, wait),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the arbiter has closed the connection; what it says meanwhile does not matter.
    ///
    /// # Errors
    /// [`ConnectionError::Silent`] if it has not when `patience` is over.
    pub(crate) fn wait_end(&mut self, patience: Duration) -> Result<(), ConnectionError> {
        let until = Wait::until(patience);
        loop {
            match self.take(until) {
                Ok(Received::Message(_)) => {}
                Ok(Received::Gone) | Err(ConnectionError::Line(LineError::Unfinished { .. })) => {
                    return Ok(());
                }
                Ok(Received::Nothing) => return Err(ConnectionError::Silent),
                Err(error) => return Err(error),
            }
        }
    }

    fn answer<R: DeserializeOwned>(&mut self, asked: &Id, wait: Wait) -> Result<R, CallError> {
        loop {
            let message = match self.take(wait)? {
                Received::Message(message) => message,
                Received::Nothing => return Err(ConnectionError::Silent.into()),
                Received::Gone => return Err(ConnectionError::Gone.into()),
            };
            match message {
                Message::Answer { id, result, .. } if id == *asked => {
                    let read = decode_result(result).map_err(ConnectionError::from);
                    return Ok(read?);
                }
                // Without an id it is about a line that could not be read. That was ours.
                Message::Refusal { id, error, .. } if id.as_ref().is_none_or(|id| id == asked) => {
                    return Err(CallError::Refused(error));
                }
                _ if self.set_aside.len() == SET_ASIDE_MAX => {
                    return Err(ConnectionError::Flooded.into());
                }
                other => self.set_aside.push_back(other),
            }
        }
    }

    /// The next message of the socket, of which whole ones may be here already.
    fn take(&mut self, wait: Wait) -> Result<Received, ConnectionError> {
        loop {
            if let Some(line) = self.received.next_line()? {
                return Ok(Received::Message(decode_message(&line)?));
            }
            if self.is_over {
                self.received.finish()?;
                return Ok(Received::Gone);
            }
            if !self.read_some(wait)? {
                return Ok(Received::Nothing);
            }
        }
    }

    /// Reads once; false when nothing came in time.
    fn read_some(&mut self, wait: Wait) -> Result<bool, ConnectionError> {
        let failed = |error| system("read from", error);
        if let Wait::Until(deadline) = wait
            && !transfer::wait_readable(self.socket.as_fd(), deadline).map_err(failed)?
        {
            return Ok(false);
        }
        let mut buffer = [0; READ_LEN];
        let may_wait = matches!(wait, Wait::Ever);
        match transfer::receive(&self.socket, &mut buffer, may_wait).map_err(failed)? {
            Attempt::Bytes(count) => self.received.push(&buffer[..count]),
            Attempt::End => self.is_over = true,
            Attempt::Nothing => return Ok(false),
        }
        Ok(true)
    }
}

impl AsFd for Connection {
    /// The socket, to be waited for. It is a blocking one.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// How long to wait for the next message.
#[derive(Debug, Clone, Copy)]
enum Wait {
    No,
    Until(Instant),
    Ever,
}

impl Wait {
    /// A time that no clock can say is for ever.
    fn until(patience: Duration) -> Self {
        Instant::now()
            .checked_add(patience)
            .map_or(Self::Ever, Self::Until)
    }
}

fn system(doing: &'static str, error: Errno) -> ConnectionError {
    ConnectionError::System {
        doing,
        source: error.into(),
    }
}
