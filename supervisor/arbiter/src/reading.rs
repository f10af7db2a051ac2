//! What the loop does with what clients say: it takes whole lines in turn, so that nobody waits behind
//! somebody who says much. `dispatch` carries them out.

use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::EventFlags;

use crate::connection::{Phase, Read, Token};
use crate::dispatch::ReadLine;
use crate::limits::{
    DESCRIPTORS_WAITING_MAX, LINE_HERE_MAX_BYTES, LINES_PER_TURN, LONG_LINE_PATIENCE,
    UNFINISHED_LINES_MAX_BYTES,
};
use crate::refusal;
use crate::server::Server;

impl Server {
    /// Does what a connection is ready for.
    pub(crate) fn serve_connection(&mut self, token: Token, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        if flags.contains(EventFlags::OUT) {
            connection.client.outgoing.flush();
            if self.events.has(token) {
                self.events.nudge();
            }
        }
        let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if connection.interest.read {
            self.read(token, gone);
        } else if gone {
            // Nobody would read what it could still be told.
            return self.close(token);
        }
        self.settle(token);
    }

    fn read(&mut self, token: Token, gone: bool) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        match connection.read(&mut self.buffer) {
            Read::Some => {
                self.turns.push_back(token);
                self.note_unfinished(token);
            }
            // A hang-up without anything left to read.
            Read::Nothing if gone => self.close(token),
            Read::Nothing => {}
            Read::End if !gone => connection.input_ended = true,
            Read::End | Read::Broken => self.close(token),
            Read::TooManyDescriptors => {
                let message = "more descriptors came than requests have named";
                let max = DESCRIPTORS_WAITING_MAX as u64;
                self.dismiss(token, "descriptors", message, max);
            }
        }
    }

    /// Ends a connection that has gone beyond a bound, once it could read so.
    fn dismiss(&mut self, token: Token, limit: &str, message: &str, max: u64) {
        if let Some(connection) = self.connections.get_mut(&token) {
            let fault = refusal::limit(message, limit, max);
            connection.client.outgoing.refuse(None, fault);
            connection.phase = Phase::Dismissed;
        }
    }

    /// Looks at a bounded number of lines of each connection that has some.
    pub(crate) fn take_turns(&mut self) {
        for _ in 0..self.turns.len() {
            let Some(token) = self.turns.pop_front() else {
                return;
            };
            for _ in 0..LINES_PER_TURN {
                if !self.take_line(token) {
                    break;
                }
            }
            self.settle(token);
        }
    }

    /// Looks at one line; false if there is none, or it has to wait.
    fn take_line(&mut self, token: Token) -> bool {
        let Some(connection) = self.connections.get_mut(&token) else {
            return false;
        };
        if !connection.has_lines || !connection.may_ask() {
            return false;
        }
        match connection.next_line() {
            Ok(Some(line)) if line.len() <= LINE_HERE_MAX_BYTES => {
                self.take_request(token, ReadLine::of(&line));
            }
            Ok(Some(line)) => self.read_beside(token, line),
            Ok(None) => return false,
            Err(error) => {
                let max = xioflow_rpc::REQUEST_MAX_BYTES as u64;
                self.dismiss(token, "requestBytes", &error.to_string(), max);
                return false;
            }
        }
        true
    }

    /// Has a long line looked at beside the loop. What comes after it waits, so the order stays.
    fn read_beside(&mut self, token: Token, line: Vec<u8>) {
        let shared = Arc::clone(&self.shared);
        let asked = self.ask(token, move |_| {
            shared.has_read(token, ReadLine::of(&line));
        });
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        match asked {
            Ok(()) => connection.reading_line = true,
            Err(fault) => {
                connection.client.outgoing.refuse(None, fault);
                connection.phase = Phase::Dismissed;
            }
        }
    }

    /// Carries out the lines that were looked at beside the loop.
    pub(crate) fn take_read_lines(&mut self) {
        for (token, line) in self.shared.take_read() {
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.reading_line = false;
                self.take_request(token, line);
                self.settle(token);
            }
        }
    }

    /// Counts what an unfinished line takes, and begins to wait for its end where that is much.
    fn note_unfinished(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let len = connection.unfinished_len();
        self.unfinished_bytes = self.unfinished_bytes + len - connection.unfinished_bytes;
        connection.unfinished_bytes = len;
        let is_long = len > LINE_HERE_MAX_BYTES;
        if is_long && self.unfinished_bytes > UNFINISHED_LINES_MAX_BYTES {
            let message = "unfinished requests of all clients take as much memory as they may";
            let max = UNFINISHED_LINES_MAX_BYTES as u64;
            return self.dismiss(token, "unfinishedBytes", message, max);
        }
        if !is_long {
            connection.long_until = None;
        } else if connection.long_until.is_none() {
            let until = Instant::now() + LONG_LINE_PATIENCE;
            connection.long_until = Some(until);
            self.long_lines.push_back((until, token));
        }
    }

    /// Ends the connections whose long lines have not come to their end in time.
    pub(crate) fn end_long_lines(&mut self, now: Instant) {
        while let Some((until, token)) = self.long_lines.front().copied() {
            let waits = self
                .connections
                .get(&token)
                .is_some_and(|it| it.long_until == Some(until));
            if waits && until > now {
                break;
            }
            self.long_lines.pop_front();
            if waits {
                let message = "a long request has not come to its end in time";
                let max = LONG_LINE_PATIENCE.as_secs();
                self.dismiss(token, "requestSeconds", message, max);
                self.settle(token);
            }
        }
    }
}
