//! Recognises terminal control sequences (ECMA-48), a character at a time. Pure.

/// A sequence that goes on longer is none: what follows is shown.
const CONTROL_LEN_MAX: usize = 64;
/// Titles, links and images are longer; text behind one that never ends must not vanish for ever.
const STRING_LEN_MAX: usize = 4096;

/// How far a sequence has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sequence {
    /// There is none.
    #[default]
    None,
    /// After its escape character.
    Escape,
    /// A control sequence, with its only parameter so far.
    Control {
        len: usize,
        param: u32,
        is_plain: bool,
    },
    /// A string: a title, a link, a command to the device.
    String { len: usize, escaped: bool },
}

/// What a character means in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It belongs to it.
    Inside,
    /// It ends it.
    Ended(Effect),
    /// It does not belong to it, and the sequence is over.
    Outside,
}

/// What a whole sequence does to the line, as far as that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Colours, titles, everything else.
    None,
    /// The cursor goes to the first column.
    ToFirstColumn,
    /// The line is erased from the cursor on.
    EraseRest,
    /// All of the line is erased.
    EraseLine,
}

impl Sequence {
    /// Takes the next character. Only for a sequence that has begun.
    pub(super) fn step(&mut self, letter: char) -> Step {
        let (next, step) = match *self {
            Self::None => (Self::None, Step::Outside),
            Self::Escape => after_escape(letter),
            Self::Control {
                len,
                param,
                is_plain,
            } => in_control(len, param, is_plain, letter),
            Self::String { len, escaped } => in_string(len, escaped, letter),
        };
        *self = next;
        step
    }
}

fn after_escape(letter: char) -> (Sequence, Step) {
    match letter {
        '[' => {
            let begun = Sequence::Control {
                len: 0,
                param: 0,
                is_plain: true,
            };
            (begun, Step::Inside)
        }
        ']' | 'P' | 'X' | '^' | '_' => {
            let begun = Sequence::String {
                len: 0,
                escaped: false,
            };
            (begun, Step::Inside)
        }
        '\x1b' | ' '..='/' => (Sequence::Escape, Step::Inside),
        '0'..='~' => (Sequence::None, Step::Ended(Effect::None)),
        _ => (Sequence::None, Step::Outside),
    }
}

fn in_control(len: usize, param: u32, is_plain: bool, letter: char) -> (Sequence, Step) {
    let go_on = |param, is_plain| {
        let more = Sequence::Control {
            len: len + 1,
            param,
            is_plain,
        };
        (more, Step::Inside)
    };
    match letter {
        '\x1b' => (Sequence::Escape, Step::Inside),
        '@'..='~' if is_plain => (Sequence::None, Step::Ended(effect(letter, param))),
        '@'..='~' => (Sequence::None, Step::Ended(Effect::None)),
        _ if len >= CONTROL_LEN_MAX => (Sequence::None, Step::Outside),
        '0'..='9' => {
            let digit = u32::from(letter) - u32::from('0');
            go_on(param.saturating_mul(10).saturating_add(digit), is_plain)
        }
        ' '..='?' => go_on(param, false),
        _ => (Sequence::None, Step::Outside),
    }
}

fn effect(last: char, param: u32) -> Effect {
    match (last, param) {
        ('G', 0 | 1) => Effect::ToFirstColumn,
        ('K', 0) => Effect::EraseRest,
        ('K', 2) => Effect::EraseLine,
        _ => Effect::None,
    }
}

fn in_string(len: usize, escaped: bool, letter: char) -> (Sequence, Step) {
    match letter {
        '\\' if escaped => (Sequence::None, Step::Ended(Effect::None)),
        _ if escaped => after_escape(letter),
        '\x07' | '\x18' | '\x1a' => (Sequence::None, Step::Ended(Effect::None)),
        '\n' => (Sequence::None, Step::Outside),
        _ if len >= STRING_LEN_MAX => (Sequence::None, Step::Outside),
        _ => {
            let more = Sequence::String {
                len: len + 1,
                escaped: letter == '\x1b',
            };
            (more, Step::Inside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How the sequence ends, and what of the text is behind it.
    fn end(text: &str) -> (Step, &str) {
        let mut sequence = Sequence::Escape;
        for (at, letter) in text.char_indices() {
            match sequence.step(letter) {
                Step::Inside => {}
                ended @ Step::Ended(_) => return (ended, &text[at + letter.len_utf8()..]),
                Step::Outside => return (Step::Outside, &text[at..]),
            }
        }
        (Step::Inside, "")
    }

    #[test]
    fn each_kind_ends_where_it_should() {
        let plain = Step::Ended(Effect::None);
        assert_eq!(end("[31;1mred"), (plain, "red"));
        assert_eq!(end("[?25lx"), (plain, "x"));
        assert_eq!(end("]0;title\x07x"), (plain, "x"));
        assert_eq!(end("]8;;http://a\x1b\\link"), (plain, "link"));
        assert_eq!(end("(Bx"), (plain, "x"));
        assert_eq!(end("7x"), (plain, "x"));
        assert_eq!(end("\x1b[31mx"), (plain, "x"));
    }

    #[test]
    fn what_moves_in_the_line_is_known() {
        assert_eq!(end("[2K"), (Step::Ended(Effect::EraseLine), ""));
        assert_eq!(end("[K"), (Step::Ended(Effect::EraseRest), ""));
        assert_eq!(end("[0K"), (Step::Ended(Effect::EraseRest), ""));
        assert_eq!(end("[1G"), (Step::Ended(Effect::ToFirstColumn), ""));
        assert_eq!(end("[7G"), (Step::Ended(Effect::None), ""));
        assert_eq!(end("[?2K"), (Step::Ended(Effect::None), ""));
    }

    #[test]
    fn what_is_no_sequence_gives_the_text_back() {
        assert_eq!(end("ä"), (Step::Outside, "ä"));
        assert_eq!(end("[31\nx"), (Step::Outside, "\nx"));
        assert_eq!(end("]never ended\nx"), (Step::Outside, "\nx"));
        let endless = format!("]{}", "x".repeat(2 * STRING_LEN_MAX));
        assert_eq!(end(&endless).0, Step::Outside);
        let digits = format!("[{}", "1".repeat(2 * CONTROL_LEN_MAX));
        assert_eq!(end(&digits).0, Step::Outside);
    }
}
