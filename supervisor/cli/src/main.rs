//! `xioflow`: the face for people and programs. It parses, calls the kernel, and renders; it knows
//! no SQL and no frames.

#![forbid(unsafe_code)]

mod arbiter;
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
mod shell;
mod signals;
mod size;
mod usage;
mod views;

use std::process::ExitCode;

use crate::args::{Cli, Verb};
use crate::exit::Code;
use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::parsed() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let ended = signals::outlive_file_size_limit().and_then(|()| act(&cli));
    match ended {
        Ok(code) => code.into(),
        Err(failure) => failure.report(cli.verb.wants_json()).into(),
    }
}

fn act(cli: &Cli) -> Result<Code, Failure> {
    match &cli.verb {
        Verb::Run(run) => commands::run::run(cli, run),
        Verb::Attach(attach) => commands::attach::run(cli, attach),
        Verb::Cancel(cancel) => commands::cancel::run(cli, cancel),
        Verb::Pause(pause) => commands::stand::pause(cli, pause),
        Verb::Resume(resume) => commands::stand::resume(cli, resume),
        Verb::List(list) => commands::list::run(cli, list),
        Verb::Show(show) => commands::show::run(cli, show),
        Verb::Logs(logs) => commands::logs::run(cli, logs),
        Verb::Events(events) => commands::events::run(cli, events),
        Verb::Status(status) => commands::status::run(cli, status),
        Verb::Recover(recover) => commands::recover::run(cli, recover),
        Verb::Adjudicate(adjudicate) => commands::adjudicate::run(cli, adjudicate),
        Verb::Prune(prune) => commands::prune::run(cli, prune),
        Verb::Doctor(doctor) => commands::doctor::run(cli, doctor),
        Verb::Shutdown(shutdown) => commands::shutdown::run(cli, shutdown),
        Verb::Arbiter(arbiter) => commands::arbiter::run(cli, arbiter),
    }
}
