//! Changes of what is over already: deciding about an end that could not be proven, and giving up
//! stored output.

use rusqlite::params;

use super::operation::subject;
use super::{Applier, ApplyError, Rejected};
use crate::events::Fact;
use crate::model::{Adjudication, OperationStatus, Outcome, PruneReason, RunStatus, Stream};
use crate::rows::{self, Key};

/// What the rules of pruning look at.
struct Pruning {
    run_id: String,
    status: OperationStatus,
    is_undecided: bool,
    run_status: RunStatus,
}

/// The file of one output.
struct File {
    artifact: String,
    bytes: Option<u64>,
    sha256: Option<String>,
}

impl Applier<'_> {
    pub(super) fn adjudicate(
        &mut self,
        id: &str,
        adjudication: &Adjudication,
    ) -> Result<(), ApplyError> {
        let key = Key::new("operations", id);
        let sql = "SELECT run_id, status, outcome, process_identity_json, adjudication_json
                   FROM operations WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query([id])?;
        let row = found.next()?.ok_or_else(|| no_such(id))?;
        let outcome = rows::optional_named(row, "outcome", key)?;
        if outcome != Some(Outcome::Indeterminate) {
            return Err(Rejected::NotIndeterminate {
                operation_id: id.to_owned(),
                status: rows::named(row, "status", key)?,
                outcome,
            }
            .into());
        }
        if let Some(before) = rows::adjudication(row, key)? {
            return Err(Rejected::AlreadyAdjudicated {
                operation_id: id.to_owned(),
                adjudication: Box::new(before),
            }
            .into());
        }
        let run_id: String = row.get("run_id")?;
        let identity = rows::optional_json(row, "process_identity_json", key)?;
        self.keep_adjudication(id, adjudication)?;
        let fact = Fact::Adjudicated {
            operation_id: id,
            adjudication,
            process_identity: identity.as_ref(),
        };
        self.journal(&subject(&run_id, id), &fact)?;
        self.release_decided(&run_id, id)
    }

    fn keep_adjudication(&self, id: &str, adjudication: &Adjudication) -> Result<(), ApplyError> {
        let text = serde_json::to_string(adjudication)
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        let sql = "UPDATE operations SET adjudication_json = ?2 WHERE id = ?1";
        self.connection
            .prepare_cached(sql)?
            .execute(params![id, text])?;
        Ok(())
    }

    /// Frees what an operation has kept because its end was unknown.
    fn release_decided(&mut self, run_id: &str, id: &str) -> Result<(), ApplyError> {
        let freed = self.release(id)?;
        if freed.is_empty() {
            return Ok(());
        }
        let fact = Fact::ResourcesReleased {
            operation_id: id,
            resources: &freed,
        };
        Ok(self.journal(&subject(run_id, id), &fact)?)
    }

    pub(super) fn prune_output(
        &mut self,
        id: &str,
        stream: Stream,
        reason: PruneReason,
    ) -> Result<(), ApplyError> {
        let run_id = self.check_prunable(id)?;
        let file = self.give_up_file(id, stream)?;
        self.forget_files(id)?;
        let fact = Fact::OutputPruned {
            stream,
            artifact: &file.artifact,
            bytes: file.bytes,
            sha256: file.sha256.as_deref(),
            reason,
        };
        Ok(self.journal(&subject(&run_id, id), &fact)?)
    }

    /// Refuses to give up output that something may still need; returns the operation's Run.
    fn check_prunable(&self, id: &str) -> Result<String, ApplyError> {
        let found = self.pruning(id)?;
        let operation_id = id.to_owned();
        if found.status != OperationStatus::Done {
            let status = found.status;
            return Err(Rejected::OutputInUse {
                operation_id,
                status,
            }
            .into());
        }
        if found.is_undecided {
            return Err(Rejected::OutputIsEvidence { operation_id }.into());
        }
        if !found.run_status.is_terminal() {
            return Err(Rejected::OutputOfOpenRun {
                operation_id,
                run_id: found.run_id,
                status: found.run_status,
            }
            .into());
        }
        Ok(found.run_id)
    }

    fn pruning(&self, id: &str) -> Result<Pruning, ApplyError> {
        let sql = "SELECT o.run_id, o.status,
                       o.outcome IS 'indeterminate' AND o.adjudication_json IS NULL AS is_undecided,
                       r.status AS run_status
                   FROM operations o JOIN runs r ON r.id = o.run_id WHERE o.id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query([id])?;
        let row = found.next()?.ok_or_else(|| no_such(id))?;
        let run_id: String = row.get("run_id")?;
        Ok(Pruning {
            status: rows::named(row, "status", Key::new("operations", id))?,
            is_undecided: row.get("is_undecided")?,
            run_status: rows::named(row, "run_status", Key::new("runs", &run_id))?,
            run_id,
        })
    }

    fn give_up_file(&self, id: &str, stream: Stream) -> Result<File, ApplyError> {
        // What a storage error left in the file is on no record.
        let sql = "UPDATE operation_outputs SET pruned_at_ms = ?3
                   WHERE operation_id = ?1 AND stream = ?2 AND artifact IS NOT NULL AND pruned_at_ms IS NULL
                   RETURNING artifact, sha256,
                       CASE WHEN spill_error IS NULL THEN coalesce(gap_from, total_bytes) END AS bytes";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![id, stream.as_str(), self.now_ms])?;
        let Some(row) = found.next()? else {
            return Err(Rejected::NoStoredOutput {
                operation_id: id.to_owned(),
                stream,
            }
            .into());
        };
        let key = Key::new("operation_outputs", id);
        Ok(File {
            artifact: row.get("artifact")?,
            bytes: rows::optional_unsigned(row, "bytes", key)?,
            sha256: row.get("sha256")?,
        })
    }

    /// Takes an operation without files out of the list of those that have some.
    fn forget_files(&self, id: &str) -> Result<(), ApplyError> {
        let sql = "UPDATE operations SET has_files = NULL WHERE id = ?1 AND NOT EXISTS
                       (SELECT 1 FROM operation_outputs
                        WHERE operation_id = ?1 AND artifact IS NOT NULL AND pruned_at_ms IS NULL)";
        self.connection.prepare_cached(sql)?.execute([id])?;
        Ok(())
    }
}

fn no_such(id: &str) -> Rejected {
    Rejected::NoSuchOperation {
        operation_id: id.to_owned(),
    }
}
