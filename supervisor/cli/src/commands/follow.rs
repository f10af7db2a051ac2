//! Going on while a domain changes: for the verbs that follow.

use std::time::{Duration, Instant};

use xioflow_kernel::journal::{Operation, Query, Reader};

use super::operation;
use crate::failure::Failure;

/// How long one sleep may be; it ends at each commit, whatever this says.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Sleeps until there are events after this position.
pub(super) fn sleep(reader: &Reader, after: i64) -> Result<(), Failure> {
    while reader.changed_since(after, SLEEP_MAX)?.is_none() {}
    Ok(())
}

/// The operation of this id, which may be still to come.
pub(super) fn awaited(reader: &Reader, id: &str, wait: Duration) -> Result<Operation, Failure> {
    let begun = Instant::now();
    loop {
        // The position is older than the look, so no operation comes unnoticed between the two.
        let seq = reader.last_seq()?;
        if let Some(operation) = reader.operation(id)? {
            return Ok(operation);
        }
        let left = wait.saturating_sub(begun.elapsed());
        if left.is_zero() || reader.changed_since(seq, left)?.is_none() {
            return operation(reader, id);
        }
    }
}
