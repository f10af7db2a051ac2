//! Why nobody can be asked about an operation: it is over, its owner is gone, or executes for itself. `cancel`, `pause`
//! and `resume` say so.

use std::path::Path;

use xioflow_kernel::journal::{OwnerState, Query, Reader};

use super::operation;
use crate::exit::Code;
use crate::failure::Failure;
use crate::shell;

/// What can be done where nobody can be asked.
pub(super) struct Hints {
    /// About the process that runs it and takes no requests, by its number.
    pub(super) embedded: fn(u32) -> String,
}

/// Why nobody can be asked about it.
pub(super) fn failure(folder: &Path, id: &str, hints: &Hints) -> Result<Failure, Failure> {
    let reader = Reader::open(folder)?;
    let owner = reader.owner_state();
    let operation = match (reader.operation(id)?, &owner) {
        (Some(operation), _) => operation,
        // Who waits for a lease is in no record yet.
        (None, OwnerState::Held { .. }) => return Ok(embedded(id, &owner, hints)),
        (None, _) => operation(&reader, id)?,
    };
    if let Some(outcome) = operation.outcome {
        let message = format!("operation {id} has already ended: {}", outcome.as_str());
        return Ok(Failure::new("already_completed", Code::No, message)
            .hint(format!("`xioflow show {}` says how", shell::word(id))));
    }
    if owner != OwnerState::Free {
        return Ok(embedded(id, &owner, hints));
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
fn embedded(id: &str, owner: &OwnerState, hints: &Hints) -> Failure {
    let OwnerState::Held { note: Some(note) } = owner else {
        let message =
            format!("the owner of the domain, who runs operation {id}, takes no requests");
        return Failure::new("domain_locked", Code::Busy, message);
    };
    let message = format!(
        "the domain is held by process {}, which runs operation {id} itself and takes no requests",
        note.owner_pid
    );
    let hint = (hints.embedded)(note.owner_pid);
    Failure::new("domain_locked", Code::Busy, message).hint(hint)
}
