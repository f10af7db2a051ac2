//! How a verb that changes the record comes to the domain: through its arbiter, or as its owner for a moment.

use std::path::Path;

use xioflow_kernel::journal::Reader;
use xioflow_kernel::{Arbiter, Domain, DomainOptions};

use super::report;
use crate::failure::Failure;

/// Opens a domain that is there. What its last owner has left unfinished is settled by that, and told.
pub(super) fn open(folder: &Path) -> Result<Domain, Failure> {
    // Nothing is made where there is no domain.
    Reader::open(folder)?;
    let options = DomainOptions::default()
        .warm_helpers(0)
        .arbiter(Arbiter::Attach);
    let domain = options.open(folder)?;
    report::recovered(&domain, false);
    Ok(domain)
}
