//! A recorded result, with its output read back from where it is stored.

use std::path::Path;

use xioflow_journal::{Operation, Output};

use crate::output::read_back;
use crate::result::{OperationResult, StreamPart};

/// Why a recorded result cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The operation has none yet.
    #[error("operation {operation_id} has no result yet")]
    Unfinished {
        /// The operation.
        operation_id: String,
    },
    /// It was written by a release with another form of results.
    #[error("the recorded result of operation {operation_id} cannot be read")]
    Foreign {
        /// The operation.
        operation_id: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// Reads the result of a finished operation, with at most `limit` bytes of each stream.
///
/// It needs neither the command nor a submission, and works from another process beside the owner
/// (with a [`Reader`](xioflow_journal::Reader)). [`OperationResult::replayed`] is as recorded, false.
///
/// # Examples
/// ```
/// # let stage = xioflow_kit::Stage::new();
/// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
/// # let domain = options.open(stage.domain())?;
/// use xioflow_kernel::journal::Query;
/// use xioflow_kernel::{Command, stored_result};
///
/// domain.operation(Command::new("/bin/echo").arg("done"))?.id("job-7").run()?;
///
/// let journal = domain.journal();
/// let operation = journal.operation("job-7")?.ok_or("no such operation")?;
/// let artifacts = domain.folder().join("artifacts");
/// let result = stored_result(&operation, &journal.outputs("job-7")?, &artifacts, 64 * 1024)?;
/// assert_eq!(result.stdout, "done\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A stored file that is gone or unreadable is reported in the result as that stream's storage
/// error; everything else of the result is as it was recorded.
///
/// # Errors
/// [`StoredError`] says by cause why there is no result.
pub fn stored_result(
    operation: &Operation,
    outputs: &[Output],
    artifacts: &Path,
    limit: usize,
) -> Result<OperationResult, StoredError> {
    let recorded = operation
        .result
        .clone()
        .ok_or_else(|| StoredError::Unfinished {
            operation_id: operation.id.clone(),
        })?;
    let mut result: OperationResult =
        serde_json::from_value(recorded).map_err(|source| StoredError::Foreign {
            operation_id: operation.id.clone(),
            source,
        })?;
    result.adjudication.clone_from(&operation.adjudication);
    if result.adjudication.is_some() {
        // It says what to do until somebody has decided, and that the leases are kept until then.
        result.recovery_guidance = None;
    }
    for output in outputs {
        let mut output = output.clone();
        let kept = read_back(&mut output, artifacts, limit);
        result.set_stream(StreamPart {
            kept: kept.bytes,
            truncated: kept.truncated,
            output,
        });
    }
    Ok(result)
}
