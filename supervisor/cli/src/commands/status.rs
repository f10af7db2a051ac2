//! `xioflow status`: who owns the domain and what is going on in it.

use serde::Serialize;
use xioflow_kernel::journal::Query;

use super::reader;
use crate::args::{Cli, StatusArgs};
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};
use crate::views::{LeaseView, OperationLine, OwnerView};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    domain: String,
    owner: OwnerView,
    unfinished: Vec<OperationLine>,
    operations_total: u64,
    indeterminate_total: u64,
    leases: Vec<LeaseView>,
    last_seq: i64,
}

pub(crate) fn run(cli: &Cli, args: &StatusArgs) -> Result<Code, Failure> {
    let reader = reader(cli)?;
    let counts = reader.counts()?;
    let status = Status {
        domain: reader.dir().root().display().to_string(),
        owner: reader.owner_state().into(),
        unfinished: reader
            .unfinished()?
            .iter()
            .map(OperationLine::from)
            .collect(),
        operations_total: counts.total,
        indeterminate_total: counts.indeterminate,
        leases: reader.leases()?.into_iter().map(LeaseView::from).collect(),
        last_seq: reader.last_seq()?,
    };
    if args.json {
        print_json(&status)?;
    } else {
        print(&text(&status)?)?;
    }
    Ok(Code::Ok)
}

fn text(status: &Status) -> Result<String, Failure> {
    let owner = match (&status.owner.note, &status.owner.why) {
        (Some(note), _) => {
            format!(
                "process {} on {} since {}",
                note.owner_pid, note.hostname, note.acquired_at
            )
        }
        (None, Some(why)) => format!("cannot tell ({why})"),
        (None, None) => status.owner.state.to_owned(),
    };
    let mut text = format!(
        "domain      {}\nowner       {}\noperations  {} ({} unfinished, {} indeterminate)\nevents      {}\n",
        printable(&status.domain),
        printable(&owner),
        status.operations_total,
        status.unfinished.len(),
        status.indeterminate_total,
        status.last_seq,
    );
    for lease in &status.leases {
        text.push_str(&format!(
            "lease       {} held by {}\n",
            printable(&lease.resource),
            printable(&lease.operation_id)
        ));
    }
    Ok(text)
}
