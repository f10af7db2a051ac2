//! `list --watch`: what runs and what it uses, looked at again and again: drawn anew on a terminal, line by line
//! elsewhere. `figures` makes the rows, `screen` draws.

mod figures;
mod screen;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::Serialize;
use xioflow_kernel::Load;
use xioflow_kernel::journal::{OwnerState, Query, Reader};

use crate::args::ListArgs;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{conclude, print_json_line, print_line};
use crate::signals::Interruption;
use crate::{arbiter, exit};
use figures::{Figures, Watched};
use screen::Screen;

/// One line of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    /// When it was looked, RFC 3339.
    at: String,
    operations: &'a [Watched],
}

pub(super) fn run(folder: &Path, args: &ListArgs) -> Result<Code, Failure> {
    let interruption = Interruption::listen()?;
    let is_screen = !args.json && io::stdout().is_terminal();
    let mut screen = match is_screen {
        true => Some(Screen::enter().map_err(|error| failed(&error))?),
        false => None,
    };
    let mut figures = Figures::default();
    let mut rounds = 0;
    loop {
        let watched = figures.note(looked(folder)?, Instant::now());
        let shown = match &mut screen {
            Some(screen) => screen.draw(&watched),
            None => print(&watched, args.json, rounds == 0),
        };
        if shown.is_err() {
            // A reader that went away leaves nobody to watch for.
            return conclude(shown).map(|()| Code::Ok);
        }
        rounds += 1;
        if args.times.is_some_and(|times| rounds >= times) {
            return Ok(Code::Ok);
        }
        if let Some(signal) = interruption.sleep(args.interval) {
            return Ok(exit::by_signal(signal));
        }
    }
}

/// Asks whoever executes the operations; where that takes no requests, the record and the system are asked.
fn looked(folder: &Path) -> Result<Vec<Load>, Failure> {
    if let Some(domain) = arbiter::attached(folder)? {
        return Ok(domain.loads()?);
    }
    let reader = Reader::open(folder)?;
    if reader.owner_state() == OwnerState::Free {
        return Ok(Vec::new());
    }
    let unfinished = reader.unfinished()?;
    Ok(unfinished.iter().filter_map(Load::of_recorded).collect())
}

fn print(watched: &[Watched], as_json: bool, with_head: bool) -> io::Result<()> {
    let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    if as_json {
        let operations = watched;
        return print_json_line(&Line { at, operations });
    }
    let lines = figures::lines(watched);
    let skipped = usize::from(!with_head);
    lines
        .iter()
        .skip(skipped)
        .try_for_each(|line| print_line(line))
}

fn failed(error: &io::Error) -> Failure {
    Failure::of_act("output", Code::Internal, "failed to draw", error)
}
