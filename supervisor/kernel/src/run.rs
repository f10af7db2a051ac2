//! A Run that its host opens and ends, with several operations in it.

use std::sync::Arc;

use serde_json::Value;
use xioflow_journal::{
    Change, CommitError, OperationFilter, Outcome, Query, Rejected, Run, RunStatus, Task,
    TerminationReason,
};

use crate::clock;
use crate::command::Command;
use crate::domain::{Inner, is_unfinished};
use crate::error::{ExecuteError, RunError};
use crate::names::new_id;
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

/// A recorded Task: a body of work with as many Runs as it takes.
#[derive(Debug, Clone)]
pub struct TaskHandle {
    inner: Arc<Inner>,
    task: Task,
}

impl TaskHandle {
    pub(crate) fn begin(inner: Arc<Inner>, task: Task) -> Result<Self, ExecuteError> {
        inner.journal.commit(vec![Change::SaveTask(task.clone())])?;
        Ok(Self { inner, task })
    }

    /// One that is recorded.
    pub(crate) fn of(inner: Arc<Inner>, task: Task) -> Self {
        Self { inner, task }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.task.id
    }

    /// Opens a Run of this Task; see [`crate::Domain::begin_run`] for `config`.
    ///
    /// # Errors
    /// [`ExecuteError::DomainClosed`], or [`ExecuteError::Commit`] if it cannot be recorded.
    pub fn begin_run(&self, config: &Value) -> Result<RunHandle, ExecuteError> {
        if self.inner.flights.is_closed() {
            return Err(ExecuteError::DomainClosed);
        }
        RunHandle::begin(&self.inner, self.task.clone(), config)
    }
}

impl RunHandle {
    /// Records a Run, and its Task unless that is recorded already.
    pub(crate) fn begin(
        inner: &Arc<Inner>,
        task: Task,
        config: &Value,
    ) -> Result<Self, ExecuteError> {
        let run = new_run(&task.id, crate::sanitise::config(config));
        let run_id = run.id.clone();
        inner
            .journal
            .commit(vec![Change::SaveTask(task), Change::AddRun(run)])?;
        Ok(Self {
            inner: Arc::clone(inner),
            run_id,
        })
    }

    pub(crate) fn open(inner: Arc<Inner>, run_id: &str) -> Result<Self, RunError> {
        let run_id = run_id.to_owned();
        match inner.journal.run(&run_id)? {
            None => Err(RunError::NotFound { run_id }),
            Some(run) if run.status.is_terminal() => Err(RunError::Ended {
                run_id,
                status: run.status,
            }),
            Some(_) => Ok(Self { inner, run_id }),
        }
    }

    /// One that nobody has looked for.
    pub(crate) fn of_id(inner: Arc<Inner>, run_id: &str) -> Self {
        let run_id = run_id.to_owned();
        Self { inner, run_id }
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

    /// Reports success; once more is no error. If an operation of the Run is indeterminate, so is
    /// the Run: the status that was recorded is returned.
    ///
    /// # Errors
    /// [`RunError::Unfinished`] while an operation has no result; [`RunError::Ended`] if the Run
    /// has ended differently.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use serde_json::json;
    /// use xioflow_kernel::journal::RunStatus;
    /// use xioflow_kernel::{Command, ExecuteError};
    ///
    /// let run = domain.begin_run("release 1.4", &json!({}))?;
    /// run.operation(Command::new("/bin/true"))?.run()?;
    /// assert_eq!(run.report_succeeded()?, RunStatus::Succeeded);
    /// // It has ended: nothing more runs in it.
    /// let late = run.operation(Command::new("/bin/true"))?.run();
    /// assert!(matches!(late, Err(ExecuteError::RunClosed { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
            match self.end(RunStatus::Succeeded, TerminationReason::Completed) {
                // An operation became so after the look.
                Err(RunError::Ended {
                    status: RunStatus::Indeterminate,
                    ..
                }) => Ok(RunStatus::Indeterminate),
                ended => ended,
            }
        }
    }

    /// Reports failure; once more is no error, and the first reason stays. An operation that still
    /// runs goes on to its result.
    ///
    /// # Errors
    /// [`RunError::Ended`] if the Run has ended differently.
    pub fn report_failed(&self, reason: TerminationReason) -> Result<RunStatus, RunError> {
        self.end(RunStatus::Failed, reason)
    }

    /// Reports that it was cancelled. This stops no operation; [`crate::Domain::cancel`] does.
    ///
    /// # Errors
    /// [`RunError::Ended`] if the Run has ended, in whatever way.
    pub fn report_cancelled(&self) -> Result<RunStatus, RunError> {
        let run = self.inner.journal.run(&self.run_id)?;
        if let Some(run) = run
            && run.status.is_terminal()
        {
            return Err(RunError::Ended {
                run_id: self.run_id.clone(),
                status: run.status,
            });
        }
        self.end(RunStatus::Cancelled, TerminationReason::UserCancelled)
    }

    fn end(&self, status: RunStatus, reason: TerminationReason) -> Result<RunStatus, RunError> {
        let ended = self.inner.journal.commit(vec![Change::EndRun {
            run_id: self.run_id.clone(),
            status,
            reason,
        }]);
        match ended {
            Ok(_) => Ok(status),
            Err(error) => Err(refused(error)),
        }
    }
}

/// What the journal found when it looked again, inside the commit.
fn refused(error: CommitError) -> RunError {
    match error {
        CommitError::Rejected(Rejected::RunEnded { run_id, status }) => {
            RunError::Ended { run_id, status }
        }
        CommitError::Rejected(Rejected::NoSuchRun { run_id }) => RunError::NotFound { run_id },
        CommitError::Rejected(Rejected::RunUnfinished {
            run_id,
            operation_id,
            status,
        }) => RunError::Unfinished {
            run_id,
            operation_id,
            status,
        },
        other => RunError::Commit(other),
    }
}

/// A Task that is not recorded yet.
pub(crate) fn new_task(name: &str, meta: Value) -> Task {
    Task {
        id: new_id("task"),
        name: name.to_owned(),
        created_at_ms: clock::now_ms(),
        meta,
    }
}

/// A Run of a Task, not recorded yet.
pub(crate) fn new_run(task_id: &str, config: Value) -> Run {
    Run {
        id: new_id("run"),
        task_id: task_id.to_owned(),
        owner: format!("pid-{}", std::process::id()),
        status: RunStatus::Running,
        termination_reason: None,
        started_at_ms: clock::now_ms(),
        ended_at_ms: None,
        config,
    }
}
