//! A terminal's other screen: what was there before is there again when this is dropped.

use std::io::{self, Write};

use rustix::termios::tcgetwinsize;

use super::figures::{self, Watched};

/// Switch to the other screen and hide the cursor, as xterm and all that followed it have it.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";

/// The opposite.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// To the upper left corner.
const HOME: &str = "\x1b[H";

/// Erase the rest of a line, and the rest of the screen.
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

/// Where the terminal does not say how large it is.
const USUAL: (usize, usize) = (24, 80);

/// The other screen, for as long as this lives.
pub(super) struct Screen;

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let entered = Self;
        write(ENTER)?;
        Ok(entered)
    }

    /// Draws all of it at once, so that nothing flickers.
    pub(super) fn draw(&mut self, watched: &[Watched]) -> io::Result<()> {
        let (rows, columns) = size();
        let mut text = HOME.to_owned();
        for line in fitting(figures::lines(watched), rows, columns) {
            text.push_str(&line);
            text.push_str(ERASE_LINE);
            text.push_str("\r\n");
        }
        text.push_str(ERASE_BELOW);
        write(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone has no screen to be given back.
        write(LEAVE).ok();
    }
}

/// As many lines as there is room for, with how many there are besides; each as wide as there is room.
fn fitting(mut lines: Vec<String>, rows: usize, columns: usize) -> Vec<String> {
    // The last row is left free: a line that ends there would scroll.
    let room = rows.saturating_sub(1).max(2);
    if lines.len() > room {
        let hidden = lines.len() - (room - 1);
        lines.truncate(room - 1);
        lines.push(format!("and {hidden} more"));
    }
    let cut = |line: String| line.chars().take(columns).collect();
    lines.into_iter().map(cut).collect()
}

fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        Ok(_) | Err(_) => USUAL,
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let lines = |count: usize| {
            (0..count)
                .map(|at| format!("line {at}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(fitting(lines(3), 24, 80).len(), 3);
        let fitted = fitting(lines(10), 5, 4);
        assert_eq!(fitted, ["line", "line", "line", "and "]);
        assert_eq!(fitting(lines(10), 5, 80)[3], "and 7 more");
    }
}
