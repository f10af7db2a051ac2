//! Changes of tasks and Runs.

use rusqlite::{OptionalExtension, params};

use super::{Applier, ApplyError, Rejected};
use crate::clock;
use crate::events::{Fact, Subject};
use crate::model::{OperationStatus, Run, RunStatus, Task, TerminationReason};
use crate::rows::{self, Key};

impl Applier<'_> {
    pub(super) fn save_task(&mut self, task: &Task) -> Result<(), ApplyError> {
        let sql = "INSERT INTO tasks (id, name, created_at_ms, meta_json) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (id) DO UPDATE SET name = excluded.name, meta_json = excluded.meta_json";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.execute(params![
            task.id,
            task.name,
            task.created_at_ms,
            task.meta.to_string()
        ])?;
        Ok(())
    }

    pub(super) fn add_run(&mut self, run: &Run) -> Result<(), ApplyError> {
        if run.status.is_terminal() {
            return Err(wrong_status(&run.id, run.status, "begin").into());
        }
        let known = "SELECT 1 FROM tasks WHERE id = ?1";
        if !self
            .connection
            .prepare_cached(known)?
            .exists([&run.task_id])?
        {
            return Err(Rejected::NoSuchTask {
                task_id: run.task_id.clone(),
            }
            .into());
        }
        let sql = "INSERT INTO runs (id, task_id, owner, status, termination_reason, started_at_ms, ended_at_ms, config_json)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING";
        let added = self.connection.prepare_cached(sql)?.execute(params![
            run.id,
            run.task_id,
            run.owner,
            run.status.as_str(),
            run.termination_reason.map(TerminationReason::as_str),
            run.started_at_ms,
            run.ended_at_ms,
            run.config.to_string(),
        ])?;
        if added == 0 {
            Err(Rejected::RunExists {
                run_id: run.id.clone(),
            }
            .into())
        } else {
            Ok(())
        }
    }

    /// Ends a Run. The same end twice is no error and no second event.
    pub(super) fn end_run(
        &mut self,
        id: &str,
        status: RunStatus,
        reason: TerminationReason,
    ) -> Result<(), ApplyError> {
        if !status.is_terminal() {
            return Err(wrong_status(id, status, "end").into());
        }
        let before = self.run_status(id)?;
        if before == status {
            return Ok(());
        }
        if before.is_terminal() {
            return Err(Rejected::RunEnded {
                run_id: id.to_owned(),
                status: before,
            }
            .into());
        }
        if status == RunStatus::Succeeded {
            self.refuse_unfinished(id)?;
            self.refuse_indeterminate(id)?;
        }
        let sql =
            "UPDATE runs SET status = ?2, termination_reason = ?3, ended_at_ms = ?4 WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.execute(params![id, status.as_str(), reason.as_str(), self.now_ms])?;
        let ended_at = clock::rfc3339(self.now_ms);
        let fact = Fact::RunStatus {
            status,
            termination_reason: reason,
            ended_at,
        };
        Ok(self.journal(
            &Subject {
                run_id: Some(id),
                operation_id: None,
            },
            &fact,
        )?)
    }

    /// Refuses work for a Run that is unknown or over.
    pub(super) fn check_run_open(&self, id: &str) -> Result<(), ApplyError> {
        let status = self.run_status(id)?;
        if status.is_terminal() {
            Err(Rejected::RunEnded {
                run_id: id.to_owned(),
                status,
            }
            .into())
        } else {
            Ok(())
        }
    }

    fn run_status(&self, id: &str) -> Result<RunStatus, ApplyError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT status FROM runs WHERE id = ?1")?;
        let mut found = statement.query([id])?;
        let row = found.next()?.ok_or_else(|| Rejected::NoSuchRun {
            run_id: id.to_owned(),
        })?;
        Ok(rows::named(row, "status", Key::new("runs", id))?)
    }

    fn refuse_unfinished(&self, run_id: &str) -> Result<(), ApplyError> {
        let sql = "SELECT id, status FROM operations WHERE run_id = ?1 AND status <> 'done' ORDER BY ordinal LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let first = statement.query_row([run_id], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        let Some((operation_id, status)) = first.optional()? else {
            return Ok(());
        };
        let status: OperationStatus =
            rows::parse(&status, "status", Key::new("operations", &operation_id))?;
        Err(Rejected::RunUnfinished {
            run_id: run_id.to_owned(),
            operation_id,
            status,
        }
        .into())
    }

    fn refuse_indeterminate(&self, run_id: &str) -> Result<(), ApplyError> {
        let sql = "SELECT id FROM operations WHERE run_id = ?1 AND outcome = 'indeterminate' AND adjudication_json IS NULL
                   ORDER BY ordinal LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        match statement.query_row([run_id], |row| row.get(0)).optional()? {
            None => Ok(()),
            Some(operation_id) => Err(Rejected::RunIndeterminate {
                run_id: run_id.to_owned(),
                operation_id,
            }
            .into()),
        }
    }
}

fn wrong_status(run_id: &str, status: RunStatus, verb: &'static str) -> Rejected {
    Rejected::WrongRunStatus {
        run_id: run_id.to_owned(),
        status,
        verb,
    }
}
