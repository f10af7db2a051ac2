//! Requests with one answer: about the domain, its Tasks and Runs, and about operations by their id.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use xioflow_client::CallError;
use xioflow_journal::{RunStatus, TerminationReason};
use xioflow_rpc::domain as rpc;
use xioflow_rpc::method::Method;
use xioflow_rpc::operation::{self as rpc_operation, Cancel, Done, Manner};

use super::Attached;
use super::fault::{not_active, pause_error, run_error};
use super::request::millis;
use crate::domain::BudgetInUse;
use crate::error::{ArbiterError, ExecuteError, NotActive, RunError};
use crate::flight::InFlight;
use crate::leases::{DomainBudget, Share};
use crate::load::Load;
use crate::output::ArtifactBytes;
use crate::pause::{PauseError, Standing};
use crate::recovery::Decision;
use crate::stop::StopManner;

/// What came of a request.
pub(super) enum Asked {
    Refused(xioflow_rpc::refusal::Fault),
    Failed(ArbiterError),
}

impl From<Asked> for ArbiterError {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Refused(fault) => fault.into(),
            Asked::Failed(error) => error,
        }
    }
}

impl From<Asked> for ExecuteError {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Refused(fault) => fault.into(),
            Asked::Failed(error) => Self::Arbiter(Box::new(error)),
        }
    }
}

impl Attached {
    pub(super) fn ask<R: DeserializeOwned>(
        &self,
        method: Method,
        params: impl Serialize,
    ) -> Result<R, Asked> {
        let mut connection = self.connection().map_err(Asked::Failed)?;
        match connection.call(method, &params, &[]) {
            Ok(answer) => {
                self.give_back(connection);
                Ok(answer)
            }
            Err(CallError::Refused(fault)) => {
                self.give_back(connection);
                Err(Asked::Refused(fault))
            }
            Err(CallError::Connection(error)) => Err(Asked::Failed(self.broken(error))),
        }
    }

    /// What the arbiter does at this moment.
    fn status(&self) -> Result<rpc::Status, ArbiterError> {
        Ok(self.ask(Method::Status, rpc::StatusOf {})?)
    }

    /// What the arbiter executes at this moment.
    pub(crate) fn in_flight(&self) -> Result<Vec<InFlight>, ArbiterError> {
        let in_flight = self.status()?.in_flight.into_iter();
        Ok(in_flight
            .map(|flight| InFlight {
                operation_id: flight.operation_id,
                run_id: flight.run_id,
                joiners: usize::try_from(flight.clients.saturating_sub(1)).unwrap_or(usize::MAX),
            })
            .collect())
    }

    /// What the stored output of the domain takes, and what it may take.
    pub(crate) fn artifact_bytes(&self) -> Result<ArtifactBytes, ArbiterError> {
        let status = self.status()?;
        Ok(ArtifactBytes {
            used: status.artifact_bytes,
            max: status.artifact_max_bytes,
        })
    }

    /// What operations may take together, and what they have of it.
    pub(crate) fn budget(&self) -> Result<BudgetInUse, ArbiterError> {
        let Some(told) = self.status()?.budget else {
            let error = "the domain's arbiter is of a release that has no budget; end it by `xioflow shutdown`";
            return Err(ArbiterError::Connection(error.into()));
        };
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(BudgetInUse {
            max: DomainBudget {
                concurrent_max: told.max_operations.map(count),
                memory_max_bytes: told.max_memory_bytes,
                output_max_bytes: told.max_output_bytes,
            },
            operations: count(told.operations),
            taken: Share {
                memory_bytes: told.memory_bytes,
                output_bytes: told.output_bytes,
            },
            waiting: count(told.waiting),
        })
    }

    /// What the arbiter settled when it took the domain over.
    pub(crate) fn last_report(&self) -> Result<Vec<Decision>, ArbiterError> {
        let report: rpc::LastReport = self.ask(Method::LastReport, rpc::LastReportOf {})?;
        // Both have the same form; ours has names where the wire has text.
        let twin = |decision| serde_json::from_value(serde_json::to_value(decision)?);
        let decisions: Result<_, serde_json::Error> =
            report.decisions.into_iter().map(twin).collect();
        decisions.map_err(|error| ArbiterError::Connection(Box::new(error)))
    }

