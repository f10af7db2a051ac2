//! What an arbiter does about what is recorded: it decides about ends that are not known, and removes stored output.

use xioflow_journal::{Adjudication, AdjudicationVerdict, Stream};
use xioflow_rpc::method::Method;
use xioflow_rpc::{operation as rpc_operation, upkeep as rpc};

use super::Attached;
use super::ask::Asked;
use super::fault::{adjudicate_error, prune_error};
use super::request::millis;
use crate::adjudication::AdjudicateError;
use crate::error::ArbiterError;
use crate::prune::{KeptFiles, Obstacle, PruneError, PruneOptions, Pruned, PrunedFile, Tally};

impl Attached {
    /// Decides about an operation whose end could not be proven.
    pub(crate) fn adjudicate(
        &self,
        operation_id: &str,
        verdict: AdjudicationVerdict,
        actor: &str,
        note: Option<&str>,
    ) -> Result<Adjudication, AdjudicateError> {
        if self.is_closed() {
            return Err(AdjudicateError::DomainClosed);
        }
        let asked = rpc::Adjudicate {
            operation_id: operation_id.to_owned(),
            verdict: match verdict {
                AdjudicationVerdict::ConfirmedStopped => rpc::Verdict::ConfirmedStopped,
                AdjudicationVerdict::AbandonWithResiduals => rpc::Verdict::AbandonWithResiduals,
            },
            actor: actor.to_owned(),
            note: note.map(str::to_owned),
        };
        match self.ask::<rpc::Adjudicated>(Method::Adjudicate, asked) {
            Ok(told) => Ok(Adjudication {
                verdict,
                actor: told.actor,
                note: told.note,
                residual_pids: told.residual_pids,
                decided_at_ms: told.decided_at_ms,
            }),
            Err(Asked::Refused(fault)) => Err(adjudicate_error(fault, operation_id)),
            Err(Asked::Failed(error)) => Err(AdjudicateError::Arbiter(Box::new(error))),
        }
    }

    /// Removes stored output.
    pub(crate) fn prune(&self, options: &PruneOptions) -> Result<Pruned, PruneError> {
        if self.is_closed() {
            return Err(PruneError::DomainClosed);
        }
        let asked = rpc::Prune {
            max_age_ms: options.max_age.map(millis),
            max_bytes: options.max_bytes,
            dry_run: options.dry_run,
        };
        match self.ask::<rpc::Pruned>(Method::Prune, asked) {
            Ok(told) => pruned(told).map_err(|error| PruneError::Arbiter(Box::new(error))),
            Err(Asked::Refused(fault)) => Err(prune_error(fault)),
            Err(Asked::Failed(error)) => Err(PruneError::Arbiter(Box::new(error))),
        }
    }
}

fn pruned(told: rpc::Pruned) -> Result<Pruned, ArbiterError> {
    let removed = told.removed.into_iter().map(pruned_file);
    let obstacles = told.obstacles.into_iter().map(|it| Obstacle {
        name: it.name,
        what: it.what,
    });
    Ok(Pruned {
        dry_run: told.dry_run,
        removed: removed.collect::<Result<_, _>>()?,
        removed_total: tally(told.removed_total),
        leftovers: tally(told.leftovers),
        kept: KeptFiles {
            unfinished: tally(told.kept.unfinished),
            indeterminate: tally(told.kept.indeterminate),
            open_run: tally(told.kept.open_run),
        },
        obstacles: obstacles.collect(),
        obstacles_total: told.obstacles_total,
        missing_total: told.missing_total,
        unknown: told.unknown,
        unknown_total: tally(told.unknown_total),
        bytes_before: told.bytes_before,
        bytes_after: told.bytes_after,
    })
}

fn pruned_file(file: rpc::PrunedFile) -> Result<PrunedFile, ArbiterError> {
    let reason = file.reason.parse();
    Ok(PrunedFile {
        operation_id: file.operation_id,
        stream: match file.stream {
            rpc_operation::Stream::Stdout => Stream::Stdout,
            rpc_operation::Stream::Stderr => Stream::Stderr,
        },
        artifact: file.artifact,
        bytes: file.bytes,
        reason: reason.map_err(|error| ArbiterError::Connection(Box::new(error)))?,
    })
}

fn tally(told: rpc::Tally) -> Tally {
    Tally {
        files: told.files,
        bytes: told.bytes,
    }
}
