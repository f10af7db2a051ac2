//! What an owner leaves that is killed: operations and Runs, recorded by a process that then kills
//! itself, so that nothing of an orderly end is in it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::fs::{fstat, fstatfs};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xioflow_kernel::ProcessIdentity;
use xioflow_kernel::journal::{
    Change, Finish, Journal, NewOperation, OpenOptions, OperationKind, Outcome, Run, RunStatus,
    Task, TerminationReason,
};
use xioflow_kit::Stage;

/// Where the half of a test that is killed finds what it is to leave.
const VARIABLE: &str = "XIOFLOW_TEST_LEFT";

/// The operation, the resource and the Run of a test that has only one of each.
pub(crate) const ID: &str = "op";
pub(crate) const LEASE: &str = "db";
pub(crate) const RUN: &str = "run";

/// An operation without a result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Left {
    pub(crate) id: String,
    pub(crate) run_id: String,
    pub(crate) kind: OperationKind,
    pub(crate) spawn_gated: Option<bool>,
    pub(crate) lease: Option<String>,
    /// The identity of the command; without it the operation has not become active.
    pub(crate) root: Option<Value>,
    pub(crate) holder: Value,
    /// Why it was being stopped.
    pub(crate) stop: Option<TerminationReason>,
    /// How it ended, if it has.
    pub(crate) outcome: Option<Outcome>,
}

impl Default for Left {
    /// A command that ran, with a helper that is gone as it is.
    fn default() -> Self {
        Self {
            id: ID.into(),
            run_id: RUN.into(),
            kind: OperationKind::Process,
            spawn_gated: Some(true),
            lease: Some(LEASE.into()),
            root: Some(as_json(&gone())),
            holder: as_json(&gone()),
            stop: None,
            outcome: None,
        }
    }
}

impl Left {
    pub(crate) fn with_root(root: &ProcessIdentity) -> Self {
        Self {
            root: Some(as_json(root)),
            ..Self::default()
        }
    }

    fn changes(&self) -> Vec<Change> {
        let operation_id = self.id.clone();
        let mut changes = vec![Change::RegisterOperation(Box::new(NewOperation {
            id: self.id.clone(),
            run_id: self.run_id.clone(),
            kind: self.kind,
            name: "build".into(),
            input_fingerprint: "x".into(),
            required_resources: self.lease.iter().cloned().collect(),
            mutation_roots: Vec::new(),
            capability_id: None,
            timeout_ms: None,
            resource_budget: None,
            spawn_gated: self.spawn_gated,
        }))];
        if let Some(root) = &self.root {
            changes.push(Change::ActivateOperation {
                operation_id: operation_id.clone(),
                process_identity: root.clone(),
                holder: self.holder.clone(),
            });
        }
        if let Some(reason) = self.stop {
            changes.push(Change::StopOperation {
                operation_id: operation_id.clone(),
                reason,
            });
        }
        if let Some(outcome) = self.outcome {
            changes.push(Change::FinishOperation(Box::new(Finish {
                operation_id,
                outcome,
                result: json!({}),
                outputs: Vec::new(),
                release_resources: outcome != Outcome::Indeterminate,
            })));
        }
        changes
    }
}

/// All that an owner leaves.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Legacy {
    pub(crate) runs: Vec<(String, RunStatus)>,
    pub(crate) operations: Vec<Left>,
    /// Runs that their host has ended, after their operations had begun.
    pub(crate) ended: Vec<(String, RunStatus)>,
    /// Whether the domain was given back.
    pub(crate) orderly: bool,
}

impl Legacy {
    /// One Run with one operation.
    pub(crate) fn of(operation: Left) -> Self {
        Self {
            runs: vec![(operation.run_id.clone(), RunStatus::Running)],
            operations: vec![operation],
            ..Self::default()
        }
    }

    /// Leaves it in the stage's domain.
    pub(crate) fn leave(&self, stage: &Stage) {
        let program = std::env::current_exe().expect("this program");
        let what = json!({ "domain": stage.domain(), "legacy": self }).to_string();
        let half = Command::new(program)
            .args(["--exact", "left::owner", "--ignored"])
            .env(VARIABLE, what)
            .output()
            .expect("this program runs");
        let killed = half.status.signal() == Some(9);
        assert!(killed || self.orderly && half.status.success(), "{half:?}");
    }
}

#[test]
#[ignore = "the half of the tests here that is killed"]
fn owner() {
    let what = std::env::var(VARIABLE).expect("what to leave");
    let mut what: Value = serde_json::from_str(&what).expect("JSON");
    let domain = what["domain"].as_str().expect("a folder").to_owned();
    let legacy: Legacy = serde_json::from_value(what["legacy"].take()).expect("a legacy");
    let journal = Journal::open(domain, &OpenOptions::default()).expect("a journal");
    let mut changes = vec![Change::SaveTask(Task {
        id: "task".into(),
        name: "task".into(),
        created_at_ms: 1,
        meta: Value::Null,
    })];
    for (id, status) in &legacy.runs {
        changes.push(Change::AddRun(Run {
            id: id.clone(),
            task_id: "task".into(),
            owner: "crashed".into(),
            status: *status,
            termination_reason: None,
            started_at_ms: 1,
            ended_at_ms: None,
            config: json!({}),
        }));
    }
    for operation in &legacy.operations {
        changes.extend(operation.changes());
    }
    for (run_id, status) in &legacy.ended {
        changes.push(Change::EndRun {
            run_id: run_id.clone(),
            status: *status,
            reason: TerminationReason::Completed,
        });
    }
    journal.commit(changes).expect("a commit");
    if legacy.orderly {
        return journal.close().expect("given back");
    }
    let this = rustix::process::getpid();
    rustix::process::kill_process(this, rustix::process::Signal::KILL).expect("ours");
}

/// Who a living process is.
pub(crate) fn identity_of(pid: u32) -> ProcessIdentity {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("alive");
    // Behind the name, which may hold anything: field 22 of proc_pid_stat(5).
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let start_ticks = fields.split_whitespace().nth(19).expect("a start time");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    ProcessIdentity {
        pid,
        pgid: None,
        start_ticks: start_ticks.parse().expect("a number"),
        boot_id: boot.trim().replace('-', ""),
        pidfd_inode: pidfd_inode(pid),
        os_start_time: None,
        command_fingerprint: None,
        namespaces: None,
        pid_namespace: None,
        cgroup_path: None,
        cgroup_id: None,
        cgroup_namespace: None,
    }
}

/// The inode of a pidfd, where it is unique: type of the file system of pidfds since Linux 6.9.
fn pidfd_inode(pid: u32) -> Option<u64> {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("alive");
    let is_unique = fstatfs(&pidfd).expect("a descriptor").f_type == 0x5049_4446;
    is_unique.then(|| fstat(&pidfd).expect("a descriptor").st_ino)
}

/// A process of this boot that has ended: our own number, but started before everything else.
pub(crate) fn gone() -> ProcessIdentity {
    ProcessIdentity {
        start_ticks: 1,
        pidfd_inode: None,
        ..identity_of(std::process::id())
    }
}

pub(crate) fn as_json(identity: &ProcessIdentity) -> Value {
    serde_json::to_value(identity).expect("an identity is JSON")
}
