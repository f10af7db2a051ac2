//! `xioflow cancel`: stops an operation that somebody else started.

use serde::Serialize;
use xioflow_kernel::journal::Outcome;
use xioflow_kernel::{Attachment, DEFAULT_CANCEL_GRACE, OperationResult, StopManner};

use super::report;
use super::unserved::{self, Hints};
use crate::args::{CancelArgs, Cli};
use crate::exit::Code;
use crate::failure::Failure;
use crate::{arbiter, domain, output};

/// What stops it where nobody can be asked.
const HINTS: Hints = Hints {
    embedded: |pid| format!("if that is `xioflow run`, `kill {pid}` stops it"),
};

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
        return Err(unserved::failure(&folder, id, &HINTS)?);
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
