//! Where lines end, within bounds. `decode` says what they mean.

use std::io;

use memchr::memchr;
use serde::Serialize;

/// Memory that a buffer keeps when it is empty: most lines are shorter than this.
const KEPT_BYTES: usize = 64 * 1024;

/// Received bytes, of which lines are taken as they become complete.
///
/// However the bytes are split, the same lines come out, and then the same error. Take every line
/// before pushing more: then a buffer holds at most one line of the longest kind and one push.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the line begins that comes next.
    start: usize,
    /// Up to where no further end of a line was found.
    searched: usize,
    /// Length of what came after the last end of a line.
    unfinished: usize,
    /// A line was longer than `max_bytes`; nothing after it is kept.
    is_over: bool,
    max_bytes: usize,
}

/// Why no more lines come out of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// A line is longer than it may be. Where the next one begins was not looked for.
    #[error("a line is longer than {max_bytes} bytes")]
    TooLong {
        /// The longest line, its end included.
        max_bytes: usize,
    },
    /// The connection ended inside a line.
    #[error("the connection ended inside a line, after {len} bytes of it")]
    Unfinished {
        /// How much of the line came.
        len: usize,
    },
}

impl LineBuffer {
    /// An empty buffer for lines of at most `max_bytes`, their end included.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            searched: 0,
            unfinished: 0,
            is_over: false,
            max_bytes,
        }
    }

    /// Adds what was received. Of a line that is too long, no more is kept than what it may have.
    pub fn push(&mut self, mut received: &[u8]) {
        while !received.is_empty() && !self.is_over {
            let (piece, is_end) = match memchr(b'\n', received) {
                Some(at) => (&received[..=at], true),
                None => (received, false),
            };
            // Without its end, a line has to leave room for it.
            let room = self.max_bytes.saturating_sub(usize::from(!is_end));
            if self.unfinished + piece.len() > room {
                self.is_over = true;
                return;
            }
            self.append(piece);
            self.unfinished = if is_end {
                0
            } else {
                self.unfinished + piece.len()
            };
            received = &received[piece.len()..];
        }
    }

    /// Takes the next complete line, without its end.
    ///
    /// # Errors
    /// [`LineError::TooLong`], after the lines that came before that one, and then for ever.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        if let Some(at) = memchr(b'\n', &self.bytes[self.searched..]) {
            let end = self.searched + at;
            let line = self.bytes[self.start..end].to_vec();
            self.start = end + 1;
            self.searched = self.start;
            return Ok(Some(line));
        }
        self.tidy();
        if self.is_over {
            let max_bytes = self.max_bytes;
            return Err(LineError::TooLong { max_bytes });
        }
        Ok(None)
    }

    /// Says whether the connection may end here.
    ///
    /// # Errors
    /// [`LineError::Unfinished`] inside a line, [`LineError::TooLong`] after one.
    pub fn finish(&self) -> Result<(), LineError> {
        match (self.is_over, self.unfinished) {
            (true, _) => Err(LineError::TooLong {
                max_bytes: self.max_bytes,
            }),
            (false, 0) => Ok(()),
            (false, len) => Err(LineError::Unfinished { len }),
        }
    }

    /// Grows to twice the size where that is within the bound of a line, else only as far as needed.
    fn append(&mut self, piece: &[u8]) {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            let roomy = (self.bytes.capacity() * 2).min(self.max_bytes);
            self.bytes
                .reserve_exact(needed.max(roomy) - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }

    /// Drops what was taken, and gives memory back that one big line needed.
    fn tidy(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.searched = self.bytes.len();
        if self.is_over {
            self.bytes = Vec::new();
            self.searched = 0;
        } else if self.bytes.len() <= KEPT_BYTES {
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }
}

/// Why a message cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The other side would not take its line.
    #[error("the message is longer than {max_bytes} bytes")]
    TooLong {
        /// The longest line, its end included.
        max_bytes: usize,
    },
    /// It cannot be written as JSON.
    #[error("the message cannot be written as JSON")]
    Json(#[source] serde_json::Error),
}

/// Writes a message as one line of at most `max_bytes`, its end included.
///
/// # Errors
/// [`EncodeError::TooLong`] before more memory is taken than that; [`EncodeError::Json`] for a value
/// that is none in JSON, such as a map whose keys are no text.
pub fn encode(message: &impl Serialize, max_bytes: usize) -> Result<Vec<u8>, EncodeError> {
    let mut line = Bounded {
        bytes: Vec::new(),
        room: max_bytes.saturating_sub(1),
        is_over: false,
    };
    match serde_json::to_writer(&mut line, message) {
        Ok(()) => {}
        Err(_) if line.is_over => return Err(EncodeError::TooLong { max_bytes }),
        Err(error) => return Err(EncodeError::Json(error)),
    }
    line.bytes.push(b'\n');
    Ok(line.bytes)
}

/// Memory that takes no more than it has room for.
struct Bounded {
    bytes: Vec<u8>,
    room: usize,
    is_over: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > self.room {
            self.is_over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that comes out, and the error that follows, if there is one.
    fn all_of(buffer: &mut LineBuffer) -> (Vec<Vec<u8>>, Option<LineError>) {
        let mut lines = Vec::new();
        loop {
            match buffer.next_line() {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => return (lines, None),
                Err(error) => return (lines, Some(error)),
            }
        }
    }

    fn bytes_with_ends() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![1 => Just(b'\n'), 3 => any::<u8>()];
        proptest::collection::vec(byte, 0..200)
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines_and_the_same_error(
            bytes in bytes_with_ends(), cuts in proptest::collection::vec(1_usize..30, 1..40), max in 1_usize..40,
        ) {
            let mut whole = LineBuffer::new(max);
            whole.push(&bytes);
            let (expected, error) = all_of(&mut whole);

            let mut split = LineBuffer::new(max);
            let (mut lines, mut rest, mut last) = (Vec::new(), &bytes[..], None);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, later) = rest.split_at(rest.len().min(*cut));
                rest = later;
                split.push(piece);
                let (more, error) = all_of(&mut split);
                lines.extend(more);
                last = error;
            }
            prop_assert_eq!(&lines, &expected);
            prop_assert_eq!(last, error);
            prop_assert_eq!(split.finish(), whole.finish());
            if error.is_none() {
                lines.push(bytes.rsplit(|byte| *byte == b'\n').next().unwrap().to_vec());
                prop_assert_eq!(lines.join(&b'\n'), bytes);
            }
        }

        #[test]
        fn never_more_memory_than_a_line_and_a_push(
            pieces in proptest::collection::vec(bytes_with_ends(), 0..20), max in 1_usize..300,
        ) {
            let mut buffer = LineBuffer::new(max);
            let mut longest_push = 0;
            for piece in pieces {
                longest_push = longest_push.max(piece.len());
                buffer.push(&piece);
                prop_assert!(buffer.bytes.capacity() <= max + longest_push);
                all_of(&mut buffer);
            }
        }
    }

    #[test]
    fn a_line_may_have_its_bound_and_not_a_byte_more() {
        let mut buffer = LineBuffer::new(4);
        buffer.push(b"abc\nabc");
        assert_eq!(all_of(&mut buffer), (vec![b"abc".to_vec()], None));
        assert_eq!(buffer.finish(), Err(LineError::Unfinished { len: 3 }));
        buffer.push(b"d");
        let too_long = LineError::TooLong { max_bytes: 4 };
        assert_eq!(buffer.next_line(), Err(too_long));
        buffer.push(b"\nabc\n");
        assert_eq!(buffer.next_line(), Err(too_long));
        assert_eq!(buffer.finish(), Err(too_long));
    }

    #[test]
    fn memory_is_given_back_after_a_big_line() {
        let mut buffer = LineBuffer::new(1 << 20);
        let mut line = vec![b'x'; (1 << 20) - 1];
        line.push(b'\n');
        for piece in line.chunks(1000) {
            buffer.push(piece);
            assert!(buffer.bytes.capacity() <= 1 << 20);
        }
        buffer.push(b"half");
        assert_eq!(all_of(&mut buffer).0[0].len(), (1 << 20) - 1);
        assert!(buffer.bytes.capacity() <= KEPT_BYTES);
        assert_eq!(buffer.finish(), Err(LineError::Unfinished { len: 4 }));
    }

    #[test]
    fn a_message_is_one_line_within_its_bound() {
        assert_eq!(encode(&"a\nb", 7).unwrap(), b"\"a\\nb\"\n");
        assert!(matches!(
            encode(&"a\nb", 6),
            Err(EncodeError::TooLong { max_bytes: 6 })
        ));
        let no_json = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(matches!(encode(&no_json, 99), Err(EncodeError::Json(_))));
    }
}
