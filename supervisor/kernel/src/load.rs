//! What the operations of a domain use at this moment, for whoever watches. Everything is read when somebody asks, from
//! the record and from the system; a domain that nobody watches does nothing for it.
//!
//! Neighbours: `domain/load` asks for all that are in flight, `operation/limits` looks for its own purpose.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xioflow_journal::{Operation, OperationStatus};

use crate::limits::ResourceLimits;
use crate::observe;
use crate::recovery::Liveness;
use crate::result::ProcessIdentity;

/// What one operation uses at this moment. What was not seen is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// The operation.
    pub operation_id: String,
    /// Its name; `None` for one that waits, of which nothing is recorded yet.
    pub name: Option<String>,
    /// Where it is.
    pub state: LoadState,
    /// How long it has been on record, in milliseconds by the wall clock.
    pub age_ms: Option<u64>,
    /// Its processes and threads.
    pub tasks: Option<u64>,
    /// Its memory, in bytes. What several of its processes share counts for each of them.
    pub memory_bytes: Option<u64>,
    /// Processor time of its processes, those that were waited for included, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Bytes that it has read from disks.
    pub io_read_bytes: Option<u64>,
    /// Bytes that it has written to disks.
    pub io_write_bytes: Option<u64>,
    /// Whether that is all of it; `false` where some of its processes could not be looked at.
    pub is_complete: bool,
    /// What it is limited to, if it is.
    pub limits: Option<ResourceLimits>,
}

/// Where an operation is that its owner executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadState {
    /// It waits for resources, or is being started.
    Waiting,
    /// It runs.
    Running,
    /// It stands still.
    Paused,
    /// It is being stopped.
    Stopping,
}

impl LoadState {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
        }
    }
}

impl Load {
    /// One that waits, of which nothing is recorded.
    pub(crate) fn waiting(operation_id: String) -> Self {
        Self {
            operation_id,
            name: None,
            state: LoadState::Waiting,
            age_ms: None,
            tasks: None,
            memory_bytes: None,
            cpu_ms: None,
            io_read_bytes: None,
            io_write_bytes: None,
            is_complete: false,
            limits: None,
        }
    }

    /// Looks at a recorded operation, by the helper that is recorded with it. `None` for one that is over.
    ///
    /// For operations of this machine, seen from the pid namespace of their owner; elsewhere nothing of them is seen.
    #[must_use]
    pub fn of_recorded(operation: &Operation) -> Option<Self> {
        let mut load = Self {
            name: Some(operation.name.clone()),
            state: state(operation)?,
            age_ms: age_ms(operation.created_at_ms),
            limits: limits(operation.resource_budget.as_ref()),
            ..Self::waiting(operation.id.clone())
        };
        load.look(operation);
        Some(load)
    }

    /// By the helper whose descendants the tree is, if it is the one that is recorded.
    fn look(&mut self, operation: &Operation) {
        let read = |identity: Option<&Value>| -> Option<ProcessIdentity> {
            serde_json::from_value(identity?.clone()).ok()
        };
        let Some(holder) = read(operation.holder.as_ref()) else {
            return;
        };
        if observe::liveness(&holder) != Liveness::Alive {
            return;
        }
        let root = read(operation.process_identity.as_ref());
        let init = root.and_then(|root| Some(root.pid_namespace?.init.pid));
        let Ok(seen) = observe::tree_use(holder.pid, init) else {
            return;
        };
        self.tasks = Some(seen.tasks);
        self.memory_bytes = Some(seen.resident_bytes);
        self.cpu_ms = u64::try_from(seen.cpu_time.as_millis()).ok();
        self.is_complete = seen.is_complete;
    }
}

fn state(operation: &Operation) -> Option<LoadState> {
    Some(match operation.status {
        OperationStatus::Pending | OperationStatus::IntentRegistered => LoadState::Waiting,
        OperationStatus::Active if operation.pause.is_some() => LoadState::Paused,
        OperationStatus::Active => LoadState::Running,
        OperationStatus::Stopping => LoadState::Stopping,
        OperationStatus::Done => return None,
    })
}

/// How long ago that was; `None` where the clock was set back behind it.
fn age_ms(since_ms: i64) -> Option<u64> {
    let since = Duration::from_millis(u64::try_from(since_ms).ok()?);
    let age = SystemTime::now().duration_since(UNIX_EPOCH + since).ok()?;
    u64::try_from(age.as_millis()).ok()
}

/// The limits in a recorded budget. Without the word that says how they are seen to, there are none.
pub(crate) fn limits(budget: Option<&Value>) -> Option<ResourceLimits> {
    let budget = budget?;
    budget.get("enforcement")?;
    serde_json::from_value(budget.clone()).ok()
}
