//! `xioflow doctor`: hands the question to [`crate::doctor`] and prints the answer.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use xioflow_kernel::find_helper;

use crate::args::{Cli, DoctorArgs};
use crate::doctor::{
    DoctorOptions, Progress, Report, examine, examine_domain, render, render_json,
};
use crate::domain;
use crate::exit::Code;
use crate::failure::Failure;
use crate::size::format_size;

pub(crate) fn run(cli: &Cli, args: &DoctorArgs) -> Result<Code, Failure> {
    let report = match cli.names_domain() {
        true => of_domain(cli)?,
        false => of_host(cli)?,
    };
    let printed = if args.json {
        render_json(&report, &mut io::stdout().lock())
    } else {
        render(&report, &mut anstream::stdout().lock())
    };
    // A reader that went away has seen what it wanted; the exit status still tells.
    printed.ok();
    Ok(if report.ready { Code::Ok } else { Code::No })
}

fn of_host(cli: &Cli) -> Result<Report, Failure> {
    Ok(examine(&DoctorOptions {
        helper: find_helper().map_err(|error| error.to_string()),
        domain: domain::locate(cli.domain())?,
        work_dir: env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
    }))
}

fn of_domain(cli: &Cli) -> Result<Report, Failure> {
    let folder = domain::locate(cli.domain())?;
    let mut line = Line {
        shown: None,
        on_terminal: io::stderr().is_terminal(),
    };
    let report = examine_domain(&folder, &mut line);
    line.clear();
    Ok(report)
}

/// How far the files are, on one line of a terminal that is written over.
struct Line {
    shown: Option<Instant>,
    on_terminal: bool,
}

/// More often nobody reads it.
const EVERY: Duration = Duration::from_millis(200);

impl Progress for Line {
    fn at(&mut self, files: u64, bytes: u64) {
        let recent = self.shown.is_some_and(|shown| shown.elapsed() < EVERY);
        if !self.on_terminal || recent {
            return;
        }
        self.shown = Some(Instant::now());
        let text = format!("\r\x1b[K{files} files, {} read", format_size(bytes));
        io::stderr().write_all(text.as_bytes()).ok();
    }
}

impl Line {
    fn clear(&self) {
        if self.shown.is_some() {
            io::stderr().write_all(b"\r\x1b[K").ok();
        }
    }
}
