//! `xioflow adjudicate`: a person decides about an operation whose end cannot be proven, through the arbiter if one serves
//! the domain.

use serde::Serialize;
use xioflow_kernel::journal::{Adjudication, AdjudicationVerdict, Query, Reader};

use super::{operation, owning};
use crate::args::{AdjudicateArgs, Cli, Verdict};
use crate::domain;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};

/// What a program reads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Adjudicated<'a> {
    operation_id: &'a str,
    adjudication: &'a Adjudication,
    /// What the operation had kept until then.
    freed: &'a [String],
}

pub(crate) fn run(cli: &Cli, args: &AdjudicateArgs) -> Result<Code, Failure> {
    let folder = domain::locate(cli.domain())?;
    let id = args.operation.as_str();
    let reader = Reader::open(&folder)?;
    // Nobody's domain is taken for an operation that is not there.
    operation(&reader, id)?;
    let kept = kept(&reader, id)?;
    let verdict = match args.verdict {
        Verdict::ConfirmedStopped => AdjudicationVerdict::ConfirmedStopped,
        Verdict::AbandonWithResiduals => AdjudicationVerdict::AbandonWithResiduals,
    };
    let domain = owning::open(&folder)?;
    let adjudication = domain.adjudicate(id, verdict, &args.actor, args.note.as_deref())?;
    if args.json {
        print_json(&Adjudicated {
            operation_id: id,
            adjudication: &adjudication,
            freed: &kept,
        })?;
    } else {
        print(&text(id, &adjudication, &kept))?;
    }
    Ok(Code::Ok)
}

fn kept(reader: &Reader, id: &str) -> Result<Vec<String>, Failure> {
    let leases = reader.leases()?.into_iter();
    let of_it = leases.filter(|lease| lease.operation_id == id);
    Ok(of_it.map(|lease| lease.resource_id).collect())
}

fn text(id: &str, adjudication: &Adjudication, kept: &[String]) -> String {
    let id = printable(id);
    let decided = match adjudication.verdict {
        AdjudicationVerdict::ConfirmedStopped => "is confirmed to be stopped",
        AdjudicationVerdict::AbandonWithResiduals => "is abandoned",
    };
    let mut text = format!(
        "operation {id} {decided}, by {}\n",
        printable(&adjudication.actor)
    );
    if !adjudication.residual_pids.is_empty() {
        let pids: Vec<String> = adjudication
            .residual_pids
            .iter()
            .map(u32::to_string)
            .collect();
        text += &format!("left alive: {}\n", pids.join(", "));
    }
    if !kept.is_empty() {
        text += &format!("freed: {}\n", printable(&kept.join(", ")));
    }
    text
}
