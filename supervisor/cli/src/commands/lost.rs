//! What is told when the arbiter goes away before the result: what the record says once another arbiter
//! has settled it.

use std::path::Path;

use xioflow_kernel::journal::{Query, Reader};

use super::ending::{self, Face};
use super::{logs, report};
use crate::exit::{self, Code};
use crate::failure::Failure;
use crate::passthrough::Passed;
use crate::{arbiter, output, shell};

/// Opens the domain once more, and reports what is recorded of the operation then.
pub(super) fn report(
    folder: &Path,
    operation_id: &str,
    passed: &Passed,
    face: &Face,
) -> Result<Code, Failure> {
    output::complain(&format!(
        "the arbiter went away while operation {operation_id} was under way; what follows is what is known of it"
    ));
    let domain = arbiter::open(folder).map_err(|error| {
        let id = shell::word(operation_id);
        error.hint(format!("`xioflow attach {id}` tries again"))
    })?;
    report::recovered(&domain, face.quiet);
    let reader = Reader::open(folder)?;
    let Some(operation) = reader.operation(operation_id)? else {
        let message =
            format!("operation {operation_id} is not on record: nothing of the command ran");
        return Err(Failure::new("arbiter_lost", Code::Internal, message).hint("run it again"));
    };
    let result = ending::recorded(&reader, &operation, face)?;
    if !face.json {
        logs::print_rest(folder, operation_id, passed.ends)?;
    }
    ending::conclude(face, &result, None, exit::of_result(&result, None))
}
