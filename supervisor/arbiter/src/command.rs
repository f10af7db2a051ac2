//! What a request for a command means for the kernel.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::FileType;
use xioflow_kernel::{
    Caller, Command, DEFAULT_DRAIN_TIMEOUT, DEFAULT_STOP_ACTION_TIMEOUT, DEFAULT_TIMEOUT_GRACE,
    Domain, Driver, OperationBuilder, Stdin, StopAction,
};
use xioflow_rpc::operation::{self, ExecProcess};
use xioflow_rpc::refusal::Fault;

use crate::budget::Taken;
use crate::convert::{descendants, limits, millis_or, stop_action_when};
use crate::descriptors::Descriptors;
use crate::inline::Inline;
use crate::limits::{
    LEASE_MAX_BYTES, LEASES_MAX, MEMORY_STDIN_MAX_BYTES, NAME_MAX_BYTES, RESOURCE_LIMITS_MAX,
    VARIABLES_MAX,
};
use crate::own_limits::OwnLimits;
use crate::refusal::{self, invalid};

/// The operation that is asked for.
pub(crate) fn operation(
    domain: &Domain,
    asked: ExecProcess,
    mut descriptors: Descriptors,
    own: &OwnLimits,
    taken: &mut Taken,
) -> Result<OperationBuilder, Fault> {
    check_counts(&asked)?;
    let caller = caller(asked.caller, own)?;
    let stdin = stdin(asked.stdin, descriptors.stdin.take(), taken)?;
    let command = command(asked.command).stdin(stdin);
    let operation = match &asked.run_id {
        None => domain.operation(command),
        Some(run_id) => domain.run_of_id(run_id).operation(command),
    };
    let mut operation = operation
        .map_err(|error| refusal::of_execute(&error))?
        .caller(caller)
        .timeout_grace(millis_or(asked.timeout_grace_ms, DEFAULT_TIMEOUT_GRACE))
        .wait(Duration::from_millis(asked.wait_ms))
        .max_output_bytes(Inline::of(asked.max_output_bytes).held_bytes())
        .drain_timeout(millis_or(asked.drain_timeout_ms, DEFAULT_DRAIN_TIMEOUT))
        .descendants(descendants(asked.descendants));
    if let Some(id) = asked.operation_id {
        operation = operation.id(id);
    }
    if let Some(name) = asked.name {
        operation = operation.name(checked_name(name)?);
    }
    if let Some(max) = asked.max_stored_bytes {
        operation = operation.max_stored_bytes(max);
    }
    if let Some(timeout_ms) = asked.timeout_ms {
        operation = operation.timeout(Duration::from_millis(timeout_ms));
    }
    if let Some(asked) = &asked.limits {
        operation = operation.limits(limits(asked));
    }
    Ok(asked
        .leases
        .into_iter()
        .fold(operation, OperationBuilder::lease))
}

fn checked_name(name: String) -> Result<String, Fault> {
    if name.len() > NAME_MAX_BYTES {
        let message = format!(
            "the operation's name has {} bytes, at most {NAME_MAX_BYTES} are allowed",
            name.len()
        );
        return Err(refusal::limit(message, "nameBytes", NAME_MAX_BYTES as u64));
    }
    Ok(name)
}

/// Refuses more of anything than it can have in earnest. Some of it is compared each with each.
fn check_counts(asked: &ExecProcess) -> Result<(), Fault> {
    let longest = asked.leases.iter().map(String::len).max();
    let counts = [
        ("leases", asked.leases.len(), LEASES_MAX),
        ("leaseBytes", longest.unwrap_or(0), LEASE_MAX_BYTES),
        ("env", asked.command.env.len(), VARIABLES_MAX),
        ("variables", asked.caller.variables.len(), VARIABLES_MAX),
        ("limits", asked.caller.limits.len(), RESOURCE_LIMITS_MAX),
    ];
    match counts.into_iter().find(|(_, count, max)| count > max) {
        None => Ok(()),
        Some((name, count, max)) => {
            let message = format!("the request has {count} for {name}, at most {max} are allowed");
            Err(refusal::limit(message, name, max as u64))
        }
    }
}

