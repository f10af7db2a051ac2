//! From the words of the command line to an operation that is not submitted yet.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use clap::ValueEnum;
use xioflow_kernel::{
    Command, DescendantPolicy, Domain, OperationBuilder, Stdin, StopAction, StopActionWhen,
};

use crate::args::{self, Descendants, Driver, RunArgs};
use crate::exit::Code;
use crate::failure::Failure;

/// What is kept of the output in memory when nobody will read it there, in bytes.
const UNREAD_OUTPUT_MAX: usize = 64 * 1024;

/// Environment variable that says how the tree is held where no option does.
const DRIVER_VARIABLE: &str = "XIOFLOW_DRIVER";

/// The operation that is asked for.
pub(super) fn operation(
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
        .descendants(match args.descendants {
            Descendants::Stop => DescendantPolicy::Stop,
            Descendants::Wait => DescendantPolicy::Wait,
        });
    if let Some(max) = args.max_stored {
        operation = operation.max_stored_bytes(max);
    }
    if let Some(id) = &args.op {
        operation = operation.id(id);
    }
    if let Some(timeout) = args.timeout {
        operation = operation.timeout(timeout);
    }
    if let Some(limits) = args.limits.asked()? {
        operation = operation.limits(limits);
    }
    if let Some(grace) = args.grace {
        operation = operation.timeout_grace(grace);
    }
    Ok(args
        .lease
        .iter()
        .fold(operation, |operation, lease| operation.lease(lease)))
}

/// The command that is asked for.
pub(super) fn command(args: &RunArgs) -> Result<Command, Failure> {
    let (program, rest) = args
        .command
        .split_first()
        .ok_or_else(|| Failure::new("invalid", Code::Usage, "there is no command to run"))?;
    let mut command = Command::new(program)
        .args(rest)
        .stdin(stdin(&args.stdin)?)
        .merge_stderr(args.merge_stderr)
        .no_new_privs(args.no_new_privs)
        .driver(match driver(args)? {
            Driver::Pidns => xioflow_kernel::Driver::PidNamespace,
            Driver::Reaper => xioflow_kernel::Driver::Reaper,
            Driver::Cgroup => xioflow_kernel::Driver::ControlGroup,
            Driver::Auto => xioflow_kernel::Driver::Auto,
        });
    if let Some(script) = &args.stop_action {
        command = command.stop_action(stop_action(script, args));
    }
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

/// How the tree is to be held: by the option, or by the environment.
fn driver(args: &RunArgs) -> Result<Driver, Failure> {
    let named = env::var_os(DRIVER_VARIABLE).filter(|text| !text.is_empty());
    let (None, Some(name)) = (args.driver, named) else {
        return Ok(args.driver.unwrap_or(Driver::Auto));
    };
    Driver::from_str(&name.to_string_lossy(), false).map_err(|_| {
        let message = format!("{DRIVER_VARIABLE} is no driver: {}", name.display());
        Failure::new("usage", Code::Usage, message).hint(
            "it is one of auto, reaper, cgroup, pidns; `xioflow run --help` says what they are",
        )
    })
}

fn stop_action(script: &OsStr, args: &RunArgs) -> StopAction {
    StopAction::shell(script)
        .timeout(args.stop_action_timeout)
        .when(match args.stop_action_when {
            args::StopActionWhen::Stopped => StopActionWhen::Stopped,
            args::StopActionWhen::Always => StopActionWhen::Always,
        })
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
            let shared = io::stdin().as_fd().try_clone_to_owned().map_err(|error| {
                Failure::of_act(
                    "stdin",
                    Code::Internal,
                    "failed to share standard input",
                    &error,
                )
            })?;
            Ok(Stdin::Descriptor(Arc::new(shared)))
        }
        _ => Ok(Stdin::File(from.into())),
    }
}

/// Nothing that was asked for is left out silently: what this release cannot do yet is refused
/// before anything is recorded.
pub(super) fn refuse_what_is_not_there(args: &RunArgs) -> Result<(), Failure> {
    args.limits.asked()?;
    let asked = [
        ("--confine", args.confine.is_some(), "confinement"),
        ("--write", !args.write.is_empty(), "confinement"),
    ]
    .into_iter()
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
