//! A Run that its host opens and ends, with several operations in it.

use std::sync::Arc;

use serde_json::Value;
use xioflow_journal::{Change, OperationFilter, Outcome, Query, RunStatus, TerminationReason};

use crate::command::Command;
use crate::domain::{Inner, is_unfinished, new_run};
use crate::error::{ExecuteError, RunError};
use crate::operation::{Membership, OperationBuilder};

/// An open Run.
///
/// A failing operation does not change its Run; only its host, an operation whose end cannot be
/// proven, and recovery do.
#[derive(Debug, Clone)]
pub struct RunHandle {
    inner: Arc<Inner>,
    run_id: String,
}

impl RunHandle {
    pub(crate) fn begin(
        inner: Arc<Inner>,
        name: &str,
        config: &Value,
    ) -> Result<Self, ExecuteError> {
        let (task, run) = new_run(name, crate::sanitise::config(config));
        let run_id = run.id.clone();
        inner
            .journal
            .commit(vec![Change::SaveTask(task), Change::AddRun(run)])?;
        Ok(Self { inner, run_id })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.run_id
    }

    /// Puts an operation of this Run together.
    ///
    /// # Errors
    /// [`ExecuteError::System`] if the process has no descriptor left.
    pub fn operation(&self, command: Command) -> Result<OperationBuilder, ExecuteError> {
        let membership = Membership::Of {
            run_id: self.run_id.clone(),
        };
        OperationBuilder::new(Arc::clone(&self.inner), command, membership)
    }

    /// Reports success. If an operation of the Run is indeterminate, so is the Run: the status
    /// that was recorded is returned.
    ///
    /// # Errors
    /// [`RunError::Unfinished`] while an operation has no result; [`RunError::Ended`] if the Run
    /// has ended differently.
    pub fn report_succeeded(&self) -> Result<RunStatus, RunError> {
        let filter = OperationFilter {
            run_id: Some(self.run_id.clone()),
            ..OperationFilter::default()
        };
        let operations = self.inner.journal.operations(&filter)?;
        if let Some(open) = operations
            .iter()
            .find(|operation| is_unfinished(operation.status))
        {
            return Err(RunError::Unfinished {
                run_id: self.run_id.clone(),
                operation_id: open.id.clone(),
                status: open.status,
            });
        }
        let unclear = operations
            .iter()
            .any(|operation| operation.outcome == Some(Outcome::Indeterminate));
        if unclear {
            self.end(RunStatus::Indeterminate, TerminationReason::ExitUnobserved)
        } else {
            self.end(RunStatus::Succeeded, TerminationReason::Completed)
        }
    }

    /// Reports failure.
    ///
    /// # Errors
    /// [`RunError::Ended`] if the Run has ended differently.
    pub fn report_failed(&self, reason: TerminationReason) -> Result<RunStatus, RunError> {
        self.end(RunStatus::Failed, reason)
    }

    /// Reports that it was cancelled.
    ///
    /// # Errors
    /// [`RunError::Ended`] if the Run has ended differently.
    pub fn report_cancelled(&self) -> Result<RunStatus, RunError> {
        self.end(RunStatus::Cancelled, TerminationReason::UserCancelled)
    }

    fn end(&self, status: RunStatus, reason: TerminationReason) -> Result<RunStatus, RunError> {
        if let Some(run) = self.inner.journal.run(&self.run_id)?
            && run.status.is_terminal()
            && run.status != status
        {
            return Err(RunError::Ended {
                run_id: self.run_id.clone(),
                status: run.status,
            });
        }
        self.inner.journal.commit(vec![Change::EndRun {
            run_id: self.run_id.clone(),
            status,
            reason,
        }])?;
        Ok(status)
    }
}
