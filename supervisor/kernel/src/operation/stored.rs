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
