//! The library, in this very process: the case is the host.

use std::time::Duration;

use serde_json::json;
use xioflow_kernel::journal::{
    self, AdjudicationVerdict, CommitError, Query, Stream, TerminationReason,
};
use xioflow_kernel::{
    AdjudicateError, ArbiterError, Command, DEFAULT_CANCEL_GRACE, DEFAULT_MAX_OUTPUT_BYTES,
    DescendantPolicy, Domain, DomainOptions, Driver, Enforcement, ExecuteError, NotActive,
    OperationBuilder, OperationHandle, Piece, PruneOptions, ResourceLimits, RunError, RunHandle,
    Stdin, StopAction, StopManner, Subscription, stored_result,
};
use xioflow_kit::Stage;

use super::{
    Client, Ended, Event, HostRun, Lease, Record, Refusal, RefusalKind, Submitted, Terms, Way,
};
use crate::contract::Unsupported;
use crate::document::Document;
use crate::work::{Input, Limit, Work};

/// The library `xioflow-kernel`.
#[derive(Debug, Clone, Copy)]
pub struct Embedded;

impl Way for Embedded {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn client<'a>(
        &'a self,
        stage: &'a Stage,
        terms: &Terms,
    ) -> Result<Box<dyn Client + 'a>, Unsupported> {
        let reaper = || stage.program("xioflow-reaper");
        let mut options = DomainOptions::default()
            .helper(terms.helper.clone().unwrap_or_else(reaper))
            // A false helper must not be started before it is needed.
            .warm_helpers(usize::from(terms.helper.is_none()));
        if let Some(max) = terms.max_concurrent_operations {
            options = options.max_concurrent_operations(max);
        }
        if let Some(max) = terms.max_total_memory_bytes {
            options = options.max_total_memory_bytes(max);
        }
        let domain = options
            .open(stage.domain())
            .unwrap_or_else(|error| panic!("open {}: {error:?}", stage.domain().display()));
        Ok(Box::new(Host { domain }))
    }
}

/// A host with an open domain, or a clone of one. It does not know who executes.
pub(super) struct Host {
    pub(super) domain: Domain,
}

impl Client for Host {
    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported> {
        let operation = self.domain.operation(command(work)?).expect("a builder");
        Ok(Box::new(Running::start(operation, work)))
    }

    fn cancel(&self, id: &str) -> Result<Result<(), Refusal>, Unsupported> {
        let cancelled = self
            .domain
            .cancel(id, StopManner::Terminate, DEFAULT_CANCEL_GRACE);
        Ok(cancelled.map_err(|error| not_active(&error)))
    }

    fn adjudicate(&self, id: &str, actor: &str) -> Result<Result<(), Refusal>, Unsupported> {
        let stopped = AdjudicationVerdict::ConfirmedStopped;
        let decided = self.domain.adjudicate(id, stopped, actor, None);
        Ok(decided.map(drop).map_err(|error| not_decided(&error)))
    }

    fn prune_all(&self) {
        let options = PruneOptions {
            max_bytes: Some(0),
            ..PruneOptions::default()
        };
        self.domain.prune(&options).expect("a pruning");
    }

    fn close(&self) -> Result<(), Unsupported> {
        self.domain.close();
        Ok(())
    }

    fn another(&self) -> Result<Box<dyn Client + '_>, Unsupported> {
        let domain = self.domain.clone();
        Ok(Box::new(Self { domain }))
    }

    fn begin_run(&self) -> Result<Box<dyn HostRun + '_>, Unsupported> {
        let run = self.domain.begin_run("contract", &json!({}));
        let run = run.expect("a run");
        Ok(Box::new(OpenRun { host: self, run }))
    }

    fn can_be_killed(&self) -> Result<(), Unsupported> {
        let why = "the client is this very process; that of the command line is killed";
        Err(Unsupported::because(why))
    }

    fn works_beside_others(&self) -> bool {
        true
    }

    fn record(&self, id: &str) -> Option<Record> {
        let journal = self.domain.journal();
        let operation = journal.operation(id).expect("a readable journal")?;
        let run = journal.run(&operation.run_id).expect("a readable journal");
        Some(Record {
            status: operation.status.to_string(),
            outcome: operation.outcome.map(|outcome| outcome.to_string()),
            run_status: run.map(|run| run.status.to_string()),
            result: operation.result.is_some().then(|| self.stored(&operation)),
            run_id: operation.run_id,
            input_fingerprint: operation.input_fingerprint,
            required_resources: operation.required_resources,
            process_identity: operation.process_identity,
        })
    }

    fn events(&self) -> Vec<Event> {
        let events = self.domain.journal().events(0, None, None);
        let events = events.expect("a readable journal").into_iter();
        let event = |event: journal::Event| Event {
            seq: event.seq,
            kind: event.kind,
            run_id: event.run_id,
            operation_id: event.operation_id,
            payload: event.payload,
        };
        events.map(event).collect()
    }

    fn leases(&self) -> Vec<Lease> {
        let leases = self.domain.journal().leases().expect("a readable journal");
        let lease = |lease: journal::Lease| Lease {
            resource: lease.resource_id,
            operation_id: lease.operation_id,
        };
        leases.into_iter().map(lease).collect()
    }

    fn stored_output(&self, id: &str) -> Vec<u8> {
        let outputs = self.domain.journal().outputs(id).expect("readable");
        let stdout = outputs
            .into_iter()
            .find(|output| output.stream == Stream::Stdout);
        let Some(stdout) = stdout else {
            return Vec::new();
        };
        let artifacts = self.domain.folder().join("artifacts");
        match (stdout.content, stdout.artifact) {
            (Some(content), _) => content,
            (None, Some(name)) => std::fs::read(artifacts.join(name)).expect("a stored file"),
            (None, None) => panic!("printed and not stored: {:?}", stdout.spill_error),
        }
    }
}

