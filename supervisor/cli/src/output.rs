//! The two streams of this program. Nothing else writes to them.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Code;
use crate::failure::Failure;

/// Prints one JSON document.
///
/// # Errors
/// A document that could not be written whole. A reader that has gone away (`| head`) is no
/// error: it has what it wanted.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    match write_json(document) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::of("output", Code::Internal, &error)
                .hint("the result document could not be written to standard output"))
        }
        _ => Ok(()),
    }
}

fn write_json(document: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints one JSON document on one line.
pub(crate) fn print_json_line(document: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, document)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints text for people on standard output; control characters in it are escaped by the caller.
pub(crate) fn print(text: &str) {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .ok();
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

/// Text of foreign origin (names of programs, ids) without what would move a terminal's cursor.
pub(crate) fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            clean.extend(letter.escape_default());
        } else {
            clean.push(letter);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("a\x1b[31mb\nc"), "a\\u{1b}[31mb\\nc");
        assert_eq!(printable("ä😀"), "ä😀");
    }
}
