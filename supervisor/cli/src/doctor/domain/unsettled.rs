//! What waits for somebody: operations whose owner is gone, and ends that nobody knows and nobody has decided about.

use std::collections::BTreeMap;

use serde_json::json;
use xioflow_kernel::journal::{OwnerState, Query, ReadError, Reader};

use super::super::report::{Finding, with_causes};
use super::{NAMED_MAX, said};
use crate::output::printable;
use crate::shell;

pub(super) fn unfinished(reader: &Reader) -> Finding {
    let operations = match reader.unfinished() {
        Ok(operations) => operations,
        Err(error) => return cannot_read(&error),
    };
    let names: Vec<String> = operations.iter().map(|it| printable(&it.id)).collect();
    let total = names.len() as u64;
    let facts =
        json!({ "total": total, "operations": names.iter().take(NAMED_MAX).collect::<Vec<_>>() });
    let finding = match (total, reader.owner_state()) {
        (0, _) => Finding::ready("none"),
        (_, OwnerState::Held { .. }) => {
            let run = if total == 1 { "runs" } else { "run" };
            Finding::ready(format!("{total} {run}: {}", said(&names, total)))
        }
        (_, _) => Finding::weaker(format!(
            "{total} {} left by an owner that is gone: {}",
            if total == 1 { "was" } else { "were" },
            said(&names, total)
        ))
        .with_remedy(Some(format!(
            "xioflow --domain {} recover",
            shell::path(reader.dir().root())
        ))),
    };
    finding.with_facts(facts)
}

pub(super) fn indeterminate(reader: &Reader) -> Finding {
    match undecided(reader) {
        Ok(finding) => finding,
        Err(error) => cannot_read(&error),
    }
}

fn undecided(reader: &Reader) -> Result<Finding, ReadError> {
    let operations = reader.unadjudicated(Some(NAMED_MAX))?;
    let total = reader.counts()?.unadjudicated;
    let mut leases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for lease in reader.leases()? {
        leases
            .entry(lease.operation_id)
            .or_default()
            .push(lease.resource_id);
    }
    let held = |id: &str| leases.get(id).cloned().unwrap_or_default();
    let facts = json!({
        "total": total,
        "operations": operations.iter().map(|it| json!({
            "operationId": it.id,
            "leases": held(&it.id),
            "reason": it.result.as_ref().map(|result| &result["reason"]),
        })).collect::<Vec<_>>(),
    });
    if total == 0 {
        return Ok(Finding::ready("none waits for a decision").with_facts(facts));
    }
    let names: Vec<String> = operations
        .iter()
        .map(|it| match held(&it.id) {
            leases if leases.is_empty() => printable(&it.id),
            leases => format!(
                "{} (keeps {})",
                printable(&it.id),
                printable(&leases.join(", "))
            ),
        })
        .collect();
    let at = shell::path(reader.dir().root());
    let commands: Vec<String> = operations
        .iter()
        .take(super::SAID_MAX)
        .map(|it| {
            let id = shell::word(&printable(&it.id));
            format!(
                "xioflow --domain {at} show {id}   # says what to look for; when nothing of it runs any more:\n\
                 xioflow --domain {at} adjudicate {id} confirmed_stopped --actor NAME"
            )
        })
        .collect();
    Ok(Finding::weaker(format!(
        "{total} {} for a decision: {}",
        if total == 1 { "waits" } else { "wait" },
        said(&names, total)
    ))
    .with_facts(facts)
    .with_remedy(Some(commands.join("\n"))))
}

pub(super) fn cannot_read(error: &ReadError) -> Finding {
    Finding::cannot_tell(with_causes(error))
}
