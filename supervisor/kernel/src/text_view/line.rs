//! The line that is being drawn: its last frame, and what was drawn before. Pure.

use super::sequence::Effect;

/// A frame that is longer is no progress that is redrawn; it is passed on.
pub(super) const FRAME_MAX_BYTES: usize = 64 * 1024;

/// One line.
#[derive(Debug, Default)]
pub(super) struct Line {
    frame: String,
    /// How many bytes of the frame stand there as they were printed; the others are marks.
    own: u64,
    /// Whether the cursor is in the first column with the frame behind it.
    returned: bool,
    /// Whether it came there by a carriage return, which is counted as collapsed.
    by_carriage_return: bool,
    /// Whether the beginning of the line was passed on already.
    is_long: bool,
    collapsed: u64,
}

impl Line {
    pub(super) fn collapsed(&self) -> u64 {
        self.collapsed
    }

    /// Draws text without control characters.
    pub(super) fn draw(&mut self, letters: &str, text: &mut String) {
        self.begin_frame(text);
        self.own += letters.len() as u64;
        self.put(letters, text);
    }

    /// Draws a mark for bytes that are counted elsewhere.
    pub(super) fn mark(&mut self, mark: &str, text: &mut String) {
        self.begin_frame(text);
        self.put(mark, text);
    }

    fn put(&mut self, letters: &str, text: &mut String) {
        self.frame.push_str(letters);
        // What follows on a long line is passed on, too. Else it would depend on how the output was
        // cut into pieces what of it can still be erased.
        self.is_long |= self.frame.len() > FRAME_MAX_BYTES;
        if self.is_long {
            self.pass_on(text);
        }
    }

    /// The first character behind a return takes the place of all that was there.
    fn begin_frame(&mut self, text: &mut String) {
        if !std::mem::take(&mut self.returned) {
            return;
        }
        let by_carriage_return = std::mem::take(&mut self.by_carriage_return);
        if std::mem::take(&mut self.is_long) {
            self.pass_on(text);
            // The return itself stands there now, as an end of line. For a control sequence, which
            // is counted as replaced, that is a mark.
            self.collapsed -= u64::from(by_carriage_return);
            text.push('\n');
        } else {
            self.drop_frame();
        }
    }

    fn drop_frame(&mut self) {
        self.collapsed += std::mem::take(&mut self.own);
        self.frame.clear();
    }

    fn pass_on(&mut self, text: &mut String) {
        text.push_str(&self.frame);
        self.frame.clear();
        self.own = 0;
    }

    pub(super) fn carriage_return(&mut self) {
        self.collapsed += 1;
        self.returned = true;
        self.by_carriage_return = true;
    }

    /// Removes the character before the cursor. A mark stays: it says that something was there.
    pub(super) fn backspace(&mut self) {
        self.collapsed += 1;
        let last = self.frame.chars().next_back();
        if let Some(letter) = last.filter(|letter| !self.returned && !is_mark(*letter)) {
            self.frame.pop();
            let len = letter.len_utf8() as u64;
            self.own -= len;
            self.collapsed += len;
        }
    }

    /// Does what a control sequence does to the line.
    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::ToFirstColumn => self.returned = true,
            // With the cursor behind the frame there is nothing to erase.
            Effect::EraseRest if !self.returned => {}
            Effect::EraseRest | Effect::EraseLine => self.drop_frame(),
        }
    }

    pub(super) fn end(&mut self, text: &mut String) {
        self.flush(text);
        text.push('\n');
    }

    /// Passes on what there is, and begins again.
    pub(super) fn flush(&mut self, text: &mut String) {
        self.pass_on(text);
        self.returned = false;
        self.by_carriage_return = false;
        self.is_long = false;
    }
}

/// Whether a character may be one of ours. If it was printed it stays, too.
fn is_mark(letter: char) -> bool {
    matches!(
        letter,
        '\u{2400}'..='\u{2421}' | char::REPLACEMENT_CHARACTER
    )
}
