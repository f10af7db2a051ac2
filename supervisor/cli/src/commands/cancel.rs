//! `xioflow cancel`: stops an operation that somebody else started.

use std::path::Path;

use serde::Serialize;
use xioflow_kernel::journal::{Outcome, OwnerState, Query, Reader};
use xioflow_kernel::{Attachment, DEFAULT_CANCEL_GRACE, OperationResult, StopManner};

use super::{operation, report};
use crate::args::{CancelArgs, Cli};
use crate::exit::Code;
use crate::failure::Failure;
use crate::{arbiter, domain, output, shell};

/// What a program reads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled<'a> {
    operation_id: &'a str,
    /// It is asked to end; whether it does is in its result.
    stopping: bool,
}

pub(crate) fn run(cli: &Cli, args: &CancelArgs) -> Result<Code, Failure> {
    let folder = domain::locate(cli.domain())?;
    let id = &args.operation;
    let Some(domain) = arbiter::attached(&folder)? else {
        return Err(not_served(&folder, id)?);
    };
    // Attached to before it is stopped: an end that comes at once is not missed.
    let attachment = match args.wait {
        true => Some(domain.attach(id)?),
        false => None,
    };
    let manner = match args.kill {
        true => StopManner::Kill,
        false => StopManner::Terminate,
    };
    domain.cancel(id, manner, args.grace.unwrap_or(DEFAULT_CANCEL_GRACE))?;
    match attachment {
        Some(attachment) => ended(args, &end_of(attachment)?),
        None if args.json => {
            let operation_id = id.as_str();
            output::print_json(&Cancelled {
                operation_id,
                stopping: true,
            })?;
            Ok(Code::Ok)
        }
        None => Ok(Code::Ok),
    }
}

fn end_of(attachment: Attachment) -> Result<OperationResult, Failure> {
    Ok(attachment.max_output_bytes(0).wait()?)
}

/// However it has ended, it does not run any more. Only where that cannot be proven, it may.
fn ended(args: &CancelArgs, result: &OperationResult) -> Result<Code, Failure> {
    if args.json {
        output::print_json(result)?;
    }
    match result.status {
        Outcome::Indeterminate => {
            report::result(result, None, Code::Indeterminate, false);
            Ok(Code::Indeterminate)
        }
        _ => Ok(Code::Ok),
    }
}

/// Why nobody can be asked to stop it.
fn not_served(folder: &Path, id: &str) -> Result<Failure, Failure> {
    let reader = Reader::open(folder)?;
    let owner = reader.owner_state();
    let operation = match (reader.operation(id)?, &owner) {
        (Some(operation), _) => operation,
        // Who waits for a lease is in no record yet.
        (None, OwnerState::Held { .. }) => return Ok(embedded(id, &owner)),
        (None, _) => operation(&reader, id)?,
    };
    if let Some(outcome) = operation.outcome {
        let message = format!("operation {id} has already ended: {}", outcome.as_str());
        return Ok(Failure::new("already_completed", Code::No, message)
            .hint(format!("`xioflow show {}` says how", shell::word(id))));
    }
    if owner != OwnerState::Free {
        return Ok(embedded(id, &owner));
    }
    let message = format!("nobody runs operation {id}: its owner is gone");
    Ok(
        Failure::new("recovery_required", Code::Indeterminate, message).hint(format!(
            "`xioflow attach {}` has it settled, and says what became of it",
            shell::word(id)
        )),
    )
}

/// An owner without a socket can only be told by a signal.
fn embedded(id: &str, owner: &OwnerState) -> Failure {
    let OwnerState::Held { note: Some(note) } = owner else {
        let message =
            format!("the owner of the domain, who runs operation {id}, takes no requests");
        return Failure::new("domain_locked", Code::Busy, message);
    };
    let message = format!(
        "the domain is held by process {}, which runs operation {id} itself and takes no requests",
        note.owner_pid
    );
    let hint = format!(
        "if that is `xioflow run`, `kill {}` stops it",
        note.owner_pid
    );
    Failure::new("domain_locked", Code::Busy, message).hint(hint)
}