/// Whoever asks. Where he says nothing of a limit, the command has the one that this process was started with,
/// not the one that it has made for itself.
fn caller(asked: operation::Caller, own: &OwnLimits) -> Result<Caller, Fault> {
    if let Some(what) = own.withhold(&asked) {
        return Err(refusal::withheld(what));
    }
    let folder = asked.folder.map(|folder| PathBuf::from(folder.0));
    if folder.is_none() && asked.folder_gone.is_some() {
        return Err(invalid("a caller's folder that is gone has a name"));
    }
    let variables = asked.variables.into_iter();
    let variables = variables.map(|(name, value)| (name.0, value.0)).collect();
    let mut caller = Caller::new(folder, variables);
    for (resource, limit) in own.before() {
        caller = caller.limit(resource, limit.current, limit.maximum);
    }
    for limit in asked.limits {
        caller = caller.limit(limit.resource, limit.soft, limit.hard);
    }
    if let Some(errno) = asked.folder_gone {
        caller = caller.folder_is_gone(errno);
    }
    if let Some(umask) = asked.umask {
        caller = caller.umask(umask);
    }
    if let Some(nice) = asked.nice {
        caller = caller.nice(nice);
    }
    Ok(caller)
}

fn command(asked: operation::Command) -> Command {
    let mut command = Command::new(asked.program.0)
        .args(asked.args.into_iter().map(|arg| arg.0))
        .no_new_privs(asked.no_new_privs)
        .merge_stderr(asked.merge_stderr)
        .driver(match asked.driver {
            operation::Driver::Auto => Driver::Auto,
            operation::Driver::Reaper => Driver::Reaper,
            operation::Driver::Cgroup => Driver::ControlGroup,
            operation::Driver::Pidns => Driver::PidNamespace,
        });
    if let Some(cwd) = asked.cwd {
        command = command.cwd(cwd.0);
    }
    if asked.inherit_env {
        command = command.inherit_env();
    }
    if let Some(umask) = asked.umask {
        command = command.umask(umask);
    }
    if let Some(action) = asked.stop_action {
        command = command.stop_action(stop_action(action));
    }
    asked
        .env
        .into_iter()
        .fold(command, |command, (name, value)| match value {
            Some(value) => command.env(name.0, value.0),
            None => command.pass_env(name.0),
        })
}

fn stop_action(asked: operation::StopAction) -> StopAction {
    let timeout = millis_or(asked.timeout_ms, DEFAULT_STOP_ACTION_TIMEOUT);
    StopAction::new(asked.program.0)
        .args(asked.args.into_iter().map(|arg| arg.0))
        .when(stop_action_when(asked.when))
        .timeout(timeout)
}

fn stdin(
    asked: operation::Stdin,
    descriptor: Option<OwnedFd>,
    taken: &mut Taken,
) -> Result<Stdin, Fault> {
    use operation::Stdin as Asked;
    let descriptor =
        || descriptor.ok_or_else(|| invalid("the descriptor of standard input has not come along"));
    Ok(match asked {
        Asked::Null => Stdin::Null,
        Asked::Closed => Stdin::Closed,
        Asked::Bytes { base64 } => {
            let bytes = STANDARD.decode(base64.as_bytes());
            Stdin::bytes(bytes.map_err(|error| invalid(format!("standard input: {error}")))?)
        }
        Asked::Text { text } => Stdin::text(text),
        Asked::Memory => Stdin::bytes(bytes_of(descriptor()?, taken)?),
        Asked::File { path } => Stdin::File(path.0.into()),
        Asked::Descriptor | Asked::Stream => Stdin::Descriptor(Arc::new(descriptor()?)),
    })
}

/// The bytes of a file. A pipe or a terminal would have to be waited for.
fn bytes_of(descriptor: OwnedFd, taken: &mut Taken) -> Result<Vec<u8>, Fault> {
    let failed = |errno: rustix::io::Errno| refusal::of_act("read standard input", &errno.into());
    let stat = rustix::fs::fstat(&descriptor).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(invalid(
            "standard input is to be a file in memory, and is none",
        ));
    }
    let len = u64::try_from(stat.st_size).unwrap_or(0);
    if len > MEMORY_STDIN_MAX_BYTES {
        let message = format!(
            "standard input in memory has {len} bytes, at most {MEMORY_STDIN_MAX_BYTES} are allowed; put it into a file"
        );
        return Err(refusal::limit(
            message,
            "stdinBytes",
            MEMORY_STDIN_MAX_BYTES,
        ));
    }
    // It is there twice: as bytes that make the operation the same, and as the file that the command reads.
    taken.more(2 * len)?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let file = std::fs::File::from(descriptor);
    file.read_exact_at(&mut bytes, 0)
        .map_err(|error| refusal::of_act("read standard input", &error))?;
    Ok(bytes)
}
