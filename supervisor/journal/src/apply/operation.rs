//! Changes of operations, with their leases and outputs.

use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use super::{Applier, ApplyError, Rejected};
use crate::events::{Fact, STOP_ACTION_BEGUN, Subject};
use crate::model::{
    Finish, Gap, NewOperation, OperationStatus, Outcome, Output, TerminationReason,
};
use crate::rows::{self, Key};

impl Applier<'_> {
    pub(super) fn register(&mut self, new: &NewOperation) -> Result<(), ApplyError> {
        self.check_run_open(&new.run_id)?;
        self.insert_operation(new)?;
        for resource in &new.required_resources {
            self.lease(resource, &new.id)?;
        }
        let fact = Fact::IntentRegistered {
            kind: new.kind,
            name: &new.name,
            required_resources: &new.required_resources,
            input_fingerprint: &new.input_fingerprint,
            resource_budget: new.resource_budget.as_ref(),
            spawn_gated: new.spawn_gated,
        };
        Ok(self.journal(&subject(&new.run_id, &new.id), &fact)?)
    }

    pub(super) fn add(&self, new: &NewOperation) -> Result<(), ApplyError> {
        self.check_run_open(&new.run_id)?;
        self.insert_operation(new)
    }

    fn insert_operation(&self, new: &NewOperation) -> Result<(), ApplyError> {
        let timeout_ms = new
            .timeout_ms
            .map(|ms| number(ms, "time limit", &new.id))
            .transpose()?;
        let sql = "INSERT INTO operations (id, run_id, kind, name, input_fingerprint, status,
                       required_resources_json, mutation_roots_json, capability_id, timeout_ms,
                       resource_budget_json, spawn_gated, created_at_ms)
                   VALUES (?1, ?2, ?3, ?4, ?5, 'intent_registered', ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                   ON CONFLICT (id) DO NOTHING";
        let added = self.connection.prepare_cached(sql)?.execute(params![
            new.id,
            new.run_id,
            new.kind.as_str(),
            new.name,
            new.input_fingerprint,
            rows::list_text(&new.required_resources),
            rows::list_text(&new.mutation_roots),
            new.capability_id,
            timeout_ms,
            new.resource_budget.as_ref().map(Value::to_string),
            new.spawn_gated,
            self.now_ms,
        ])?;
        if added == 0 {
            return Err(self.exists(&new.id)?.into());
        }
        self.check_not_lost(&new.id)
    }

    /// An operation that the record has lost, as damage and what rescues from it may lose one, must not
    /// run a second time for that. Its events outlive it.
    fn check_not_lost(&self, id: &str) -> Result<(), ApplyError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM journal_events WHERE operation_id = ?1)";
        let mut statement = self.connection.prepare_cached(sql)?;
        if statement.query_row([id], |row| row.get(0))? {
            let operation_id = id.to_owned();
            return Err(Rejected::OperationLost { operation_id }.into());
        }
        Ok(())
    }

    fn exists(&self, id: &str) -> Result<Rejected, ApplyError> {
        let sql = "SELECT run_id, status, input_fingerprint FROM operations WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query([id])?;
        let row = found.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(Rejected::OperationExists {
            operation_id: id.to_owned(),
            run_id: row.get("run_id")?,
            status: rows::named(row, "status", Key::new("operations", id))?,
            input_fingerprint: row.get("input_fingerprint")?,
        })
    }

    /// A resource that the operation names twice is leased once.
    fn lease(&self, resource: &str, operation_id: &str) -> Result<(), ApplyError> {
        let sql = "INSERT INTO resource_leases (resource_id, operation_id, acquired_at_ms) VALUES (?1, ?2, ?3)
                   ON CONFLICT (resource_id) DO NOTHING";
        if self.connection.prepare_cached(sql)?.execute(params![
            resource,
            operation_id,
            self.now_ms
        ])? == 1
        {
            return Ok(());
        }
        let sql = "SELECT operation_id FROM resource_leases WHERE resource_id = ?1";
        let holder: String = self
            .connection
            .prepare_cached(sql)?
            .query_row([resource], |row| row.get(0))?;
        if holder == operation_id {
            return Ok(());
        }
        Err(Rejected::ResourceHeld {
            resource: resource.to_owned(),
            holder,
        }
        .into())
    }

    pub(super) fn activate(
        &mut self,
        id: &str,
        identity: &Value,
        holder: &Value,
    ) -> Result<(), ApplyError> {
        let sql =
            "UPDATE operations SET status = 'active', process_identity_json = ?2, holder_json = ?3
                   WHERE id = ?1 AND status = 'intent_registered' RETURNING run_id";
        let mut statement = self.connection.prepare_cached(sql)?;
        let params = params![id, identity.to_string(), holder.to_string()];
        let run_id: Option<String> = statement.query_row(params, |row| row.get(0)).optional()?;
        let Some(run_id) = run_id else {
            let (status, _) = self.position(id)?;
            return Err(Rejected::NotRegistered {
                operation_id: id.to_owned(),
                status,
            }
            .into());
        };
        let fact = Fact::OperationStatus {
            status: OperationStatus::Active,
            process_identity: Some(identity),
            output_ref: None,
            reason: None,
        };
        Ok(self.journal(&subject(&run_id, id), &fact)?)
    }

    pub(super) fn stop(&mut self, id: &str, reason: TerminationReason) -> Result<(), ApplyError> {
        let sql = "UPDATE operations SET status = 'stopping' WHERE id = ?1 AND status = 'active'
                   RETURNING run_id, process_identity_json";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found: Option<(String, Option<String>)> = statement
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((run_id, identity)) = found else {
            let (status, _) = self.position(id)?;
            return Err(Rejected::NotActive {
                operation_id: id.to_owned(),
                status,
            }
            .into());
        };
        let key = Key::new("operations", id);
        let identity = identity
            .map(|text| rows::parse_json(&text, "process_identity_json", key))
            .transpose()?;
        let fact = Fact::OperationStatus {
            status: OperationStatus::Stopping,
            process_identity: identity.as_ref(),
            output_ref: None,
            reason: Some(reason),
        };
        Ok(self.journal(&subject(&run_id, id), &fact)?)
    }

    pub(super) fn begin_stop_action(
        &mut self,
        id: &str,
        process_identity: &Value,
        holder: &Value,
    ) -> Result<(), ApplyError> {
        let sql = "SELECT run_id FROM operations WHERE id = ?1 AND status IN ('active', 'stopping')
                   AND NOT EXISTS (SELECT 1 FROM journal_events WHERE operation_id = ?1 AND type = ?2)";
        let mut statement = self.connection.prepare_cached(sql)?;
        let run_id: Option<String> = statement
            .query_row([id, STOP_ACTION_BEGUN], |row| row.get(0))
            .optional()?;
        let Some(run_id) = run_id else {
            let (status, _) = self.position(id)?;
            return Err(Rejected::NoStopActionNow {
                operation_id: id.to_owned(),
                status,
            }
            .into());
        };
        let fact = Fact::StopActionBegun {
            process_identity,
            holder,
        };
        Ok(self.journal(&subject(&run_id, id), &fact)?)
    }

    pub(super) fn keep_output_order(&self, id: &str, order: &[u8]) -> Result<(), ApplyError> {
        let sql = "UPDATE operations SET output_order = ?2 WHERE id = ?1 AND status <> 'done'";
        let kept = self
            .connection
            .prepare_cached(sql)?
            .execute(params![id, order])?;
        match kept {
            0 => Err(self.already_done(id)?.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn finish(&mut self, finish: &Finish) -> Result<(), ApplyError> {
        let id = &finish.operation_id;
        let run_id = self.record_result(finish)?;
        for output in &finish.outputs {
            self.keep_output(id, output)?;
        }
        let release_resources = finish.release_resources;
        let fact = Fact::ResultRecorded {
            result: &finish.result,
            release_resources,
        };
        self.journal(&subject(&run_id, id), &fact)?;
        let held = if release_resources {
            self.release(id)?
        } else {
            self.held(id)?
        };
        if held.is_empty() {
            return Ok(());
        }
        if release_resources == (finish.outcome == Outcome::Indeterminate) {
            return Err(Rejected::LeaseRule {
                operation_id: id.clone(),
                outcome: finish.outcome,
            }
            .into());
        }
        if release_resources {
            let fact = Fact::ResourcesReleased {
                operation_id: id,
                resources: &held,
            };
            self.journal(&subject(&run_id, id), &fact)?;
        }
        Ok(())
    }

    /// Writes the result, if the operation has none; returns its Run.
    fn record_result(&self, finish: &Finish) -> Result<String, ApplyError> {
        let sql = "UPDATE operations SET status = 'done', outcome = ?2, result_json = ?3, finished_at_ms = ?4,
                       output_ref = ?5, has_files = iif(?5 IS NULL, NULL, 1)
                   WHERE id = ?1 AND status <> 'done' RETURNING run_id";
        let mut statement = self.connection.prepare_cached(sql)?;
        let params = params![
            finish.operation_id,
            finish.outcome.as_str(),
            finish.result.to_string(),
            self.now_ms,
            finish
                .outputs
                .iter()
                .find_map(|output| output.artifact.as_deref()),
        ];
        let run_id: Option<String> = statement.query_row(params, |row| row.get(0)).optional()?;
        match run_id {
            Some(run_id) => Ok(run_id),
            None => Err(self.already_done(&finish.operation_id)?.into()),
        }
    }

    fn already_done(&self, id: &str) -> Result<Rejected, ApplyError> {
        let (_, outcome) = self.position(id)?;
        let outcome = outcome.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(Rejected::AlreadyDone {
            operation_id: id.to_owned(),
            outcome,
        })
    }

    fn keep_output(&self, id: &str, output: &Output) -> Result<(), ApplyError> {
        let sql = "INSERT INTO operation_outputs
                       (operation_id, stream, total_bytes, lines, sha256, artifact, content, gap_from, gap_to, spill_error)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let whole = |value: u64, what| number(value, what, id);
        let gap = |end: fn(&Gap) -> u64| output.gap.as_ref().map(end);
        self.connection.prepare_cached(sql)?.execute(params![
            id,
            output.stream.as_str(),
            whole(output.total_bytes, "output length")?,
            output
                .lines
                .map(|lines| whole(lines, "line count"))
                .transpose()?,
            output.sha256,
            output.artifact,
            output.content,
            gap(|gap| gap.from).map(|at| whole(at, "gap")).transpose()?,
            gap(|gap| gap.to).map(|at| whole(at, "gap")).transpose()?,
            output.spill_error,
        ])?;
        Ok(())
    }

    /// Frees what the operation holds; returns the names, in order.
    pub(super) fn release(&self, id: &str) -> Result<Vec<String>, ApplyError> {
        let sql = "DELETE FROM resource_leases WHERE operation_id = ?1 RETURNING resource_id";
        let mut freed = self.names(sql, id)?;
        freed.sort_unstable();
        Ok(freed)
    }

    fn held(&self, id: &str) -> Result<Vec<String>, ApplyError> {
        self.names(
            "SELECT resource_id FROM resource_leases WHERE operation_id = ?1",
            id,
        )
    }

    fn names(&self, sql: &str, id: &str) -> Result<Vec<String>, ApplyError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let names = statement
            .query_map([id], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        Ok(names)
    }

    /// Where an operation is, and how it ended if it has.
    fn position(&self, id: &str) -> Result<(OperationStatus, Option<Outcome>), ApplyError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT status, outcome FROM operations WHERE id = ?1")?;
        let mut found = statement.query([id])?;
        let row = found.next()?.ok_or_else(|| Rejected::NoSuchOperation {
            operation_id: id.to_owned(),
        })?;
        let key = Key::new("operations", id);
        Ok((
            rows::named(row, "status", key)?,
            rows::optional_named(row, "outcome", key)?,
        ))
    }
}

pub(super) fn subject<'a>(run_id: &'a str, operation_id: &'a str) -> Subject<'a> {
    Subject {
        run_id: Some(run_id),
        operation_id: Some(operation_id),
    }
}

/// SQLite's integers are signed.
fn number(value: u64, what: &'static str, operation_id: &str) -> Result<i64, Rejected> {
    i64::try_from(value).map_err(|_| Rejected::TooLarge {
        operation_id: operation_id.to_owned(),
        what,
        value,
    })
}
