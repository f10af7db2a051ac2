//! One file for each command. Those that only read do so beside a running owner or without one, and
//! start nothing.

pub(crate) mod adjudicate;
pub(crate) mod arbiter;
pub(crate) mod attach;
pub(crate) mod cancel;
pub(crate) mod doctor;
mod ending;
pub(crate) mod events;
mod follow;
pub(crate) mod list;
pub(crate) mod logs;
mod lost;
mod owning;
pub(crate) mod prune;
pub(crate) mod recover;
mod report;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod shutdown;
pub(crate) mod stand;
pub(crate) mod status;
mod unserved;

use xioflow_kernel::journal::{Operation, Query, Reader};

use crate::args::Cli;
use crate::domain;
use crate::exit::Code;
use crate::failure::Failure;

/// Opens the domain for reading.
fn reader(cli: &Cli) -> Result<Reader, Failure> {
    Ok(Reader::open(domain::locate(cli.domain())?)?)
}

/// The operation of this id.
fn operation(reader: &Reader, id: &str) -> Result<Operation, Failure> {
    reader.operation(id)?.ok_or_else(|| {
        Failure::new(
            "not_found",
            Code::No,
            format!("there is no operation {id} in this domain"),
        )
        .hint("`xioflow list` shows those that there are")
    })
}
