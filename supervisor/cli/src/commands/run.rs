//! `xioflow run`: one command, from the command line to its exit status. `submission` makes the
//! operation, `detach` leaves it to the arbiter.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Instant;

use xioflow_kernel::{
    Active, Arbiter, Command, DEFAULT_CANCEL_GRACE, Domain, DomainOptions, ExecuteError,
    OperationBuilder,
};
use xioflow_rpc::refusal::kind;

use super::ending::{Face, finish, left};
use super::{lost, report};
use crate::args::{Cli, RunArgs};
use crate::exit::Code;
use crate::failure::{DOMAIN_LOCKED, Failure};
use crate::passthrough::{self, Earlier, Passed};
use crate::signals;
use crate::{arbiter, domain, output};

mod detach;
mod submission;

/// How often a submission is made anew because the arbiter was ending just then.
const ATTEMPTS_MAX: u32 = 3;

pub(crate) fn run(cli: &Cli, args: &RunArgs) -> Result<Code, Failure> {
    submission::refuse_what_is_not_there(args)?;
    let command = submission::command(args)?;
    let folder = domain::locate(cli.domain())?;
    let mut attempt = 1;
    loop {
        match submit(&folder, command.clone(), args) {
            // Nothing ran. The next arbiter is started when this one is gone.
            Err(failure) if failure.kind() == kind::DOMAIN_CLOSED && attempt < ATTEMPTS_MAX => {
                attempt += 1;
            }
            ended => return ended,
        }
    }
}

fn submit(folder: &Path, command: Command, args: &RunArgs) -> Result<Code, Failure> {
    let domain = open(folder, args)?;
    report::recovered(&domain, args.quiet);
    let operation = submission::operation(&domain, command, args)?;
    if args.detach {
        return detach::run(operation, args);
    }
    follow(&domain, operation, args)
}

/// Sees it to its end.
fn follow(
    domain: &Domain,
    mut operation: OperationBuilder,
    args: &RunArgs,
) -> Result<Code, Failure> {
    let grace = args.grace.unwrap_or(DEFAULT_CANCEL_GRACE);
    let by = signals::forward(operation.canceller(), grace)?;
    let passing = match args.json {
        true => None,
        false => {
            let earlier = args.op.as_ref().map(|id| Earlier {
                domain: domain.clone(),
                operation_id: id.clone(),
            });
            let subscription = operation.subscribe_lossless();
            Some(passthrough::start(subscription, earlier, None)?)
        }
    };
    let ended = operation.when_active(announcing(args.quiet)).run();
    let passed = passing.map_or_else(Passed::default, |it| it.join().unwrap_or_default());
    passed.notes.iter().for_each(|note| output::complain(note));
    let face = Face::from(args);
    match ended {
        Err(ExecuteError::ArbiterLost { operation_id }) => {
            lost::report(domain.folder(), &operation_id, &passed, &face)
        }
        Err(ExecuteError::JoinAbandoned { operation_id }) => Err(left(&operation_id, by.signal())),
        ended => finish(&face, domain.folder(), &ended?, &passed, by.signal()),
    }
}

/// Says what had to be moved for the operation, before it runs.
fn announcing(quiet: bool) -> impl FnOnce(Active) + Send {
    move |active| {
        if !quiet {
            report::host_moved(&active);
        }
    }
}

/// Opens the domain. A wait for its owner is announced to people, with the owner's name.
fn open(folder: &Path, args: &RunArgs) -> Result<Domain, Failure> {
    let options = DomainOptions::default().warm_helpers(0).adopt_orphans(true);
    let owning = options.clone().arbiter(Arbiter::Never);
    let owning = match arbiter::MAX_ARTIFACTS.or_said(args.max_artifacts)? {
        Some(max) => owning.max_artifact_bytes(max),
        None => owning,
    };
    let options = match args.no_arbiter {
        true => owning.clone(),
        false => options.arbiter(Arbiter::Start(arbiter::starter()?)),
    };
    let begun = Instant::now();
    loop {
        let failure = match options.open(folder) {
            Ok(domain) => return Ok(domain),
            Err(error) => Failure::from(error),
        };
        let left = args.wait.saturating_sub(begun.elapsed());
        if failure.kind() != DOMAIN_LOCKED || left.is_zero() {
            return Err(failure);
        }
        if io::stderr().is_terminal() && !args.quiet {
            let wait = humantime::format_duration(args.wait);
            output::complain(&format!("{} (waiting up to {wait})", failure.message()));
        }
        let owned = owning.clone().wait(left).open(folder)?;
        if args.no_arbiter {
            return Ok(owned);
        }
        // Given up again at once, to the arbiter that is started now. Somebody may come before it.
        report::recovered(&owned, args.quiet);
    }
}
