//! What is said between helper and child before the command runs.
//!
//! One pair of record sockets, close-on-exec on both sides. The child says that it is ready, or
//! which step failed; the helper says that the gate is open. The end of the socket means: for the
//! child, that the gate will stay closed; for the helper, that the program was executed (or
//! that the child died, which it tells apart by the system's own mark).

use core::fmt::{self, Write};

use xioflow_protocol::{LaunchFailure, Stage};
use xioflow_sys::{AsFd, Errno, OwnedFd, SocketKind, recv, recv_waiting, send, socketpair};

/// Longest subject of a failure: a path and some words around it.
const SUBJECT_LEN_MAX: usize = 4096 + 512;
const RECORD_LEN_MAX: usize = 5 + SUBJECT_LEN_MAX;

/// The child says that it waits.
pub const READY: &[u8] = b"R";
/// The helper says that it may go on.
pub const OPEN: &[u8] = b"G";

/// The stages in the order of their numbers in a record.
const STAGES: [Stage; 12] = [
    Stage::Fork,
    Stage::Session,
    Stage::Signals,
    Stage::Limits,
    Stage::Descriptors,
    Stage::Cwd,
    Stage::Privileges,
    Stage::Confinement,
    Stage::Gate,
    Stage::Exec,
    Stage::Namespace,
    Stage::Group,
];

/// The two ends of a gate.
pub(crate) fn gate() -> Result<(Keeper, Door), Errno> {
    let (keeper, door) = socketpair(SocketKind::Records)?;
    Ok((Keeper::new(keeper), Door(door)))
}

/// The helper's end. Dropping it closes the gate for good.
#[derive(Debug)]
pub struct Keeper(OwnedFd);

/// What the child has said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// All is prepared; it waits.
    Ready,
    /// A step failed; it will exit.
    Failed(LaunchFailure),
    /// Its end is closed.
    End,
}

impl AsFd for Keeper {
    fn as_fd(&self) -> xioflow_sys::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Keeper {
    /// The helper's end of a pair of record sockets.
    #[must_use]
    pub const fn new(end: OwnedFd) -> Self {
        Self(end)
    }

    /// Takes what the child has said; `None` when it has said nothing yet.
    pub(crate) fn listen(&self) -> Option<Word> {
        let mut record = [0; RECORD_LEN_MAX];
        match recv(self.as_fd(), &mut record) {
            Ok(received) => Some(parse(&record[..received.len])),
            Err(Errno::EAGAIN | Errno::EINTR) => None,
            // ECONNRESET and its like: the other end is gone.
            Err(_) => Some(Word::End),
        }
    }

    /// Opens the gate. A child that is gone is found out by its end.
    pub(crate) fn open(&self) {
        let _sent = send(self.as_fd(), OPEN, None);
    }
}

fn parse(record: &[u8]) -> Word {
    if record == READY {
        return Word::Ready;
    }
    let Some(([stage, errno @ ..], subject)) = record.split_first_chunk::<5>() else {
        return Word::End;
    };
    let stage = STAGES
        .get(usize::from(*stage))
        .copied()
        .unwrap_or(Stage::Gate);
    let errno = i32::from_le_bytes(*errno);
    Word::Failed(LaunchFailure {
        stage,
        errno,
        subject: subject.to_vec().into(),
    })
}

/// The child's end.
#[derive(Debug)]
pub(crate) struct Door(OwnedFd);

impl Door {
    /// Says that all is prepared, and waits. Comes back `true` when the gate is open.
    pub(crate) fn wait(&self) -> bool {
        let mut answer = [0; 8];
        if send(self.0.as_fd(), READY, None).is_err() {
            return false;
        }
        loop {
            match recv_waiting(self.0.as_fd(), &mut answer) {
                Err(Errno::EINTR) => {}
                Ok(received) => return &answer[..received.len] == OPEN,
                Err(_) => return false,
            }
        }
    }

    /// Says which step failed, and what it was about.
    pub(crate) fn fail(&self, failure: Failure, subject: &Subject) {
        let mut record = [0; RECORD_LEN_MAX];
        let stage = STAGES
            .iter()
            .position(|&stage| stage == failure.stage)
            .unwrap_or(0);
        record[0] = u8::try_from(stage).unwrap_or(0);
        record[1..5].copy_from_slice(&failure.errno.raw().to_le_bytes());
        let subject = subject.as_bytes();
        record[5..5 + subject.len()].copy_from_slice(subject);
        // Without a reader there is nobody to tell, and the child exits either way.
        let _sent = send(self.0.as_fd(), &record[..5 + subject.len()], None);
    }
}

/// A step of the child that failed. What it was about is in the [`Subject`] at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Which step.
    pub(crate) stage: Stage,
    /// Why.
    pub(crate) errno: Errno,
}

impl Failure {
    /// Names the step that an error belongs to.
    pub(crate) fn of(stage: Stage) -> impl FnOnce(Errno) -> Self {
        move |errno| Self { stage, errno }
    }
}

/// Words about a failure, cut at a length that no path reaches. Needs no memory from a heap.
pub(crate) struct Subject {
    bytes: [u8; SUBJECT_LEN_MAX],
    len: usize,
}

impl Subject {
    /// No words.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; SUBJECT_LEN_MAX],
            len: 0,
        }
    }

    /// Says these bytes instead of what was said.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        self.len = 0;
        self.push(bytes);
    }

    /// Adds bytes, as many as there is room for.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = &mut self.bytes[self.len..];
        let taken = bytes.len().min(room.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
    }

    /// The words.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Subject {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloc::string::String::from_utf8_lossy(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_arrives_as_it_was_said() {
        let (keeper, door) = gate().expect("a pair");
        assert_eq!(keeper.listen(), None);
        let mut subject = Subject::new();
        subject.set(b"/some/path");
        for stage in STAGES {
            door.fail(
                Failure {
                    stage,
                    errno: Errno::EACCES,
                },
                &subject,
            );
            let expected = LaunchFailure {
                stage,
                errno: Errno::EACCES.raw(),
                subject: b"/some/path".to_vec().into(),
            };
            assert_eq!(keeper.listen(), Some(Word::Failed(expected)));
        }
        drop(door);
        assert_eq!(keeper.listen(), Some(Word::End));
    }

    #[test]
    fn only_the_open_byte_opens_the_gate() {
        for (said, opens) in [(OPEN, true), (b"x", false), (b"GG", false)] {
            let (keeper, door) = gate().expect("a pair");
            send(keeper.as_fd(), said, None).expect("sent");
            assert_eq!(door.wait(), opens, "{said:?}");
            assert_eq!(keeper.listen(), Some(Word::Ready));
        }
        let (keeper, door) = gate().expect("a pair");
        drop(keeper);
        assert!(!door.wait(), "a closed gate lets nobody through");
    }

    #[test]
    fn a_subject_that_is_too_long_is_cut() {
        let mut subject = Subject::new();
        for _ in 0..SUBJECT_LEN_MAX {
            subject.push(b"abc");
        }
        assert_eq!(subject.as_bytes().len(), SUBJECT_LEN_MAX);
        let (keeper, door) = gate().expect("a pair");
        door.fail(
            Failure {
                stage: Stage::Exec,
                errno: Errno::ENOENT,
            },
            &subject,
        );
        assert!(
            matches!(keeper.listen(), Some(Word::Failed(f)) if f.subject.len() == SUBJECT_LEN_MAX)
        );
    }
}