impl Host {
    fn stored(&self, operation: &journal::Operation) -> Document {
        let outputs = self.domain.journal().outputs(&operation.id);
        let outputs = outputs.expect("a readable journal");
        let artifacts = self.domain.folder().join("artifacts");
        let result = stored_result(operation, &outputs, &artifacts, DEFAULT_MAX_OUTPUT_BYTES);
        document(&result.expect("a readable result"))
    }
}

fn hard(limit: Limit) -> ResourceLimits {
    let limits = ResourceLimits::default();
    match limit {
        Limit::Memory => limits.memory_bytes(64 << 20),
        Limit::Pids => limits.pids(16),
        Limit::CpuTime => limits.cpu_time(Duration::from_secs(10)),
    }
}

fn document(result: &xioflow_kernel::OperationResult) -> Document {
    Document(serde_json::to_value(result).expect("a result is JSON"))
}

fn command(work: &Work) -> Result<Command, Unsupported> {
    let mut command = Command::new(&work.program)
        .args(&work.args)
        .cwd(&work.cwd)
        .no_new_privs(work.no_new_privs)
        .merge_stderr(work.merge_stderr);
    if work.enclosed {
        command = command.driver(Driver::PidNamespace);
    }
    if let Some(script) = &work.stop_action {
        command = command.stop_action(StopAction::shell(script));
    }
    if work.inherit_env {
        command = command.inherit_env();
    }
    if let Some(mask) = work.umask {
        command = command.umask(mask);
    }
    command = command.stdin(match &work.stdin {
        Input::Empty => Stdin::Null,
        Input::Closed => Stdin::Closed,
        Input::Bytes(bytes) => Stdin::bytes(bytes.as_slice()),
    });
    for (name, value) in &work.env {
        command = command.env(name, value);
    }
    // After those with a value: the last of a name counts.
    for name in &work.pass_env {
        command = command.pass_env(name);
    }
    Ok(command)
}

/// An operation on a thread of its own.
struct Running {
    handle: OperationHandle,
    grace: Duration,
    pieces: Option<Subscription>,
    seen: Vec<u8>,
}

impl Running {
    fn start(operation: OperationBuilder, work: &Work) -> Self {
        let policy = match work.descendants_may_stay {
            true => DescendantPolicy::Wait,
            false => DescendantPolicy::Stop,
        };
        let mut operation = operation.id(&work.id).wait(work.wait).descendants(policy);
        if let Some(name) = &work.name {
            operation = operation.name(name);
        }
        if let Some(timeout) = work.timeout {
            operation = operation.timeout(timeout);
        }
        if let Some(grace) = work.grace {
            operation = operation.timeout_grace(grace);
        }
        if let Some(limit) = work.max_output_bytes {
            operation = operation.max_output_bytes(limit);
        }
        if let Some(limit) = work.max_stored_bytes {
            operation = operation.max_stored_bytes(limit);
        }
        if let Some(bytes) = work.watched_memory_bytes {
            let limits = ResourceLimits::default().memory_bytes(bytes);
            operation = operation.limits(limits.enforcement(Enforcement::Soft));
        }
        if let Some(limit) = work.hard_limit {
            operation = operation.limits(hard(limit));
        }
        let leases = work.leases.iter();
        let mut operation = leases.fold(operation, |operation, lease| operation.lease(lease));
        Self {
            pieces: work.live.then(|| operation.subscribe()),
            handle: operation.start().expect("a thread"),
            grace: work.grace.unwrap_or(DEFAULT_CANCEL_GRACE),
            seen: Vec::new(),
        }
    }
}

impl Submitted for Running {
    fn cancel(&self) -> Result<Result<(), Refusal>, Unsupported> {
        let stopped = self
            .handle
            .canceller()
            .stop(StopManner::Terminate, self.grace);
        Ok(stopped.map_err(|error| not_active(&error)))
    }

