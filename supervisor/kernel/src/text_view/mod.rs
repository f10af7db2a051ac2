//! Output as a person or a model should read it: no redrawn progress, no terminal control, valid
//! text. What was left out or replaced is counted. Pure; the exact bytes are elsewhere and stay.

mod line;
mod sequence;

use serde::Serialize;

use line::Line;
use sequence::{Sequence, Step};

/// What stands for bytes that are no text.
const REPLACEMENT: &str = "\u{fffd}";

/// Output as text, and how much of it is not there as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextView {
    /// The text.
    pub text: String,
    /// Bytes that a terminal would have drawn over: earlier frames of a line, and the carriage
    /// returns and backspaces between them.
    pub collapsed_bytes: u64,
    /// Bytes that were replaced by a mark, or removed as terminal control.
    pub replaced_bytes: u64,
}

/// Makes text of output.
///
/// - **Redrawn lines** show their last frame. A carriage return, or a control sequence that moves the
///   cursor to the first column, begins another frame; the first visible character of it takes the
///   place of the whole earlier one. A terminal would leave the end of a longer earlier frame in
///   place; here it is gone, because that is what programs that redraw mean. A frame without any
///   character replaces nothing. A backspace removes the character before it. Before a line feed,
///   carriage returns are part of the end of the line. A line longer than 64 KiB is no progress:
///   carriage returns end it.
/// - **Terminal control sequences** are removed. Those that move the cursor to other lines are not
///   carried out.
/// - **Other control characters** but tab and line feed are marked by their pictures (`␀` for NUL).
/// - **Bytes that are not UTF-8** become U+FFFD, as many as [`String::from_utf8_lossy`] makes of them.
///
/// Each byte is either in the text, or counted once as collapsed or replaced.
///
/// # Examples
/// ```
/// let view = xioflow_kernel::text_view(b"10%\r 50%\rdone\n\x1b[31mred\x1b[0m\n");
/// assert_eq!(view.text, "done\nred\n");
/// ```
#[must_use]
pub fn text_view(bytes: &[u8]) -> TextView {
    let mut filter = TextFilter::default();
    let mut text = String::with_capacity(bytes.len());
    filter.push(bytes, &mut text);
    filter.finish(&mut text);
    TextView {
        text,
        collapsed_bytes: filter.collapsed_bytes(),
        replaced_bytes: filter.replaced_bytes(),
    }
}

/// The same for output that comes in pieces. It holds back the line that is being drawn, at most
/// 64 KiB of it.
#[derive(Debug, Default)]
pub struct TextFilter {
    /// The beginning of a character, at most three bytes.
    partial: Vec<u8>,
    sequence: Sequence,
    line: Line,
    replaced: u64,
}

impl TextFilter {
    /// Takes the next bytes and appends to `text` what is certain.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        let joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            joined = [std::mem::take(&mut self.partial), bytes.to_vec()].concat();
            rest = &joined;
        }
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => return self.take_text(valid, text),
                Err(error) => error,
            };
            let (valid, others) = rest.split_at(error.valid_up_to());
            // Valid by the error's own account.
            self.take_text(std::str::from_utf8(valid).unwrap_or_default(), text);
            match error.error_len() {
                Some(len) => {
                    self.replace(len, text);
                    rest = &others[len..];
                }
                None => {
                    self.partial = others.to_vec();
                    return;
                }
            }
        }
    }

    /// Appends what was held back. More may follow, on a line of its own or not.
    pub fn finish(&mut self, text: &mut String) {
        if !self.partial.is_empty() {
            let len = self.partial.len();
            self.partial.clear();
            self.replace(len, text);
        }
        self.sequence = Sequence::None;
        self.line.flush(text);
    }

    /// See [`TextView::collapsed_bytes`].
    #[must_use]
    pub fn collapsed_bytes(&self) -> u64 {
        self.line.collapsed()
    }

    /// See [`TextView::replaced_bytes`].
    #[must_use]
    pub fn replaced_bytes(&self) -> u64 {
        self.replaced
    }

    /// Bytes that are no text end a sequence that they stand in.
    fn replace(&mut self, len: usize, text: &mut String) {
        self.sequence = Sequence::None;
        self.replaced += len as u64;
        self.line.mark(REPLACEMENT, text);
    }

    fn take_text(&mut self, valid: &str, text: &mut String) {
        let mut rest = valid;
        while !rest.is_empty() {
            if self.sequence == Sequence::None {
                let plain = rest.find(is_special).unwrap_or(rest.len());
                if plain > 0 {
                    self.line.draw(&rest[..plain], text);
                }
                rest = &rest[plain..];
            }
            let mut letters = rest.chars();
            if let Some(letter) = letters.next() {
                self.take_special(letter, text);
                rest = letters.as_str();
            }
        }
    }

    fn take_special(&mut self, letter: char, text: &mut String) {
        if self.sequence != Sequence::None {
            let step = self.sequence.step(letter);
            if step != Step::Outside {
                self.replaced += letter.len_utf8() as u64;
            }
            match step {
                Step::Inside => return,
                Step::Ended(effect) => return self.line.apply(effect),
                Step::Outside => {}
            }
        }
        match letter {
            '\n' => self.line.end(text),
            '\r' => self.line.carriage_return(),
            '\x08' => self.line.backspace(),
            '\x1b' => {
                self.replaced += 1;
                self.sequence = Sequence::Escape;
            }
            _ if is_special(letter) => {
                self.replaced += letter.len_utf8() as u64;
                self.line
                    .mark(picture(letter).encode_utf8(&mut [0; 4]), text);
            }
            _ => self.line.draw(letter.encode_utf8(&mut [0; 4]), text),
        }
    }
}

/// Whether a character is not simply drawn.
fn is_special(letter: char) -> bool {
    letter != '\t' && letter.is_control()
}

/// The picture of a control character; those beyond ASCII have none.
fn picture(letter: char) -> char {
    match letter {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(letter)),
        '\x7f' => Some('\u{2421}'),
        _ => None,
    }
    .unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests;
