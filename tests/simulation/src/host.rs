//! The supervisor of a simulated helper: says what belongs next, or what does not; reads, or not; and goes away.

use std::collections::VecDeque;

use xioflow_protocol::{
    Containment, Decoder, Descendants, FEATURE_ARMOUR, FEATURE_RECORDED, Hello, Launch,
    PROTOCOL_VERSION, Reply, Request, Rung, StopPlan, encode,
};
use xioflow_sys::{AsFd, Errno, OwnedFd, duplicate_above, recv, send, shutdown_write};

use crate::settings::Settings;

/// The name of the last word's file.
pub(crate) const WORD: &str = "word";

/// A part of what is to be said.
#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    descriptor: Option<OwnedFd>,
    /// What the helper has been told when the last byte has left.
    then: Option<Said>,
}

/// What has been said in whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Hello,
    Launch,
    Release,
    Discard,
    Stop,
    Recorded,
    Other,
}

#[derive(Debug)]
pub(crate) struct Host {
    end: Option<OwnedFd>,
    /// An open file that stands for anything that is handed over.
    blank: OwnedFd,
    holders: OwnedFd,
    decoder: Decoder,
    outbox: VecDeque<Piece>,
    /// What is left of a message that was begun.
    rest: Option<Piece>,
    /// Does not read.
    pub(crate) deaf: bool,
    /// Has said in whole.
    pub(crate) said: Vec<Said>,
    /// Has said something that it may be refused for.
    pub(crate) misspoke: bool,
    settings: Settings,
}

