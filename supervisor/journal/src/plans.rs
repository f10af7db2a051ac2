//! Tests that no question and no change on the way of opening, recovering, listing, pruning or
//! committing takes longer in a larger domain: SQLite's own steps are counted, not time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, StatementStatus};
use serde_json::json;

use crate::model::{
    Adjudication, AdjudicationVerdict, Change, Finish, NewOperation, OperationKind,
    OperationStatus, Outcome, Output, PruneReason, Run, RunStatus, Stream, Task, TerminationReason,
};
use crate::origin::{FileIdentity, OpenedAs};
use crate::query::{OperationFilter, Query, ReadError, sealed};
use crate::{apply, owner, schema, upkeep};

const FEW: usize = 40;
const MANY: usize = 800;

const FILE: FileIdentity = FileIdentity {
    device: 1,
    inode: 2,
    born_ns: None,
};

/// A database in memory whose steps are counted.
struct Counted {
    connection: Connection,
    steps: Arc<AtomicI64>,
}

impl sealed::Source for Counted {
    fn with<T>(
        &self,
        ask: impl FnOnce(&Connection, &Path) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        ask(&self.connection, Path::new("memory"))
    }
}

impl Counted {
    /// A domain with so many finished operations, all with files, and a handful of others.
    fn with(finished: usize) -> Self {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection).unwrap();
        owner::take(&connection, "default", FILE, 1).unwrap();
        let counted = Self {
            connection,
            steps: Arc::default(),
        };
        for n in 0..finished {
            let id = format!("o{n}");
            counted.change(&begin(&id));
            counted.change(&[register(&id), finish(&id, Outcome::Succeeded), end(&id)]);
        }
        for id in ["open", "undecided", "decided"] {
            counted.change(&begin(id));
            counted.change(&[register(id)]);
        }
        for id in ["undecided", "decided"] {
            counted.change(&[finish(id, Outcome::Indeterminate)]);
        }
        counted.counting()
    }

    fn change(&self, changes: &[Change]) {
        apply::apply(&self.connection, changes, 1).unwrap();
    }

    /// Begins to count. A statement that was compiled before counts on from where it was.
    fn counting(mut self) -> Self {
        self.connection.flush_prepared_statement_cache();
        let steps = Arc::clone(&self.steps);
        let count = move |event: TraceEvent<'_>| {
            if let TraceEvent::Profile(statement, _) = event {
                let taken = statement.get_status(StatementStatus::VmStep);
                steps.fetch_add(taken.into(), Ordering::Relaxed);
            }
        };
        self.connection
            .trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(count))
            .unwrap();
        self
    }
}

fn begin(id: &str) -> Vec<Change> {
    let task = Task {
        id: "t".into(),
        name: "t".into(),
        created_at_ms: 1,
        meta: json!({}),
    };
    let run = Run {
        id: id.into(),
        task_id: "t".into(),
        owner: "me".into(),
        status: RunStatus::Running,
        termination_reason: None,
        started_at_ms: 1,
        ended_at_ms: None,
        config: json!({}),
    };
    vec![Change::SaveTask(task), Change::AddRun(run)]
}

fn register(id: &str) -> Change {
    Change::RegisterOperation(Box::new(NewOperation {
        id: id.into(),
        run_id: id.into(),
        kind: OperationKind::Process,
        name: "build".into(),
        input_fingerprint: "f".into(),
        required_resources: vec![id.into()],
        mutation_roots: Vec::new(),
        capability_id: None,
        timeout_ms: None,
        resource_budget: None,
        spawn_gated: None,
    }))
}

fn finish(id: &str, outcome: Outcome) -> Change {
    let output = Output {
        stream: Stream::Stdout,
        total_bytes: 1,
        lines: None,
        sha256: None,
        artifact: Some(format!("{id}-stdout.log")),
        content: None,
        gap: None,
        spill_error: None,
        pruned_at_ms: None,
    };
    Change::FinishOperation(Box::new(Finish {
        operation_id: id.into(),
        outcome,
        result: json!({}),
        outputs: vec![output],
        release_resources: outcome != Outcome::Indeterminate,
    }))
}

fn end(run_id: &str) -> Change {
    Change::EndRun {
        run_id: run_id.into(),
        status: RunStatus::Failed,
        reason: TerminationReason::Completed,
    }
}

/// How many steps something takes with few and with many finished operations.
fn steps(act: impl Fn(&Counted)) -> (i64, i64) {
    let taken = |finished| {
        let counted = Counted::with(finished);
        act(&counted);
        counted.steps.load(Ordering::Relaxed)
    };
    (taken(FEW), taken(MANY))
}

