//! `xioflow`: the face for people and programs. It parses, calls the kernel, and renders; it knows
//! no SQL and no frames.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod count;
mod doctor;
mod domain;
mod duration;
mod exit;
mod failure;
mod output;
mod passthrough;
mod range;
mod signals;
mod size;
mod views;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Verb};
use crate::exit::Code;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let ended = match &cli.verb {
        Verb::Run(run) => commands::run::run(&cli, run),
        Verb::List(list) => commands::list::run(&cli, list),
        Verb::Show(show) => commands::show::run(&cli, show),
        Verb::Logs(logs) => commands::logs::run(&cli, logs),
        Verb::Events(events) => commands::events::run(&cli, events),
        Verb::Status(status) => commands::status::run(&cli, status),
        Verb::Doctor(doctor) => commands::doctor::run(&cli, doctor),
    };
    match ended {
        Ok(code) => code.into(),
        Err(failure) => failure.report(cli.verb.wants_json()).into(),
    }
}

/// Help and version are no errors; everything else that clap says is a usage error.
fn usage(error: &clap::Error) -> ExitCode {
    // With no terminal and no pipe left to print to there is nobody to tell.
    error.print().ok();
    if error.use_stderr() {
        Code::Usage.into()
    } else {
        ExitCode::SUCCESS
    }
}
