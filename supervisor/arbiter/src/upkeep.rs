//! What people do about a domain, asked through its arbiter: ends that are not known are decided about, stored output is
//! removed. It may take long, so it runs beside the loop.

use std::time::Duration;

use xioflow_journal::AdjudicationVerdict;
use xioflow_kernel::{Domain, PruneOptions, Pruned, PrunedFile, Tally};
use xioflow_rpc::refusal::Fault;
use xioflow_rpc::upkeep as rpc;

use crate::convert::stream_out;
use crate::refusal;

/// `op.adjudicate`.
pub(crate) fn adjudicate(
    domain: &Domain,
    asked: rpc::Adjudicate,
) -> Result<rpc::Adjudicated, Fault> {
    let verdict = match asked.verdict {
        rpc::Verdict::ConfirmedStopped => AdjudicationVerdict::ConfirmedStopped,
        rpc::Verdict::AbandonWithResiduals => AdjudicationVerdict::AbandonWithResiduals,
    };
    let (id, note) = (&asked.operation_id, asked.note.as_deref());
    let decided = domain.adjudicate(id, verdict, &asked.actor, note);
    let decided = decided.map_err(|error| refusal::of_adjudicate(&error))?;
    Ok(rpc::Adjudicated {
        operation_id: asked.operation_id,
        verdict: asked.verdict,
        actor: decided.actor,
        note: decided.note,
        residual_pids: decided.residual_pids,
        decided_at_ms: decided.decided_at_ms,
    })
}

/// `artifacts.prune`.
pub(crate) fn prune(domain: &Domain, asked: &rpc::Prune) -> Result<rpc::Pruned, Fault> {
    let options = PruneOptions {
        max_age: asked.max_age_ms.map(Duration::from_millis),
        max_bytes: asked.max_bytes,
        dry_run: asked.dry_run,
    };
    let pruned = domain.prune(&options);
    pruned.map(told).map_err(|error| refusal::of_prune(&error))
}

fn told(pruned: Pruned) -> rpc::Pruned {
    let obstacles = pruned.obstacles.into_iter().map(|it| rpc::Obstacle {
        name: it.name,
        what: it.what,
    });
    rpc::Pruned {
        dry_run: pruned.dry_run,
        removed: pruned.removed.into_iter().map(file).collect(),
        removed_total: tally(pruned.removed_total),
        leftovers: tally(pruned.leftovers),
        kept: rpc::Kept {
            unfinished: tally(pruned.kept.unfinished),
            indeterminate: tally(pruned.kept.indeterminate),
            open_run: tally(pruned.kept.open_run),
        },
        obstacles: obstacles.collect(),
        obstacles_total: pruned.obstacles_total,
        missing_total: pruned.missing_total,
        unknown: pruned.unknown,
        unknown_total: tally(pruned.unknown_total),
        bytes_before: pruned.bytes_before,
        bytes_after: pruned.bytes_after,
    }
}

fn file(file: PrunedFile) -> rpc::PrunedFile {
    rpc::PrunedFile {
        operation_id: file.operation_id,
        stream: stream_out(file.stream),
        artifact: file.artifact,
        bytes: file.bytes,
        reason: file.reason.as_str().to_owned(),
    }
}

fn tally(tally: Tally) -> rpc::Tally {
    rpc::Tally {
        files: tally.files,
        bytes: tally.bytes,
    }
}
