//! A submission as it travels to an arbiter: its words, and the descriptors that go with them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use xioflow_rpc::limits as rpc_limits;
use xioflow_rpc::operation as rpc;
use xioflow_rpc::text::Text;

use crate::caller::Caller;
use crate::command::Command;
use crate::driver::Driver;
use crate::environment::Source;
use crate::limits::{Enforcement, ResourceLimits};
use crate::operation::{DescendantPolicy, Membership, Spec};
use crate::output::Owed;
use crate::stdin::{Stdin, StdinReader, in_memory};
use crate::stop_action::{StopAction, StopActionWhen};

/// Where the arbiter puts the output.
#[derive(Debug)]
pub(crate) struct RemoteOutput {
    pub(crate) pipe: OwnedFd,
    /// What whoever reads it is owed.
    pub(crate) owed: Owed,
}

/// One that is ready to be sent.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) words: rpc::ExecProcess,
    stdin: Option<Sent>,
    output: Option<OwnedFd>,
}

/// A descriptor that travels along.
#[derive(Debug)]
enum Sent {
    Ours(OwnedFd),
    Shared(Arc<OwnedFd>),
}

impl Prepared {
    /// The descriptors, in the order in which the words name them.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let stdin = self.stdin.as_ref().map(|sent| match sent {
            Sent::Ours(descriptor) => descriptor.as_fd(),
            Sent::Shared(descriptor) => descriptor.as_fd(),
        });
        let output = self.output.as_ref().map(AsFd::as_fd);
        stdin.into_iter().chain(output).collect()
    }
}

/// Prepares a submission whose output goes to `output`.
///
/// # Errors
/// That of the system, if there is no file in memory for its standard input, or there was no pipe.
pub(super) fn prepare(
    spec: Spec,
    caller: &Caller,
    output: Option<RemoteOutput>,
) -> io::Result<Prepared> {
    let (stdin, sent) = stdin(&spec.command, spec.stdin_stream)?;
    let mut descriptors = Vec::new();
    descriptors.extend(sent.is_some().then_some(rpc::Descriptor::Stdin));
    descriptors.extend(output.is_some().then_some(rpc::Descriptor::Output));
    let words = rpc::ExecProcess {
        operation_id: Some(spec.id),
        name: spec.name,
        run_id: match spec.membership {
            Membership::Own { .. } => None,
            Membership::Of { run_id } => Some(run_id),
        },
        command: command(&spec.command),
        caller: callers(caller),
        stdin,
        timeout_ms: spec.timeout.map(millis),
        timeout_grace_ms: Some(millis(spec.timeout_grace)),
        limits: spec.limits.as_ref().map(limits),
        leases: spec.leases,
        wait_ms: millis(spec.wait),
        max_output_bytes: Some(spec.max_output_bytes as u64),
        max_stored_bytes: spec.max_stored_bytes,
        drain_timeout_ms: Some(millis(spec.drain_timeout)),
        descendants: match spec.descendants {
            DescendantPolicy::Stop => rpc::Descendants::Stop,
            DescendantPolicy::Wait => rpc::Descendants::Wait,
        },
        detached: spec.detached,
        output: match output {
            Some(_) => rpc::Output::Frames,
            None => rpc::Output::None,
        },
        may_drop: output
            .as_ref()
            .is_some_and(|output| output.owed == Owed::WhatIsStored),
        descriptors,
    };
    Ok(Prepared {
        words,
        stdin: sent,
        output: output.map(|output| output.pipe),
    })
}

fn limits(limits: &ResourceLimits) -> rpc_limits::Limits {
    rpc_limits::Limits {
        max_memory_bytes: limits.memory_max_bytes,
        max_pids: limits.pids_max,
        max_milli_cpus: limits.milli_cpus,
        max_cpu_time_ms: limits.cpu_time.map(millis),
        enforcement: match limits.enforcement {
            Enforcement::Hard => rpc_limits::Enforcement::Hard,
            Enforcement::Soft => rpc_limits::Enforcement::Soft,
            Enforcement::Observe => rpc_limits::Enforcement::Observe,
        },
    }
}

fn command(command: &Command) -> rpc::Command {
    let variables = command.environment.named.iter();
    rpc::Command {
        program: command.program.as_os_str().into(),
        args: command.args.iter().map(|arg| Text(arg.clone())).collect(),
        cwd: command.cwd.as_ref().map(|cwd| cwd.as_os_str().into()),
        inherit_env: command.environment.inherits,
        env: variables
            .map(|(name, source)| {
                let value = match source {
                    Source::Given(value) => Some(Text(value.clone())),
                    Source::Caller => None,
                };
                (Text(name.clone()), value)
            })
            .collect(),
        umask: command.umask,
        no_new_privs: command.no_new_privs,
        merge_stderr: command.merges_stderr,
        driver: match command.driver {
            Driver::Auto => rpc::Driver::Auto,
            Driver::Reaper => rpc::Driver::Reaper,
            Driver::ControlGroup => rpc::Driver::Cgroup,
            Driver::PidNamespace => rpc::Driver::Pidns,
        },
        stop_action: command.stop_action.as_ref().map(stop_action),
    }
}

fn stop_action(action: &StopAction) -> rpc::StopAction {
    rpc::StopAction {
        program: action.program.as_os_str().into(),
        args: action.args.iter().map(|arg| Text(arg.clone())).collect(),
        when: match action.when {
            StopActionWhen::Stopped => rpc::StopActionWhen::Stopped,
            StopActionWhen::Always => rpc::StopActionWhen::Always,
        },
        timeout_ms: Some(action.timeout_ms()),
    }
}

fn stdin(command: &Command, stream: Option<StdinReader>) -> io::Result<(rpc::Stdin, Option<Sent>)> {
    if let Some(reader) = stream {
        return Ok((rpc::Stdin::Stream, Some(Sent::Ours(reader?))));
    }
    Ok(match &command.stdin {
        Stdin::Null => (rpc::Stdin::Null, None),
        Stdin::Closed => (rpc::Stdin::Closed, None),
        Stdin::Bytes(bytes) => (rpc::Stdin::Memory, Some(Sent::Ours(in_memory(bytes)?))),
        Stdin::File(path) => {
            let path = path.as_os_str().into();
            (rpc::Stdin::File { path }, None)
        }
        Stdin::Descriptor(descriptor) => {
            let shared = Arc::clone(descriptor);
            (rpc::Stdin::Descriptor, Some(Sent::Shared(shared)))
        }
    })
}

fn callers(caller: &Caller) -> rpc::Caller {
    let variables = caller.variables().iter();
    rpc::Caller {
        folder: caller.folder().map(|folder| folder.as_os_str().into()),
        folder_gone: caller.folder_gone(),
        variables: variables
            .map(|(name, value)| (Text(name.clone()), Text(value.clone())))
            .collect(),
        umask: caller.umask_value(),
        limits: caller
            .limits()
            .iter()
            .map(|limit| rpc::ResourceLimit {
                resource: limit.resource,
                soft: limit.soft,
                hard: limit.hard,
            })
            .collect(),
        nice: caller.nice_value(),
    }
}

/// A duration as it is said; one that no number holds is as long as can be said.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
