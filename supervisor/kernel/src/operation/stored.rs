//! A recorded result, with its output read back from where it is stored.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xioflow_journal::{Operation, Output};

use crate::output::{HeadTail, Kept};
use crate::plain_file;
use crate::result::{OperationResult, StreamPart};

/// What is read from a stored file at once.
const READ_LEN: usize = 64 * 1024;

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

fn read_back(output: &mut Output, artifacts: &Path, limit: usize) -> Kept {
    let mut kept = HeadTail::new(limit);
    if let Some(content) = &output.content {
        kept.push(content);
        return kept.finish();
    }
    let Some(artifact) = &output.artifact else {
        kept.skip(output.total_bytes);
        return kept.finish();
    };
    let path = artifacts.join(artifact);
    if let Err(error) = read_file(&path, output.total_bytes, &mut kept) {
        output.spill_error = Some(format!("failed to read {}: {error}", path.display()));
        kept = HeadTail::new(limit);
        kept.skip(output.total_bytes);
    }
    kept.finish()
}

/// Reads what the limit needs of a file: its beginning and its end.
fn read_file(path: &Path, len: u64, kept: &mut HeadTail) -> io::Result<()> {
    let file = plain_file::open(path)?;
    let head = len.min(kept.head_max() as u64);
    read_range(&file, 0, head, kept)?;
    let from = kept.resume_at(len);
    kept.skip(from - kept.total());
    read_range(&file, from, len, kept)
}

fn read_range(file: &File, from: u64, to: u64, kept: &mut HeadTail) -> io::Result<()> {
    let mut buffer = vec![0; READ_LEN];
    let mut at = from;
    while at < to {
        let wanted = usize::try_from(to - at).unwrap_or(READ_LEN).min(READ_LEN);
        file.read_exact_at(&mut buffer[..wanted], at)?;
        kept.push(&buffer[..wanted]);
        at += wanted as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_file_reads_back_as_it_was_kept(len in 0usize..5000, limit in 0usize..3000) {
            let bytes: Vec<u8> = (0..len).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            std::fs::write(&path, &bytes).unwrap();
            let mut live = HeadTail::new(limit);
            live.push(&bytes);
            let mut stored = HeadTail::new(limit);
            read_file(&path, len as u64, &mut stored).unwrap();
            prop_assert_eq!(live.finish(), stored.finish());
        }
    }
}
