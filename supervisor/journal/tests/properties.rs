//! Random histories: whatever is asked of the record, in whatever order, its invariants hold.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::*;
use xioflow_journal::{
    Change, CommitError, Event, Finish, Journal, Lease, Operation, OperationFilter,
    OperationStatus, Outcome, Query, Run, RunStatus, TerminationReason,
};

const RUNS: [&str; 2] = ["r", "s"];
const OPERATIONS: [&str; 4] = ["a", "b", "c", "d"];
const RESOURCES: [&str; 3] = ["x", "y", "z"];

fn changes() -> impl Strategy<Value = Change> {
    let operation = prop::sample::select(OPERATIONS.to_vec());
    let resources = prop::sample::subsequence(RESOURCES.to_vec(), 0..=2);
    let run_id = prop::sample::select(RUNS.to_vec());
    prop_oneof![
        1 => run_id.clone().prop_map(|id| Change::AddRun(run(id))),
        4 => (operation.clone(), run_id.clone(), resources).prop_map(|(id, run_id, resources)| {
            let mut new = new_operation(id, &resources);
            new.run_id = run_id.into();
            Change::RegisterOperation(Box::new(new))
        }),
        3 => operation.clone().prop_map(activate),
        2 => operation.clone().prop_map(stop),
        3 => (operation.clone(), prop::sample::select(Outcome::ALL.to_vec()), any::<bool>()).prop_map(
            |(id, outcome, release_resources)| Change::FinishOperation(Box::new(Finish {
                operation_id: id.into(),
                outcome,
                result: serde_json::json!({"outcome": outcome}),
                outputs: vec![],
                release_resources,
            }))
        ),
        2 => operation.clone().prop_map(adjudicate),
        1 => (run_id, prop::sample::select(RunStatus::ALL.to_vec())).prop_map(|(id, status)| {
            Change::EndRun { run_id: id.into(), status, reason: TerminationReason::Completed }
        }),
    ]
}

fn is_undecided(operation: &Operation) -> bool {
    operation.outcome == Some(Outcome::Indeterminate) && operation.adjudication.is_none()
}

/// All that a domain holds.
#[derive(Debug, Clone, PartialEq)]
struct World {
    runs: Vec<Run>,
    operations: Vec<Operation>,
    leases: Vec<Lease>,
    events: Vec<Event>,
}

impl World {
    fn of(journal: &Journal) -> Self {
        Self {
            runs: journal.runs(None).unwrap(),
            operations: journal.operations(&OperationFilter::default()).unwrap(),
            leases: journal.leases().unwrap(),
            events: journal.events(0, None, None).unwrap(),
        }
    }

    fn operation(&self, id: &str) -> &Operation {
        self.operations.iter().find(|o| o.id == id).unwrap()
    }

    fn count(&self, operation_id: &str, kind: &str) -> usize {
        let of = |e: &&Event| e.operation_id.as_deref() == Some(operation_id) && e.kind == kind;
        self.events.iter().filter(of).count()
    }

    fn is_open(&self, run_id: &str) -> bool {
        let of = |r: &&Run| r.id == run_id;
        self.runs
            .iter()
            .find(of)
            .is_none_or(|r| !r.status.is_terminal())
    }

    fn check(&self) {
        for lease in &self.leases {
            let holder = self.operation(&lease.operation_id);
            let keeps = holder.status != OperationStatus::Done || is_undecided(holder);
            assert!(keeps, "{lease:?} of {holder:?}");
            assert!(holder.required_resources.contains(&lease.resource_id));
        }
        for operation in &self.operations {
            let done = operation.status == OperationStatus::Done;
            assert_eq!(
                self.count(&operation.id, "OPERATION_RESULT_RECORDED"),
                usize::from(done)
            );
            assert_eq!(self.count(&operation.id, "OPERATION_INTENT_REGISTERED"), 1);
            assert_eq!(operation.outcome.is_some(), done);
            assert_eq!(operation.result.is_some(), done);
            let held = self
                .leases
                .iter()
                .filter(|l| l.operation_id == operation.id)
                .count();
            let expected = if done && !is_undecided(operation) {
                0
            } else {
                operation.required_resources.len()
            };
            assert_eq!(held, expected, "{operation:?}");
            let decided = usize::from(operation.adjudication.is_some());
            assert_eq!(self.count(&operation.id, "OPERATION_ADJUDICATED"), decided);
            if operation.adjudication.is_some() {
                assert_eq!(operation.outcome, Some(Outcome::Indeterminate));
            }
        }
        for (at, event) in self.events.iter().enumerate() {
            assert_eq!(
                event.seq,
                i64::try_from(at + 1).unwrap(),
                "positions have no holes"
            );
        }
        for run in &self.runs {
            let transitions = self
                .events
                .iter()
                .filter(|e| e.operation_id.is_none() && e.run_id.as_ref() == Some(&run.id));
            assert_eq!(transitions.count(), usize::from(run.status.is_terminal()));
        }
    }

    /// What can never change back, compared with an earlier world.
    fn check_follows(&self, before: &Self) {
        assert_eq!(
            self.events[..before.events.len()],
            before.events,
            "the record is append-only"
        );
        let runs: BTreeMap<_, _> = self.runs.iter().map(|r| (&r.id, r)).collect();
        for ended in before.runs.iter().filter(|r| r.status.is_terminal()) {
            assert_eq!(runs[&ended.id], ended);
        }
        for done in before
            .operations
            .iter()
            .filter(|o| o.status == OperationStatus::Done)
        {
            let mut now = self.operation(&done.id).clone();
            // What can come once can come now.
            if done.adjudication.is_none() {
                now.adjudication = None;
            }
            assert_eq!(&now, done);
        }
        for run in self
            .runs
            .iter()
            .filter(|r| before.is_open(&r.id) && r.status == RunStatus::Succeeded)
        {
            let undecided = |o: &&Operation| o.run_id == run.id && is_undecided(o);
            assert_eq!(self.operations.iter().find(undecided), None, "{run:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_keeps_the_invariants(history in prop::collection::vec(prop::collection::vec(changes(), 1..4), 1..40)) {
        let place = Place::new();
        let journal = place.open_with_run();
        let mut world = World::of(&journal);
        for commit in history {
            let answer = journal.commit(commit);
            let next = World::of(&journal);
            next.check();
            next.check_follows(&world);
            match answer {
                Ok(receipt) => {
                    let new = &next.events[world.events.len()..];
                    prop_assert_eq!(receipt.first_seq, new.first().map(|e| e.seq));
                    prop_assert_eq!(receipt.last_seq, new.last().map(|e| e.seq));
                }
                Err(CommitError::Rejected(_)) => prop_assert_eq!(&next, &world, "a refused commit has left something"),
                Err(other) => panic!("{other:?}"),
            }
            world = next;
        }
        journal.close().unwrap();
        prop_assert_eq!(World::of(&place.open()), world, "reopening changes nothing");
    }
}