    /// Stops an operation, whoever started it.
    pub(crate) fn cancel(
        &self,
        operation_id: &str,
        manner: StopManner,
        grace: Duration,
    ) -> Result<(), NotActive> {
        if self.is_closed() {
            return Err(NotActive::DomainClosed);
        }
        let cancel = Cancel {
            operation_id: operation_id.to_owned(),
            manner: rpc_manner(manner),
            grace_ms: Some(millis(grace)),
        };
        match self.ask::<Done>(Method::Cancel, cancel) {
            Ok(Done {}) => Ok(()),
            Err(Asked::Refused(fault)) => Err(not_active(fault, operation_id)),
            Err(Asked::Failed(error)) => Err(NotActive::Arbiter(Box::new(error))),
        }
    }

    /// Has an operation stand still, or go on, whoever started it.
    pub(crate) fn stand(&self, operation_id: &str, still: bool) -> Result<Standing, PauseError> {
        let method = match still {
            true => Method::Pause,
            false => Method::Unpause,
        };
        let asked = rpc_operation::Pause {
            operation_id: operation_id.to_owned(),
        };
        let told = match self.ask::<rpc_operation::Standing>(method, asked) {
            Ok(told) => told,
            Err(Asked::Refused(fault)) => return Err(pause_error(fault, operation_id)),
            Err(Asked::Failed(error)) => return Err(NotActive::Arbiter(Box::new(error)).into()),
        };
        let paused = told.paused.map(|means| means.parse()).transpose();
        let paused = paused.map_err(|error| {
            NotActive::Arbiter(Box::new(ArbiterError::Connection(Box::new(error))))
        })?;
        Ok(Standing {
            paused,
            changed: told.changed,
            timeout_left: told.timeout_left_ms.map(Duration::from_millis),
        })
    }

    /// What the operations that the arbiter executes use at this moment.
    pub(crate) fn loads(&self) -> Result<Vec<Load>, NotActive> {
        let broken = |error| NotActive::Arbiter(Box::new(error));
        let told: rpc_operation::Loads = self
            .ask(Method::Loads, rpc_operation::LoadsOf {})
            .map_err(|asked| broken(asked.into()))?;
        // Both have the same form; ours has names where the wire has text.
        let twin = |load| serde_json::from_value(serde_json::to_value(load)?);
        let loads: Result<_, serde_json::Error> = told.operations.into_iter().map(twin).collect();
        loads.map_err(|error| broken(ArbiterError::Connection(Box::new(error))))
    }

    /// Records a Task.
    pub(crate) fn save_task(&self, name: &str, meta: Value) -> Result<String, ExecuteError> {
        let task = rpc::SaveTask {
            name: name.to_owned(),
            meta,
        };
        let saved: rpc::TaskSaved = self.ask(Method::SaveTask, task)?;
        Ok(saved.task_id)
    }

    /// Opens a Run, of a recorded Task or of a new one of this name.
    pub(crate) fn open_run(
        &self,
        task: Result<&str, &str>,
        config: &Value,
    ) -> Result<String, ExecuteError> {
        let run = rpc::OpenRun {
            task_id: task.ok().map(str::to_owned),
            name: task.err().map(str::to_owned),
            config: config.clone(),
        };
        let open: rpc::RunOpen = self.ask(Method::OpenRun, run)?;
        Ok(open.run_id)
    }

    /// Ends a Run.
    pub(crate) fn report_run(
        &self,
        run_id: &str,
        status: RunStatus,
        reason: Option<TerminationReason>,
    ) -> Result<RunStatus, RunError> {
        let report = rpc::ReportRun {
            run_id: run_id.to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.map(|reason| reason.as_str().to_owned()),
        };
        match self.ask::<rpc::RunReported>(Method::ReportRun, report) {
            Ok(reported) => reported.status.parse().map_err(|error| {
                RunError::Arbiter(Box::new(ArbiterError::Connection(Box::new(error))))
            }),
            Err(Asked::Refused(fault)) => Err(run_error(fault, run_id)),
            Err(Asked::Failed(error)) => Err(RunError::Arbiter(Box::new(error))),
        }
    }
}

pub(super) fn rpc_manner(manner: StopManner) -> Manner {
    match manner {
        StopManner::Interrupt => Manner::Interrupt,
        StopManner::Terminate => Manner::Terminate,
        StopManner::Kill => Manner::Kill,
    }
}
