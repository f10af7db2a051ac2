//! `xioflow shutdown`: ends the domain's arbiter in order, and waits until it is gone.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;
use xioflow_client::{CallError, Connection};
use xioflow_kernel::journal::Reader;
use xioflow_rpc::kernel::{Running, Shutdown, ShutdownBegun};
use xioflow_rpc::method::Method;
use xioflow_rpc::refusal::kind;

use crate::args::{Cli, ShutdownArgs};
use crate::exit::Code;
use crate::failure::Failure;
use crate::{arbiter, domain, output};

/// What a program reads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    /// The arbiter's process id; null if there was none.
    pid: Option<u32>,
    /// How many operations were waited for or stopped.
    operations: u64,
}

pub(crate) fn run(cli: &Cli, args: &ShutdownArgs) -> Result<Code, Failure> {
    let folder = domain::locate(cli.domain())?;
    let ended = match arbiter::connect_to_end(&folder)? {
        Some(connection) => end(connection, args)?,
        None => {
            // Of a domain that is not there, it is a mistake to say that its arbiter has ended.
            Reader::open(&folder)?;
            Ended {
                pid: None,
                operations: 0,
            }
        }
    };
    if args.json {
        output::print_json(&ended)?;
    } else if ended.pid.is_none() {
        output::complain("no arbiter serves this domain");
    }
    Ok(Code::Ok)
}

fn end(mut connection: Connection, args: &ShutdownArgs) -> Result<Ended, Failure> {
    let pid = connection.welcome().pid;
    // Opened while it lives, so that its number cannot be somebody else's.
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let wish = Shutdown {
        running: match (args.wait, args.stop) {
            (true, _) => Running::Wait,
            (false, true) => Running::Stop,
            (false, false) => Running::Refuse,
        },
        grace_ms: args
            .grace
            .map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
    };
    let begun: ShutdownBegun = connection
        .call(Method::Shutdown, wish, &[])
        .map_err(refused)?;
    // What it says meanwhile does not matter: the connection ends when it does.
    while let Ok(Some(_)) = connection.receive() {}
    if let Some(process) = process {
        let mut polled = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut polled, None) == Err(Errno::INTR) {}
    }
    Ok(Ended {
        pid: Some(pid),
        operations: begun.operations,
    })
}

/// The arbiter knows no options of ours.
fn refused(error: CallError) -> Failure {
    let failure = Failure::from(error);
    match failure.kind() {
        kind::RUNNING => failure.hint("--wait waits for what runs, --stop stops it"),
        _ => failure,
    }
}
