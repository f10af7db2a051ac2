//! `xioflow arbiter`: serves the domain until it is told to end or nobody needs it. Usually started by
//! a client, as a daemon that reports on a pipe whether it listens.

use std::path::{Path, PathBuf};
use std::time::Duration;

use xioflow_arbiter::{ArbiterOptions, DEFAULT_WAIT, ShutdownHandle, serve};
use xioflow_client::Daemon;
use xioflow_kernel::journal::{OwnerRole, OwnerState, Reader};
use xioflow_rpc::start::StartFault;

use crate::args::{ArbiterArgs, Cli};
use crate::exit::Code;
use crate::failure::Failure;
use crate::{arbiter, domain, output, signals};

pub(crate) fn run(cli: &Cli, args: &ArbiterArgs) -> Result<Code, Failure> {
    // Before anything else: its standard input and output are not what they seem.
    let daemon = match args.daemon {
        true => Some(Daemon::begin().map_err(|error| Failure::of("daemon", Code::Usage, &error))?),
        false => None,
    };
    let mut waiting = Waiting(daemon);
    let served = prepare(cli, args).and_then(|(folder, options)| {
        serve(&folder, options, || waiting.ready(&folder)).map_err(Failure::from)
    });
    match served {
        Ok(_) => Ok(Code::Ok),
        Err(failure) => {
            waiting.failed(&failure);
            Err(failure)
        }
    }
}

fn prepare(cli: &Cli, args: &ArbiterArgs) -> Result<(PathBuf, ArbiterOptions), Failure> {
    let folder = domain::locate(cli.domain())?;
    let shutdown = ShutdownHandle::new().map_err(|error| {
        Failure::of_act(
            "system",
            Code::Internal,
            "failed to make an eventfd",
            &error,
        )
    })?;
    signals::end(shutdown.clone(), args.daemon)?;
    let options = ArbiterOptions {
        idle: args.idle.0,
        client_grace: args.client_grace,
        wait: args.wait.unwrap_or_else(|| wait_for(&folder)),
        warm_helpers: args.warm_helpers,
        max_concurrent_operations: args.max_operations,
        max_total_memory_bytes: arbiter::MAX_TOTAL_MEMORY.or_said(args.max_total_memory)?,
        max_total_output_bytes: arbiter::MAX_TOTAL_OUTPUT.or_said(args.max_total_output)?,
        max_artifact_bytes: arbiter::MAX_ARTIFACTS.or_said(args.max_artifacts)?,
        shutdown: Some(shutdown),
        ..ArbiterOptions::default()
    };
    Ok((folder, options))
}

/// How long to wait for the owner that the domain has. An arbiter may be ending, and then it is gone
/// soon; what an embedded owner does takes as long as it takes.
fn wait_for(folder: &Path) -> Duration {
    let owner = Reader::open(folder).map(|reader| reader.owner_state());
    match owner {
        Ok(OwnerState::Held { note: Some(note) }) if note.role == Some(OwnerRole::Embedded) => {
            Duration::ZERO
        }
        _ => DEFAULT_WAIT,
    }
}

/// Who waits to hear whether it listens.
struct Waiting(Option<Daemon>);

impl Waiting {
    fn ready(&mut self, folder: &Path) {
        match self.0.take() {
            Some(daemon) => daemon.ready(),
            None => output::complain(&format!("serving the domain in {}", folder.display())),
        }
    }

    fn failed(&mut self, failure: &Failure) {
        if let Some(daemon) = self.0.take() {
            daemon.failed(StartFault::from(failure));
        }
    }
}
