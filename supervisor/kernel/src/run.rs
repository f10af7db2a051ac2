//! A Run that its host opens and ends, with several operations in it.

use serde_json::Value;
use xioflow_journal::{
    Change, CommitError, OperationFilter, Outcome, Query, Rejected, Run, RunStatus, Task,
    TerminationReason,
};

use crate::backend::Backend;
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
    backend: Backend,
    run_id: String,
}

/// A recorded Task: a body of work with as many Runs as it takes.
#[derive(Debug, Clone)]
pub struct TaskHandle {
    backend: Backend,
    task_id: String,
}

impl TaskHandle {
    pub(crate) fn begin(backend: Backend, name: &str, meta: Value) -> Result<Self, ExecuteError> {
        let task_id = match &backend {
            Backend::Own(inner) => {
                let task = new_task(name, meta);
                let task_id = task.id.clone();
                inner.journal.commit(vec![Change::SaveTask(task)])?;
                task_id
            }
            Backend::Attached(attached) => attached.save_task(name, meta)?,
        };
        Ok(Self { backend, task_id })
    }

    /// One that is recorded.
    pub(crate) fn of(backend: Backend, task_id: String) -> Self {
        Self { backend, task_id }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.task_id
    }

    /// Opens a Run of this Task; see [`crate::Domain::begin_run`] for `config`.
    ///
    /// # Errors
    /// [`ExecuteError::DomainClosed`], or [`ExecuteError::Commit`] if it cannot be recorded.
    pub fn begin_run(&self, config: &Value) -> Result<RunHandle, ExecuteError> {
        if self.backend.is_closed() {
            return Err(ExecuteError::DomainClosed);
        }
        let run_id = match &self.backend {
            Backend::Own(inner) => add_run(inner, Vec::new(), &self.task_id, config)?,
            Backend::Attached(attached) => attached.open_run(Ok(&self.task_id), config)?,
        };
        Ok(RunHandle {
            backend: self.backend.clone(),
            run_id,
        })
    }
}

impl RunHandle {
    /// Records a Run, in a new Task of this name.
    pub(crate) fn begin(
        backend: &Backend,
        name: &str,
        config: &Value,
    ) -> Result<Self, ExecuteError> {
        let run_id = match backend {
            Backend::Own(inner) => {
                let task = new_task(name, Value::Null);
                let task_id = task.id.clone();
                add_run(inner, vec![Change::SaveTask(task)], &task_id, config)?
            }
            Backend::Attached(attached) => attached.open_run(Err(name), config)?,
        };
        Ok(Self {
            backend: backend.clone(),
            run_id,
        })
    }

    pub(crate) fn open(backend: Backend, run_id: &str) -> Result<Self, RunError> {
        let run_id = run_id.to_owned();
        match backend.records().run(&run_id)? {
            None => Err(RunError::NotFound { run_id }),
            Some(run) if run.status.is_terminal() => Err(RunError::Ended {
                run_id,
                status: run.status,
            }),
            Some(_) => Ok(Self { backend, run_id }),
        }
    }

    /// One that nobody has looked for.
    pub(crate) fn of_id(backend: Backend, run_id: &str) -> Self {
        let run_id = run_id.to_owned();
        Self { backend, run_id }
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
        OperationBuilder::new(self.backend.clone(), command, membership)
    }

    /// Reports success; once more is no error. If an operation of the Run is indeterminate, and nobody has
    /// adjudicated it, so is the Run: the status that was recorded is returned.
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
        match &self.backend {
            Backend::Own(inner) => succeed(inner, &self.run_id),
            Backend::Attached(attached) => {
                attached.report_run(&self.run_id, RunStatus::Succeeded, None)
            }
        }
    }

    /// Reports failure; once more is no error, and the first reason stays. An operation that still
    /// runs goes on to its result.
    ///
    /// # Errors
    /// [`RunError::Ended`] if the Run has ended differently.
    pub fn report_failed(&self, reason: TerminationReason) -> Result<RunStatus, RunError> {
        match &self.backend {
            Backend::Own(inner) => end(inner, &self.run_id, RunStatus::Failed, reason),
            Backend::Attached(attached) => {
                attached.report_run(&self.run_id, RunStatus::Failed, Some(reason))
            }
        }
    }

    /// Reports that it was cancelled. This stops no operation; [`crate::Domain::cancel`] does.
    ///
    /// # Errors
    /// [`RunError::Ended`] if the Run has ended, in whatever way.
    pub fn report_cancelled(&self) -> Result<RunStatus, RunError> {
        match &self.backend {
            Backend::Own(inner) => cancel(inner, &self.run_id),
            Backend::Attached(attached) => {
                attached.report_run(&self.run_id, RunStatus::Cancelled, None)
            }
        }
    }
}

/// Records a Run of a Task, after what has to be recorded before it.
fn add_run(
    inner: &Inner,
    mut changes: Vec<Change>,
    task_id: &str,
    config: &Value,
) -> Result<String, ExecuteError> {
    let run = new_run(task_id, crate::sanitise::config(config));
    let run_id = run.id.clone();
    changes.push(Change::AddRun(run));
    inner.journal.commit(changes)?;
    Ok(run_id)
}

fn succeed(inner: &Inner, run_id: &str) -> Result<RunStatus, RunError> {
    let filter = OperationFilter {
        run_id: Some(run_id.to_owned()),
        ..OperationFilter::default()
    };
    let operations = inner.journal.operations(&filter)?;
    if let Some(open) = operations
        .iter()
        .find(|operation| is_unfinished(operation.status))
    {
        return Err(RunError::Unfinished {
            run_id: run_id.to_owned(),
            operation_id: open.id.clone(),
            status: open.status,
        });
    }
    let unclear = operations
        .iter()
        .any(|op| op.outcome == Some(Outcome::Indeterminate) && op.adjudication.is_none());
    if unclear {
        let reason = TerminationReason::ExitUnobserved;
        return end(inner, run_id, RunStatus::Indeterminate, reason);
    }
    match end(
        inner,
        run_id,
        RunStatus::Succeeded,
        TerminationReason::Completed,
    ) {
        // An operation became so after the look.
        Err(RunError::Ended {
            status: RunStatus::Indeterminate,
            ..
        }) => Ok(RunStatus::Indeterminate),
        ended => ended,
    }
}

fn cancel(inner: &Inner, run_id: &str) -> Result<RunStatus, RunError> {
    let run = inner.journal.run(run_id)?;
    if let Some(run) = run
        && run.status.is_terminal()
    {
        return Err(RunError::Ended {
            run_id: run_id.to_owned(),
            status: run.status,
        });
    }
    let reason = TerminationReason::UserCancelled;
    end(inner, run_id, RunStatus::Cancelled, reason)
}

fn end(
    inner: &Inner,
    run_id: &str,
    status: RunStatus,
    reason: TerminationReason,
) -> Result<RunStatus, RunError> {
    let ended = inner.journal.commit(vec![Change::EndRun {
        run_id: run_id.to_owned(),
        status,
        reason,
    }]);
    ended.map(|_| status).map_err(refused)
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
