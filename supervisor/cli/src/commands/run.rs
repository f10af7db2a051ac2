//! `xioflow run`: one command, from the command line to its exit status.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use xioflow_kernel::journal::OpenError;
use xioflow_kernel::{
    Command, DEFAULT_CANCEL_GRACE, DescendantPolicy, Domain, DomainError, DomainOptions,
    OperationBuilder, OperationResult, Stdin,
};

use crate::args::{Cli, Descendants, Driver, RunArgs};
use crate::exit::{self, Code};
use crate::failure::Failure;
use crate::passthrough;
use crate::signals::{self, CancelledBy};
use crate::views::WithViews;
use crate::{domain, output};

mod report;

/// What is kept of the output in memory when nobody will read it there, in bytes.
const UNREAD_OUTPUT_MAX: usize = 64 * 1024;

pub(crate) fn run(cli: &Cli, args: &RunArgs) -> Result<Code, Failure> {
    refuse_what_is_not_there(args)?;
    let command = command(args)?;
    let domain = open(domain::locate(cli.domain.as_deref())?, args)?;
    report::recovered(domain.recovered(), args.quiet);
    let mut operation = operation(&domain, command, args)?;
    let grace = args.grace.unwrap_or(DEFAULT_CANCEL_GRACE);
    let cancelled_by = signals::forward(operation.canceller(), grace)?;
    let passing = if args.json {
        None
    } else {
        let started = passthrough::start(operation.subscribe_lossless());
        let passing = started.map_err(|e| internal("thread", "failed to start a thread", &e))?;
        Some(passing)
    };
    let result = operation.run();
    if let Some(passing) = passing {
        let losses = passing.join().unwrap_or_default();
        for note in &losses.notes {
            output::complain(note);
        }
    }
    finish(args, &domain, result?, &cancelled_by)
}

/// Opens the domain. A wait for its owner is announced to people, with the owner's name.
fn open(folder: PathBuf, args: &RunArgs) -> Result<Domain, Failure> {
    let options = DomainOptions::default().warm_helpers(0).adopt_orphans(true);
    match options.open(&folder) {
        Err(DomainError::Journal(owned @ OpenError::Owned { .. })) if !args.wait.is_zero() => {
            if io::stderr().is_terminal() && !args.quiet {
                let wait = humantime::format_duration(args.wait);
                output::complain(&format!("{owned} (waiting up to {wait})"));
            }
            Ok(options.wait(args.wait).open(folder)?)
        }
        opened => Ok(opened?),
    }
}

fn internal(kind: &'static str, act: &str, error: &io::Error) -> Failure {
    Failure::of_act(kind, Code::Internal, act, error)
}

fn finish(
    args: &RunArgs,
    domain: &Domain,
    result: OperationResult,
    by: &CancelledBy,
) -> Result<Code, Failure> {
    let code = exit::of_result(&result, by.signal());
    if args.json && args.text_view {
        output::print_json(&WithViews::of(&result))?;
    } else if args.json {
        output::print_json(&result)?;
    } else if result.replayed {
        super::logs::print_recorded(domain.folder(), &result.operation_id)?;
    }
    report::result(&result, code, args.quiet);
    Ok(code)
}

fn operation(
    domain: &Domain,
    command: Command,
    args: &RunArgs,
) -> Result<OperationBuilder, Failure> {
    let asked = usize::try_from(args.max_output).unwrap_or(usize::MAX);
    // Passed on as it comes, so memory need not hold it.
    let limit = if args.json {
        asked
    } else {
        asked.min(UNREAD_OUTPUT_MAX)
    };
    let mut operation = domain
        .operation(command)?
        .wait(args.wait)
        .max_output_bytes(limit)
        .max_stored_bytes(args.max_stored)
        .descendants(match args.descendants {
            Descendants::Stop => DescendantPolicy::Stop,
            Descendants::Wait => DescendantPolicy::Wait,
        });
    if let Some(id) = &args.op {
        operation = operation.id(id);
    }
    if let Some(timeout) = args.timeout {
        operation = operation.timeout(timeout);
    }
    if let Some(grace) = args.grace {
        operation = operation.timeout_grace(grace);
    }
    Ok(args
        .lease
        .iter()
        .fold(operation, |operation, lease| operation.lease(lease)))
}

fn command(args: &RunArgs) -> Result<Command, Failure> {
    let (program, rest) = args
        .command
        .split_first()
        .ok_or_else(|| Failure::new("invalid", Code::Usage, "there is no command to run"))?;
    let mut command = Command::new(program)
        .args(rest)
        .stdin(stdin(&args.stdin)?)
        .merge_stderr(args.merge_stderr);
    if let Some(cwd) = &args.cwd {
        command = command.cwd(cwd);
    }
    if !args.clear_env {
        command = command.inherit_env();
    }
    for variable in &args.env {
        command = with_variable(command, variable);
    }
    Ok(command)
}

/// `K=V` sets; `K` passes this program's own value through.
fn with_variable(command: Command, variable: &OsStr) -> Command {
    let bytes = variable.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => {
            let (name, value) = (&bytes[..at], &bytes[at + 1..]);
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value))
        }
        None => command.pass_env(variable),
    }
}

fn stdin(from: &OsStr) -> Result<Stdin, Failure> {
    match from.as_bytes() {
        b"null" => Ok(Stdin::Null),
        b"closed" => Ok(Stdin::Closed),
        b"inherit" => {
            let shared = io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| internal("stdin", "failed to share standard input", &error))?;
            Ok(Stdin::Descriptor(Arc::new(shared)))
        }
        _ => Ok(Stdin::File(from.into())),
    }
}

/// Nothing that was asked for is left out silently: what this release cannot do yet is refused
/// before anything is recorded.
fn refuse_what_is_not_there(args: &RunArgs) -> Result<(), Failure> {
    let limits = [
        ("--memory", args.memory.is_some()),
        ("--pids", args.pids.is_some()),
        ("--cpus", args.cpus.is_some()),
        ("--cpu-time", args.cpu_time.is_some()),
        ("--limits", args.limits.is_some()),
        ("--driver cgroup", args.driver == Driver::Cgroup),
    ];
    let others = [
        (
            "--driver pidns",
            args.driver == Driver::Pidns,
            "process-id namespaces",
        ),
        ("--confine", args.confine.is_some(), "confinement"),
        ("--write", !args.write.is_empty(), "confinement"),
        (
            "--detach",
            args.detach,
            "an arbiter that outlives this command",
        ),
    ];
    let asked = limits
        .into_iter()
        .map(|(flag, asked)| (flag, asked, "control groups"))
        .chain(others)
        .find(|(_, asked, _)| *asked);
    match asked {
        None => Ok(()),
        Some((flag, _, needs)) => {
            let message =
                format!("{flag} needs {needs}, which this release does not use yet; nothing ran");
            Err(Failure::new("unsupported", Code::Unavailable, message)
                .hint(format!("run it without {flag}")))
        }
    }
}
