//! What strace(1) prints, as calls. It is told to write every string in hexadecimal (`-xx`), each
//! descriptor with its path (`-y`), and each line with its process (`-f`).

use std::collections::HashMap;

/// A call that has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The thread that made it.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// What it was given.
    pub arguments: Vec<Argument>,
    /// What it returned; `None` for an error.
    pub returned: Option<i64>,
    /// Whether strace had it fail.
    pub injected: bool,
    /// The moment it began: a position in the trace.
    pub begun: usize,
    /// The moment it had returned.
    pub ended: usize,
}

/// One thing that a call was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// Bytes, all of them.
    Bytes(Vec<u8>),
    /// A descriptor, or `AT_FDCWD`, by the path that it had.
    Descriptor(Vec<u8>),
    /// Anything else, as it is printed.
    Word(String),
}

/// What happened in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A call has returned.
    Call(Call),
    /// A thread has ended, at this moment.
    Ended {
        /// The thread.
        tid: u32,
        /// The moment.
        at: usize,
    },
}

/// Reads a whole trace, in the order in which calls returned.
///
/// # Errors
/// Names the first line that it cannot make sense of.
pub fn read(text: &str) -> Result<Vec<Line>, String> {
    let mut begun: HashMap<u32, (usize, String)> = HashMap::new();
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let nonsense = || format!("line {}: {line}", at + 1);
        let (tid, rest) = line.split_once(' ').ok_or_else(nonsense)?;
        let tid: u32 = tid.parse().map_err(|_| nonsense())?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") {
            lines.push(Line::Ended { tid, at });
        } else if rest.starts_with("---") || rest.ends_with("<detached ...>") {
            // A signal; or a thread that the end of its process took out of a call.
        } else if let Some(head) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(tid, (at, head.trim_end().to_owned()));
        } else if let Some(tail) = resumed(rest) {
            let (from, head) = begun.remove(&tid).ok_or_else(nonsense)?;
            let whole = format!("{head}{tail}");
            lines.push(Line::Call(
                call(tid, &whole, from, at).ok_or_else(nonsense)?,
            ));
        } else {
            lines.push(Line::Call(call(tid, rest, at, at).ok_or_else(nonsense)?));
        }
    }
    Ok(lines)
}

/// What follows `<... name resumed>`.
fn resumed(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix("<... ")?;
    rest.split_once(" resumed>").map(|(_, tail)| tail)
}

fn call(tid: u32, text: &str, begun: usize, ended: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    // Strings are in hexadecimal, so this cannot stand in one.
    let (inside, result) = rest.rsplit_once(" = ")?;
    let inside = inside.trim_end().strip_suffix(')')?;
    let number = result.split([' ', '<']).next()?;
    let returned = match number.strip_prefix("0x") {
        Some(address) => i64::from_str_radix(address, 16).ok(),
        None => number.parse().ok().filter(|number| *number >= 0),
    };
    Some(Call {
        tid,
        name: name.to_owned(),
        arguments: split(inside)
            .into_iter()
            .map(argument)
            .collect::<Option<_>>()?,
        returned,
        injected: result.ends_with("(INJECTED)"),
        begun,
        ended,
    })
}

/// Splits at the commas that stand in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_i32, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'[' | b'{' | b'(' => depth += 1,
            b'>' | b']' | b'}' | b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        parts.push(text[from..].trim());
    }
    parts
}

/// `None` for a string that strace has cut off.
fn argument(text: &str) -> Option<Argument> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted
            .strip_suffix('"')
            .and_then(unescape)
            .map(Argument::Bytes);
    }
    let (number, path) = match text.split_once('<') {
        Some((number, rest)) => (number, rest),
        None => return Some(Argument::Word(text.to_owned())),
    };
    if number != "AT_FDCWD" && number.parse::<u32>().is_err() {
        return Some(Argument::Word(text.to_owned()));
    }
    let path = path.split(['>', '<']).next()?;
    match unescape(path) {
        Some(path) => Some(Argument::Descriptor(path)),
        None => Some(Argument::Word(text.to_owned())),
    }
}

/// The bytes of `\x2f\x74`.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut codes = text.split("\\x");
    if !codes.next()?.is_empty() {
        return None;
    }
    codes
        .map(|code| u8::from_str_radix(code, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Argument {
        Argument::Word(text.to_owned())
    }

    #[test]
    fn a_call_has_its_arguments_and_its_result() {
        let text = r#"7  pwrite64(5<\x2f\x61>, "\x68\x00", 2, 4096) = 2"#;
        let expected = Call {
            tid: 7,
            name: "pwrite64".to_owned(),
            arguments: vec![
                Argument::Descriptor(b"/a".to_vec()),
                Argument::Bytes(b"h\0".to_vec()),
                word("2"),
                word("4096"),
            ],
            returned: Some(2),
            injected: false,
            begun: 0,
            ended: 0,
        };
        assert_eq!(read(text), Ok(vec![Line::Call(expected)]));
    }

    #[test]
    fn a_call_that_others_interrupt_lasts_from_its_beginning_to_its_end() {
        let text = concat!(
            "7  fsync(5<\\x2f\\x61> <unfinished ...>\n",
            "8  mkdir(\"\\x2f\\x62\", 0700) = -1 ENOSPC (No space left on device) (INJECTED)\n",
            "7  <... fsync resumed>)             = 0\n",
            "8  --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---\n",
            "8  +++ exited with 0 +++\n",
        );
        let lines = read(text).unwrap();
        assert!(matches!(&lines[0], Line::Call(it) if it.injected && it.returned.is_none()));
        assert!(matches!(&lines[1], Line::Call(it) if (it.begun, it.ended) == (0, 2)));
        assert_eq!(lines[2], Line::Ended { tid: 8, at: 4 });
    }

    #[test]
    fn what_cannot_be_understood_is_an_error() {
        for text in [
            "pwrite64(5) = 2",
            "7  write(5<\\x2f>, \"\\x68\"..., 2) = 2",
            "7  <... fsync resumed>) = 0",
            "7  fsync(5",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_descriptor_of_something_else_is_a_word_or_has_its_name() {
        let text = "7  dup3(4<\\x2f\\x6e<\\x63 1:3>>, 2, O_CLOEXEC) = 2<\\x2f\\x6e>";
        let Line::Call(call) = read(text).unwrap().remove(0) else {
            panic!("a call");
        };
        assert_eq!(call.arguments[0], Argument::Descriptor(b"/n".to_vec()));
        assert_eq!(call.returned, Some(2));
    }
}