#[track_caller]
fn does_not_grow(what: &str, act: impl Fn(&Counted)) {
    let (few, many) = steps(act);
    assert!(few > 0, "{what}: nothing was counted");
    // A deeper tree costs no steps; a few come and go with what lies on which page.
    assert!(
        many <= few + 20,
        "{what}: {few} steps with {FEW} operations, {many} with {MANY}"
    );
}

/// What this test would say of a question that goes through everything.
#[test]
fn going_through_all_operations_is_seen() {
    let (few, many) = steps(|domain| drop(domain.operations(&OperationFilter::default()).unwrap()));
    assert!(many > few * 10, "{few} {many}");
}

#[test]
fn taking_a_domain_does_not_grow_with_it() {
    does_not_grow("claim", |domain| {
        owner::read(&domain.connection).unwrap();
        owner::file(&domain.connection).unwrap();
        owner::mark_inherited(&domain.connection, OpenedAs::Copy).unwrap();
        owner::take(&domain.connection, "default", FILE, 2).unwrap();
    });
}

#[test]
fn what_recovery_asks_does_not_grow_with_the_domain() {
    does_not_grow("unfinished", |d| {
        assert_eq!(d.unfinished().unwrap().len(), 1)
    });
    does_not_grow("leases", |d| assert_eq!(d.leases().unwrap().len(), 3));
    does_not_grow("undecided", |d| {
        assert_eq!(d.unadjudicated(None).unwrap().len(), 2)
    });
    does_not_grow("open Runs", |d| assert_eq!(d.open_runs().unwrap().len(), 3));
    does_not_grow("inherited", |d| {
        let copy = FileIdentity { inode: 3, ..FILE };
        assert_eq!(
            upkeep::inherited(&d.connection, copy).unwrap().copied.len(),
            1
        );
    });
}

#[test]
fn looking_at_the_newest_does_not_grow_with_the_domain() {
    let at_most = |limit, status| OperationFilter {
        limit: Some(limit),
        status,
        ..OperationFilter::default()
    };
    does_not_grow("newest operations", |d| {
        assert_eq!(d.operations(&at_most(20, None)).unwrap().len(), 20);
    });
    does_not_grow("operations at work", |d| {
        let status = Some(OperationStatus::IntentRegistered);
        assert_eq!(d.operations(&at_most(20, status)).unwrap().len(), 1);
    });
    does_not_grow("operations of a Run", |d| {
        let filter = OperationFilter {
            run_id: Some("o7".into()),
            ..OperationFilter::default()
        };
        assert_eq!(d.operations(&filter).unwrap().len(), 1);
    });
    does_not_grow("last position", |d| assert!(d.last_seq().unwrap() > 0));
    does_not_grow("newest events", |d| {
        assert_eq!(
            d.events(d.last_seq().unwrap() - 20, None, None)
                .unwrap()
                .len(),
            20
        );
    });
    does_not_grow("events of one operation", |d| {
        assert_eq!(d.events(0, Some("o7"), None).unwrap().len(), 3);
    });
    does_not_grow("one operation", |d| {
        assert!(d.operation("o7").unwrap().is_some())
    });
    does_not_grow("its output", |d| {
        assert_eq!(d.outputs("o7").unwrap().len(), 1)
    });
}

#[test]
fn pruning_does_not_grow_with_the_domain() {
    does_not_grow("oldest files", |d| {
        assert_eq!(d.stored_files(None, 20).unwrap().len(), 20)
    });
    does_not_grow("the page after", |d| {
        let first = d.stored_files(None, 10).unwrap();
        assert_eq!(d.stored_files(first.last(), 10).unwrap().len(), 10);
    });
    does_not_grow("giving up", |d| {
        d.change(&[Change::PruneOutput {
            operation_id: "o7".into(),
            stream: Stream::Stdout,
            reason: PruneReason::Age,
        }]);
    });
}

#[test]
fn no_change_grows_with_the_domain() {
    does_not_grow("a new operation", |d| {
        d.change(&begin("new"));
        d.change(&[register("new"), finish("new", Outcome::Succeeded)]);
    });
    does_not_grow("a Run that succeeds", |d| {
        d.change(&[
            finish("open", Outcome::Succeeded),
            Change::EndRun {
                run_id: "open".into(),
                status: RunStatus::Succeeded,
                reason: TerminationReason::Completed,
            },
        ]);
    });
    does_not_grow("a decision", |d| {
        d.change(&[Change::Adjudicate {
            operation_id: "decided".into(),
            adjudication: Adjudication {
                verdict: AdjudicationVerdict::ConfirmedStopped,
                actor: "me".into(),
                note: None,
                residual_pids: Vec::new(),
                decided_at_ms: 1,
            },
        }]);
    });
}
