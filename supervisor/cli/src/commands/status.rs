//! `xioflow status`: who owns the domain and what is going on in it: by the lock, by the arbiter if one
//! serves it, and by the record.

use std::path::Path;

use serde::Serialize;
use xioflow_kernel::journal::Query;
use xioflow_rpc::domain as rpc;
use xioflow_rpc::method::Method;

use super::reader;
use crate::arbiter;
use crate::args::{Cli, StatusArgs};
use crate::duration::format_ms;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};
use crate::size::format_size;
use crate::views::{LeaseView, OperationLine, OwnerView};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    domain: String,
    /// Asked of the lock.
    owner: OwnerView,
    /// Asked of the arbiter; null if none serves the domain.
    arbiter: Option<Arbiter>,
    /// Read from the record, like all that follows.
    unfinished: Vec<OperationLine>,
    operations_total: u64,
    /// Those of the unfinished ones that stand still.
    paused_total: u64,
    indeterminate_total: u64,
    /// Those of them about which nobody has decided.
    unadjudicated_total: u64,
    leases: Vec<LeaseView>,
    last_seq: i64,
}

/// What an arbiter says of itself, or why it says nothing.
#[derive(Serialize)]
#[serde(untagged)]
enum Arbiter {
    Says(rpc::Status),
    Silent { error: String },
}

impl Arbiter {
    /// Asks it. An arbiter that cannot be asked is no reason not to tell what is recorded.
    fn ask(folder: &Path) -> Option<Self> {
        let silent = |failure: &Failure| Self::Silent {
            error: failure.message().to_owned(),
        };
        match arbiter::connect(folder) {
            Ok(None) => None,
            Err(failure) => Some(silent(&failure)),
            Ok(Some(mut connection)) => {
                let answer = connection.call(Method::Status, rpc::StatusOf {}, &[]);
                Some(answer.map_or_else(|error| silent(&error.into()), Self::Says))
            }
        }
    }
}

pub(crate) fn run(cli: &Cli, args: &StatusArgs) -> Result<Code, Failure> {
    let reader = reader(cli)?;
    let counts = reader.counts()?;
    let unfinished = reader.unfinished()?;
    let paused = unfinished.iter().filter(|it| it.pause.is_some()).count();
    let status = Status {
        domain: reader.dir().root().display().to_string(),
        owner: reader.owner_state().into(),
        arbiter: Arbiter::ask(reader.dir().root()),
        unfinished: unfinished.iter().map(OperationLine::from).collect(),
        paused_total: paused as u64,
        operations_total: counts.total,
        indeterminate_total: counts.indeterminate,
        unadjudicated_total: counts.unadjudicated,
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
            let role = note.role.map(|role| format!(" ({role})"));
            format!(
                "process {}{} on {} since {}",
                note.owner_pid,
                role.unwrap_or_default(),
                note.hostname,
                note.acquired_at
            )
        }
        (None, Some(why)) => format!("cannot tell ({why})"),
        (None, None) => status.owner.state.to_owned(),
    };
    let mut text = format!(
        "domain      {}\nowner       {}\narbiter     {}\noperations  {} ({} unfinished{}, {} indeterminate{})\nevents      {}\n",
        printable(&status.domain),
        printable(&owner),
        printable(&said(status.arbiter.as_ref())),
        status.operations_total,
        status.unfinished.len(),
        match status.paused_total {
            0 => String::new(),
            paused => format!(" of which {paused} paused"),
        },
        status.indeterminate_total,
        match status.unadjudicated_total {
            0 => String::new(),
            1 => ", 1 of them waits for `xioflow adjudicate`".to_owned(),
            waiting => format!(", {waiting} of them wait for `xioflow adjudicate`"),
        },
        status.last_seq,
    );
    if let Some(Arbiter::Says(says)) = &status.arbiter
        && let Some(budget) = says.budget.as_ref().and_then(budget)
    {
        text.push_str(&format!("budget      {budget}\n"));
    }
    for lease in &status.leases {
        text.push_str(&format!(
            "lease       {} held by {}\n",
            printable(&lease.resource),
            printable(&lease.operation_id)
        ));
    }
    Ok(text)
}

/// What an arbiter says, in one line.
fn said(arbiter: Option<&Arbiter>) -> String {
    let says = match arbiter {
        None => return "none".to_owned(),
        Some(Arbiter::Silent { error }) => return format!("cannot tell ({error})"),
        Some(Arbiter::Says(says)) => says,
    };
    let ends = match (says.shutting_down, says.idle_ms) {
        (true, _) => "is ending".to_owned(),
        (false, Some(idle_ms)) => format!("ends after {} without any", format_ms(idle_ms)),
        (false, None) => "does not end by itself".to_owned(),
    };
    // This program's own connection is none of a client.
    let clients = says.connections.saturating_sub(1);
    format!(
        "process {} of release {}: {}, {} in flight, {ends}",
        says.pid,
        says.release,
        count(clients, "client"),
        count(says.in_flight.len() as u64, "operation"),
    )
}

/// What operations have of the domain's budget, in one line; none where nothing is limited and nobody waits.
fn budget(budget: &rpc::Budget) -> Option<String> {
    let places = budget
        .max_operations
        .map(|max| format!("{} of {}", budget.operations, count(max, "operation")));
    let amount = |taken: u64, max: Option<u64>, of: &str| {
        max.map(|max| format!("{} of {} of {of}", format_size(taken), format_size(max)))
    };
    let waiting = (budget.waiting > 0).then(|| format!("{} waiting", budget.waiting));
    let parts: Vec<String> = [
        places,
        amount(budget.memory_bytes, budget.max_memory_bytes, "memory"),
        amount(
            budget.output_bytes,
            budget.max_output_bytes,
            "stored output",
        ),
        waiting,
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
