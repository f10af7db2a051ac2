//! `xioflow attach`: an operation of somebody else, from its first byte to its end. One that has
//! ended is printed from the record, as often as asked.

use std::path::Path;
use std::time::Duration;

use xioflow_kernel::journal::{OperationStatus, OwnerState, Query, Reader};
use xioflow_kernel::{Attachment, Domain, ExecuteError, NotActive};

use super::ending::{self, Face};
use super::{logs, lost, operation, report};
use crate::args::{AttachArgs, Cli};
use crate::exit::{self, Code};
use crate::failure::Failure;
use crate::passthrough::{self, Passed};
use crate::signals;
use crate::{arbiter, domain, output};

pub(crate) fn run(cli: &Cli, args: &AttachArgs) -> Result<Code, Failure> {
    let folder = domain::locate(cli.domain())?;
    if let Some(code) = from_record(&folder, args)? {
        return Ok(code);
    }
    // What its owner has left is settled by the arbiter that is started.
    let domain = arbiter::open(&folder)?;
    report::recovered(&domain, args.quiet);
    match domain.attach(&args.operation) {
        Ok(attachment) => follow(&domain, attachment, args),
        Err(error @ NotActive::AlreadyCompleted { .. }) => match from_record(&folder, args)? {
            Some(code) => Ok(code),
            // It was refused before anything was recorded.
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Prints an operation that has ended; `None` if it has not, as far as the record knows.
fn from_record(folder: &Path, args: &AttachArgs) -> Result<Option<Code>, Failure> {
    let reader = Reader::open(folder)?;
    // Who waits for a lease is in no record yet, but the owner knows it.
    let operation = match reader.operation(&args.operation)? {
        None if reader.owner_state() == OwnerState::Free => operation(&reader, &args.operation)?,
        None => return Ok(None),
        Some(operation) => operation,
    };
    if operation.status != OperationStatus::Done {
        return Ok(None);
    }
    let face = Face::from(args);
    let result = ending::recorded(&reader, &operation, &face)?;
    if !face.json {
        logs::print_recorded(folder, &operation.id)?;
    }
    ending::conclude(&face, &result, None, exit::of_recorded(&result, None)).map(Some)
}

fn follow(domain: &Domain, mut attachment: Attachment, args: &AttachArgs) -> Result<Code, Failure> {
    let face = Face::from(args);
    let kept = if face.json { face.max_output_bytes } else { 0 };
    let by = signals::forward(attachment.canceller(), Duration::ZERO)?;
    let passing = match face.json {
        true => None,
        false => {
            let leave = attachment.canceller();
            Some(passthrough::start(
                attachment.take_subscription(),
                None,
                Some(leave),
            )?)
        }
    };
    let ended = attachment.max_output_bytes(kept).wait();
    let passed = passing.map_or_else(Passed::default, |it| it.join().unwrap_or_default());
    passed.notes.iter().for_each(|note| output::complain(note));
    match ended {
        Err(ExecuteError::JoinAbandoned { .. }) if passed.left => Ok(Code::Ok),
        Err(ExecuteError::JoinAbandoned { operation_id }) => {
            Err(ending::left(&operation_id, by.signal()))
        }
        Err(ExecuteError::ArbiterLost { operation_id }) => {
            lost::report(domain.folder(), &operation_id, &passed, &face)
        }
        ended => {
            let result = ended?;
            ending::conclude(&face, &result, None, exit::of_result(&result, None))
        }
    }
}
