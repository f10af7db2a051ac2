//! `xioflow doctor`: hands the question to [`crate::doctor`] and prints the answer.

use std::env;
use std::io;
use std::path::PathBuf;

use xioflow_kernel::find_helper;

use crate::args::{Cli, DoctorArgs};
use crate::doctor::{DoctorOptions, examine, render, render_json};
use crate::domain;
use crate::exit::Code;
use crate::failure::Failure;

pub(crate) fn run(cli: &Cli, args: &DoctorArgs) -> Result<Code, Failure> {
    let report = examine(&DoctorOptions {
        helper: find_helper().map_err(|error| error.to_string()),
        domain: domain::locate(cli.domain())?,
        work_dir: env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
    });
    let printed = if args.json {
        render_json(&report, &mut io::stdout().lock())
    } else {
        render(&report, &mut anstream::stdout().lock())
    };
    // A reader that went away has seen what it wanted; the exit status still tells.
    printed.ok();
    Ok(if report.ready { Code::Ok } else { Code::No })
}
