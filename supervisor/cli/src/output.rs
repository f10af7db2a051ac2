//! The two streams of this program. Nothing else writes to them.

use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;

use crate::exit::Code;
use crate::failure::Failure;

/// Writes everything, also to a descriptor that somebody else has made non-blocking. It is shared
/// with the caller's other programs, so it is never made anything else.
pub(crate) fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut polled = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
                poll(&mut polled, None).ok();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Standard output, of which a write is whole or an error.
struct Out;

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_all(io::stdout().as_fd(), bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What came of printing. A reader that has gone away (`| head`) is no error: it has what it
/// wanted. A full disk is one, since what stands there looks like the whole.
pub(crate) fn conclude(printed: io::Result<()>) -> Result<(), Failure> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let act = "what was to be printed could not be written whole";
            Err(Failure::of_act("output", Code::Internal, act, &error))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON document.
///
/// # Errors
/// Those of [`conclude`].
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    conclude(write_json(document))
}

fn write_json(document: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(Out);
    serde_json::to_writer_pretty(&mut out, document)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints one JSON document on one line.
pub(crate) fn print_json_line(document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    Out.write_all(&line)
}

/// Prints one line for people, like [`print()`].
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    Out.write_all(format!("{text}\n").as_bytes())
}

/// Prints text for people on standard output; control characters in it are escaped by the caller.
///
/// # Errors
/// Those of [`conclude`].
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    conclude(Out.write_all(text.as_bytes()))
}

/// Says something of ours on standard error.
pub(crate) fn complain(text: &str) {
    let style = anstyle::Style::new().bold();
    let mut out = anstream::stderr().lock();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    writeln!(out, "{style}xioflow:{style:#} {}", printable(first)).ok();
    for line in lines {
        writeln!(out, "{}", printable(line)).ok();
    }
}

/// Text of foreign origin (names of programs, ids) without what would move a terminal's cursor, or show
/// what follows in another order.
pub(crate) fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || reorders(letter) {
            clean.extend(letter.escape_default());
        } else {
            clean.push(letter);
        }
    }
    clean
}

/// Whether it is one of the marks, embeddings, overrides and isolates of the bidirectional algorithm
/// (Unicode Standard Annex 9).
fn reorders(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::io::Read;

    #[test]
    fn a_slow_reader_gets_all_through_a_pipe_that_does_not_block() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let flags = rustix::fs::fcntl_getfl(&reader).unwrap();
        rustix::fs::fcntl_setfl(&reader, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        let bytes = vec![b'x'; 1_000_000];
        let read = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut read = Vec::new();
                std::fs::File::from(reader).read_to_end(&mut read).unwrap();
                read
            });
            write_all(writer.as_fd(), &bytes).unwrap();
            drop(writer);
            reading.join().unwrap()
        });
        assert_eq!(read.len(), bytes.len());
    }

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("a\x1b[31mb\nc"), "a\\u{1b}[31mb\\nc");
        assert_eq!(printable("ä😀"), "ä😀");
        assert_eq!(printable("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
        assert_eq!(printable("שלום"), "שלום", "such letters are no formatting");
    }
}
