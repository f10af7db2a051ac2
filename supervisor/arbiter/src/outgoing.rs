//! What waits to be read by one client: whole lines, within a bound. Any thread may add some; what the
//! socket takes goes out at once, the loop sends the rest.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use serde::Serialize;
use xioflow_rpc::REPLY_MAX_BYTES;
use xioflow_rpc::codec::encode;
use xioflow_rpc::envelope::{Id, Message};
use xioflow_rpc::method::Notice;
use xioflow_rpc::refusal::Fault;

use crate::bell::Bell;
use crate::connection::Token;
use crate::limits::{OUTGOING_FULL_BYTES, OUTGOING_MAX_BYTES};
use crate::refusal;

/// The sending side of one connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    token: Token,
    bell: Arc<Bell>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None once the connection is over, whoever still has messages for it.
    socket: Option<Arc<OwnedFd>>,
    lines: VecDeque<Vec<u8>>,
    /// How much of the first line is sent.
    sent: usize,
    waiting_bytes: usize,
    /// Something that may not be left out did not fit, or the socket is broken.
    failed: bool,
}

impl Outgoing {
    pub(crate) fn new(token: Token, socket: Arc<OwnedFd>, bell: Arc<Bell>) -> Self {
        let state = State {
            socket: Some(socket),
            lines: VecDeque::new(),
            sent: 0,
            waiting_bytes: 0,
            failed: false,
        };
        Self {
            token,
            bell,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Lines are pushed and popped whole; `sent` is changed together with the first of them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose it is.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Answers a request.
    pub(crate) fn answer(&self, id: Id, result: impl Serialize) {
        match encode(&Message::answer(id.clone(), result), REPLY_MAX_BYTES) {
            Ok(line) => self.tell(line),
            Err(error) => self.refuse(Some(id), refusal::of_reply(&error)),
        }
    }

    /// Says why a request is not carried out.
    pub(crate) fn refuse(&self, id: Option<Id>, fault: Fault) {
        match encode(&Message::<()>::refusal(id.clone(), fault), REPLY_MAX_BYTES) {
            Ok(line) => self.tell(line),
            // A fault repeats parts of a request, which may be as long as a line.
            Err(error) => {
                let fault = refusal::of_reply(&error);
                let line = encode(&Message::<()>::refusal(id, fault), REPLY_MAX_BYTES);
                line.map_or_else(|_| self.fail(), |line| self.tell(line));
            }
        }
    }

    /// Tells news that must not be missed; false if it is longer than any message can be.
    pub(crate) fn notify(&self, notice: Notice, news: impl Serialize) -> bool {
        let line = encode(&Message::notice(notice, news), REPLY_MAX_BYTES);
        line.map(|line| self.tell(line)).is_ok()
    }

    /// Tells news that can be left out: false if there is no room for it now.
    pub(crate) fn offer(&self, notice: Notice, news: impl Serialize) -> bool {
        let Ok(line) = encode(&Message::notice(notice, news), REPLY_MAX_BYTES) else {
            return false;
        };
        let mut state = self.lock();
        if state.waiting_bytes + line.len() > OUTGOING_FULL_BYTES {
            return false;
        }
        self.add(&mut state, line);
        true
    }

    fn tell(&self, line: Vec<u8>) {
        let mut state = self.lock();
        if state.waiting_bytes + line.len() > OUTGOING_MAX_BYTES {
            state.failed = true;
            self.bell.ring_for(self.token);
            return;
        }
        self.add(&mut state, line);
    }

    fn add(&self, state: &mut State, line: Vec<u8>) {
        if state.socket.is_none() || state.failed {
            return;
        }
        state.waiting_bytes += line.len();
        state.lines.push_back(line);
        // Behind others the loop is at it already.
        if state.lines.len() > 1 {
            return;
        }
        state.flush();
        if state.failed || !state.lines.is_empty() {
            self.bell.ring_for(self.token);
        }
    }

    /// Has the connection closed.
    pub(crate) fn fail(&self) {
        self.lock().failed = true;
        self.bell.ring_for(self.token);
    }

    /// Sends what the socket takes now.
    pub(crate) fn flush(&self) {
        self.lock().flush();
    }

    /// How many bytes wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.lock().waiting_bytes
    }

    /// Whether so much waits that this client gets nothing more that can be left out.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting_bytes() >= OUTGOING_FULL_BYTES
    }

    /// Whether the connection has to be closed.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// Whether the connection is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().socket.is_none()
    }

    /// Drops what waits, and everything that is still to come.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.socket = None;
        state.lines = VecDeque::new();
        state.waiting_bytes = 0;
    }
}

impl State {
    fn flush(&mut self) {
        let Some(socket) = &self.socket else { return };
        while let Some(line) = self.lines.front() {
            let rest = &line[self.sent..];
            match send(socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) if sent == rest.len() => {
                    self.waiting_bytes -= line.len();
                    self.sent = 0;
                    self.lines.pop_front();
                }
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.failed = true;
                    return;
                }
            }
        }
        // One burst must not keep its memory for the rest of the connection.
        self.lines.shrink_to(8);
    }
}