impl Host {
    pub(crate) fn new(end: OwnedFd, blank: OwnedFd, holders: OwnedFd, settings: Settings) -> Self {
        Self {
            end: Some(end),
            blank,
            holders,
            decoder: Decoder::new(),
            outbox: VecDeque::new(),
            rest: None,
            deaf: false,
            said: Vec::new(),
            misspoke: false,
            settings,
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn has_said(&self, what: Said) -> bool {
        self.said.contains(&what)
    }

    pub(crate) fn go(&mut self) {
        self.end = None;
    }

    /// Says nothing more, and goes on to listen.
    pub(crate) fn fall_silent(&mut self) {
        self.misspoke = true;
        if let Some(end) = &self.end {
            let _shut = shutdown_write(end);
        }
    }

    /// Sends what there is room for.
    pub(crate) fn send_on(&mut self) {
        let Some(end) = &self.end else { return };
        while let Some(piece) = self.outbox.front_mut() {
            let descriptor = piece.descriptor.as_ref().map(AsFd::as_fd);
            let Ok(len) = send(end.as_fd(), &piece.bytes, descriptor) else {
                return;
            };
            piece.bytes.drain(..len);
            piece.descriptor = None;
            if piece.bytes.is_empty() {
                self.said.extend(piece.then);
                self.outbox.pop_front();
            }
        }
    }

    /// Takes what the helper has said since; an error is something that is no message.
    pub(crate) fn hear(&mut self) -> Result<Vec<Reply>, String> {
        let mut replies = Vec::new();
        let (Some(end), false) = (&self.end, self.deaf) else {
            return Ok(replies);
        };
        let mut buffer = [0; 4096];
        loop {
            match recv(end.as_fd(), &mut buffer) {
                Ok(received) if received.is_end() => break,
                Ok(received) => self.decoder.push(&buffer[..received.len]),
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(format!("the supervisor's end answers {errno}")),
            }
        }
        while let Some(reply) = self.decoder.next_message().map_err(|it| it.to_string())? {
            replies.push(reply);
        }
        Ok(replies)
    }

    fn push(&mut self, bytes: Vec<u8>, descriptor: Option<OwnedFd>, then: Option<Said>) {
        self.outbox.extend(self.rest.take());
        self.outbox.push_back(Piece {
            bytes,
            descriptor,
            then,
        });
        self.send_on();
    }

    pub(crate) fn say(&mut self, request: &Request) {
        let (bytes, said) = framed(request);
        self.push(bytes, None, Some(said));
    }

    pub(crate) fn say_hello(&mut self, protocol: u32) {
        let mut features = vec![FEATURE_ARMOUR.into()];
        if self.settings.waits_for_record {
            features.push(FEATURE_RECORDED.into());
        }
        self.misspoke |= protocol != PROTOCOL_VERSION;
        self.say(&Request::Hello(Hello {
            protocol,
            release: "simulated".into(),
            identity: None,
            features,
        }));
    }

    /// A launch, with `missing` descriptors too few (or too many, below zero), each beside its own part of the frame.
    pub(crate) fn say_launch(&mut self, missing: i32, cwd: &str) {
        self.misspoke |= missing != 0 || !cwd.starts_with('/');
        let (bytes, said) = framed(&Request::Launch(self.launch(cwd)));
        let others = usize::try_from(3 - missing).unwrap_or(0);
        let mut parts: Vec<_> = bytes.chunks(bytes.len().div_ceil(others + 1)).collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            let blank = self.copy(false);
            self.push(part.to_vec(), blank, None);
        }
        let holders = self.copy(true);
        self.push(last.to_vec(), holders, Some(said));
    }

    fn copy(&self, of_holders: bool) -> Option<OwnedFd> {
        let source = if of_holders {
            &self.holders
        } else {
            &self.blank
        };
        duplicate_above(source.as_fd(), 3).ok()
    }

    /// A descriptor that belongs to nothing, beside a message.
    pub(crate) fn say_with_descriptor(&mut self, request: &Request) {
        self.misspoke = true;
        let (bytes, said) = framed(request);
        let blank = self.copy(false);
        self.push(bytes, blank, Some(said));
    }

    /// The first part of a message; the other comes before whatever is said next.
    pub(crate) fn begin(&mut self, request: &Request, len: usize) {
        let (mut bytes, said) = framed(request);
        let rest = bytes.split_off(len.min(bytes.len() - 1));
        if bytes.is_empty() {
            return self.push(rest, None, Some(said));
        }
        self.push(bytes, None, None);
        self.rest = Some(Piece {
            bytes: rest,
            descriptor: None,
            then: Some(said),
        });
    }

    /// Bytes that are whatever they are.
    pub(crate) fn say_bytes(&mut self, bytes: Vec<u8>) {
        self.misspoke = true;
        self.push(bytes, None, None);
    }

    pub(crate) fn plan(&self) -> StopPlan {
        let rung = |signal| Rung {
            signal,
            wait_ms: u32::from(self.settings.pace) * 4,
        };
        StopPlan {
            rungs: match self.settings.pace % 3 {
                0 => vec![],
                1 => vec![rung(15)],
                _ => vec![rung(2), rung(15)],
            },
            kill_ms: 2000,
        }
    }

    fn launch(&self, cwd: &str) -> Launch {
        let bytes = |text: &str| text.as_bytes().to_vec().into();
        Launch {
            program: bytes("/bin/true"),
            argv: vec![bytes("true")],
            env: vec![],
            cwd: bytes(cwd),
            umask: None,
            limits: vec![],
            no_new_privs: true,
            oom_score_adj: 0,
            descendants: match self.settings.descendants_wait {
                true => Descendants::Wait,
                false => Descendants::Stop(self.plan()),
            },
            settle_ms: 20,
            on_host_loss: self.plan(),
            last_word_name: bytes(WORD),
            operation_id: "op".into(),
            stdin_closed: false,
            nice: None,
            group: false,
            containment: match self.settings.enclosed {
                true => Containment::PidNamespace,
                false => Containment::Subreaper,
            },
        }
    }
}

fn framed(request: &Request) -> (Vec<u8>, Said) {
    let mut bytes = Vec::new();
    encode(request, &mut bytes).expect("a short message");
    let said = match request {
        Request::Hello(_) => Said::Hello,
        Request::Launch(_) => Said::Launch,
        Request::Release => Said::Release,
        Request::Discard => Said::Discard,
        Request::Stop(_) => Said::Stop,
        Request::Recorded => Said::Recorded,
        Request::Suspend | Request::Resume => Said::Other,
    };
    (bytes, said)
}
