//! What `run` and `attach` print when an operation has its result, and with which status they end.

use std::path::Path;

use xioflow_kernel::journal::{Operation, Query, Reader};
use xioflow_kernel::{DEFAULT_MAX_OUTPUT_BYTES, OperationResult, Reuse, stored_result};

use super::{logs, report};
use crate::args::{AttachArgs, RunArgs};
use crate::exit::{self, Code, SIGINT};
use crate::failure::Failure;
use crate::passthrough::Passed;
use crate::views::WithViews;
use crate::{output, shell};

/// Whom it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Face {
    pub(crate) json: bool,
    pub(crate) text_view: bool,
    pub(crate) quiet: bool,
    /// How much of each stream a document holds, in bytes.
    pub(crate) max_output_bytes: usize,
}

impl From<&RunArgs> for Face {
    fn from(args: &RunArgs) -> Self {
        Self {
            json: args.json,
            text_view: args.text_view,
            quiet: args.quiet,
            max_output_bytes: usize::try_from(args.max_output).unwrap_or(usize::MAX),
        }
    }
}

impl From<&AttachArgs> for Face {
    fn from(args: &AttachArgs) -> Self {
        Self {
            json: args.json,
            text_view: false,
            quiet: args.quiet,
            max_output_bytes: DEFAULT_MAX_OUTPUT_BYTES,
        }
    }
}

/// Prints a result, and what of its output has not passed through: all of one that was recorded before, and
/// the beginning of one that was joined when it had printed already.
pub(super) fn finish(
    face: &Face,
    folder: &Path,
    result: &OperationResult,
    passed: &Passed,
    cancelled_by: Option<i32>,
) -> Result<Code, Failure> {
    let id = &result.operation_id;
    let note = match result.reused {
        Reuse::Executed => None,
        Reuse::JoinedInFlight => Some(format!("operation {id} ran already, and was joined")),
        Reuse::ReplayedRecorded => Some(format!(
            "operation {id} was not executed again; this is its recorded result"
        )),
    };
    if note.is_some() && !face.json {
        logs::print_rest(folder, id, passed.ends)?;
    }
    let note = note.filter(|_| !face.quiet);
    conclude(face, result, note, exit::of_result(result, cancelled_by))
}

/// Prints what is to be said of a result beside its output.
pub(super) fn conclude(
    face: &Face,
    result: &OperationResult,
    note: Option<String>,
    code: Code,
) -> Result<Code, Failure> {
    if face.json && face.text_view {
        output::print_json(&WithViews::of(result))?;
    } else if face.json {
        output::print_json(result)?;
    }
    report::result(result, note, code, face.quiet);
    Ok(code)
}

/// The recorded result of an operation that has one.
pub(super) fn recorded(
    reader: &Reader,
    operation: &Operation,
    face: &Face,
) -> Result<OperationResult, Failure> {
    let kept = if face.json { face.max_output_bytes } else { 0 };
    let outputs = reader.outputs(&operation.id)?;
    stored_result(operation, &outputs, &reader.dir().artifacts(), kept)
        .map_err(|error| Failure::of("result_unreadable", Code::Internal, &error))
}

/// What is said when whoever waits for an operation of somebody else goes away.
pub(super) fn left(operation_id: &str, signal: Option<i32>) -> Failure {
    let message = format!("left operation {operation_id}, which goes on");
    let code = exit::by_signal(signal.unwrap_or(SIGINT));
    let id = shell::word(operation_id);
    Failure::new("left", code, message).hint(format!(
        "`xioflow attach {id}` comes back to it, `xioflow cancel {id}` stops it"
    ))
}