    fn kill_client(self: Box<Self>) {
        panic!("the client is this very process");
    }

    fn wait_for_output(&mut self, part: &[u8]) {
        let pieces = self.pieces.as_ref().expect("only live work is looked at");
        while !self.seen.windows(part.len()).any(|seen| seen == part) {
            match pieces.next_piece() {
                Some(Piece::Data { bytes, .. }) => self.seen.extend(bytes),
                Some(Piece::Gap { .. }) => {}
                None => panic!("no {} in {}", part.escape_ascii(), self.seen.escape_ascii()),
            }
        }
    }

    fn wait(self: Box<Self>) -> Ended {
        match self.handle.wait() {
            Ok(result) => Ok(document(&result)),
            Err(error) => Err(refusal(&error)),
        }
    }
}

/// A Run with its host.
struct OpenRun<'a> {
    host: &'a Host,
    run: RunHandle,
}

impl HostRun for OpenRun<'_> {
    fn id(&self) -> &str {
        self.run.id()
    }

    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported> {
        let operation = self.run.operation(command(work)?).expect("a builder");
        Ok(Box::new(Running::start(operation, work)))
    }

    fn report_succeeded(&self) -> Result<String, Refusal> {
        let recorded = self.run.report_succeeded();
        recorded
            .map(|status| status.to_string())
            .map_err(|error| run_refusal(&error))
    }

    fn report_failed(&self) -> Result<String, Refusal> {
        let recorded = self.run.report_failed(TerminationReason::Completed);
        recorded
            .map(|status| status.to_string())
            .map_err(|error| run_refusal(&error))
    }

    fn status(&self) -> String {
        let run = self.host.domain.journal().run(self.run.id());
        let run = run.expect("a readable journal").expect("a recorded run");
        run.status.to_string()
    }
}

fn refusal(error: &ExecuteError) -> Refusal {
    let kind = match error {
        ExecuteError::IdConflict { .. } => RefusalKind::IdConflict,
        ExecuteError::RecoveryRequired { .. } => RefusalKind::RecoveryRequired,
        ExecuteError::ResourceConflict { .. } => RefusalKind::ResourceConflict,
        ExecuteError::BudgetExceeded { .. } | ExecuteError::MemoryUnlimited { .. } => {
            RefusalKind::OverBudget
        }
        ExecuteError::RunClosed { .. } => RefusalKind::RunClosed,
        ExecuteError::DriverRefused { .. }
        | ExecuteError::LimitsRefused { .. }
        | ExecuteError::GroupRefused(_) => RefusalKind::NotEnforceable,
        ExecuteError::DomainClosed => RefusalKind::DomainClosed,
        ExecuteError::JoinAbandoned { .. } => RefusalKind::JoinAbandoned,
        ExecuteError::Unrecorded { .. } => RefusalKind::NotRecorded,
        ExecuteError::ArbiterLost { .. } => RefusalKind::ArbiterGone,
        ExecuteError::Arbiter(arbiter) => match &**arbiter {
            ArbiterError::Lost { .. } => RefusalKind::ArbiterGone,
            ArbiterError::Refused { kind, .. } if kind == "fenced" => RefusalKind::Fenced,
            _ => RefusalKind::Other,
        },
        ExecuteError::Commit(commit) => match &**commit {
            CommitError::Fenced { .. } => RefusalKind::Fenced,
            _ => RefusalKind::Other,
        },
        _ => RefusalKind::Other,
    };
    let text = with_causes(error);
    Refusal { kind, text }
}

fn not_active(error: &NotActive) -> Refusal {
    let kind = match error {
        NotActive::NotFound { .. } => RefusalKind::NotFound,
        NotActive::AlreadyCompleted { .. } => RefusalKind::AlreadyCompleted,
        NotActive::DomainClosed => RefusalKind::DomainClosed,
        NotActive::Joined { .. }
        | NotActive::Read(_)
        | NotActive::Arbiter(_)
        | NotActive::System { .. } => RefusalKind::Other,
    };
    let text = with_causes(error);
    Refusal { kind, text }
}

fn not_decided(error: &AdjudicateError) -> Refusal {
    let kind = match error {
        AdjudicateError::StillAlive { .. } => RefusalKind::StillAlive,
        AdjudicateError::AlreadyAdjudicated { .. } => RefusalKind::AlreadyAdjudicated,
        _ => RefusalKind::Other,
    };
    let text = with_causes(error);
    Refusal { kind, text }
}

fn run_refusal(error: &RunError) -> Refusal {
    let kind = match error {
        RunError::Unfinished { .. } => RefusalKind::RunUnfinished,
        RunError::Ended { .. } => RefusalKind::RunClosed,
        _ => RefusalKind::Other,
    };
    let text = with_causes(error);
    Refusal { kind, text }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    texts.join("; ")
}
