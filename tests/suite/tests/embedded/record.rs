//! What the journal says of an operation, event by event, and what it must never say.

use xioflow_kernel::journal::{OperationStatus, Outcome, Query};
use xioflow_kernel::{Evidence, TreeSettlement};
use xioflow_kit::Stage;

use crate::{events, fixture, open, shell};

#[test]
fn the_order_of_events_is_fixed() {
    let stage = Stage::new();
    let domain = open(&stage);
    let run = domain
        .operation(shell(&stage, "exit 3"))
        .expect("a builder")
        .id("one");
    let result = run.run().expect("a result");
    let all = domain
        .journal()
        .events(0, None, None)
        .expect("a readable journal");
    let kinds: Vec<_> = all.iter().map(|event| event.kind.as_str()).collect();
    let expected = [
        "OPERATION_INTENT_REGISTERED",
        "OPERATION_STATUS_TRANSITION",
        "OPERATION_RESULT_RECORDED",
        "RUN_STATUS_TRANSITION",
    ];
    let found: Vec<_> = kinds
        .iter()
        .filter(|kind| expected.contains(kind))
        .copied()
        .collect();
    assert_eq!(found, expected, "of {kinds:?}");
    assert!(all.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert_eq!(
        (result.exit_code, result.evidence),
        (Some(3), Evidence::Observed)
    );
}

#[test]
fn a_command_that_cannot_start_was_never_active() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = crate::command(&stage, "/nonexistent/program", &[]);
    let operation = domain
        .operation(command)
        .expect("a builder")
        .id("missing")
        .lease("r");
    let result = operation.run().expect("a result");
    assert_eq!(
        (result.exit_code, result.signal.as_deref()),
        (Some(127), None)
    );
    let failure = result.spawn_failure.expect("why it did not start");
    assert_eq!(
        (failure.stage.as_str(), failure.code.as_str()),
        ("exec", "ENOENT")
    );
    let kinds = events(&domain, "missing");
    assert!(
        !kinds.contains(&"OPERATION_STATUS_TRANSITION".to_owned()),
        "{kinds:?}"
    );
    let next = domain
        .operation(fixture(&stage, &["exit", "0"]))
        .expect("a builder")
        .lease("r");
    assert_eq!(next.run().expect("the lease is free").exit_code, Some(0));
}

#[test]
fn a_finished_operation_is_recorded_with_its_identity() {
    let stage = Stage::new();
    let domain = open(&stage);
    let operation = domain
        .operation(fixture(&stage, &["status"]))
        .expect("a builder")
        .id("known");
    let result = operation.run().expect("a result");
    let record = domain
        .journal()
        .operation("known")
        .expect("readable")
        .expect("recorded");
    assert_eq!(record.status, OperationStatus::Done);
    assert_eq!(record.outcome, Some(Outcome::Succeeded));
    assert_eq!(record.spawn_gated, Some(true));
    let identity = record.process_identity.expect("who it was");
    let pid = identity["pid"].as_u64().expect("a pid");
    assert!(
        result.stdout.contains(&format!("Pid: {pid}\n")),
        "{}",
        result.stdout
    );
    assert_eq!(result.tree_settlement, Some(TreeSettlement::Empty));
}

#[test]
fn facts_survive_reopening() {
    let stage = Stage::new();
    let before = {
        let domain = open(&stage);
        for id in ["a", "b", "c"] {
            let command = shell(&stage, &format!("echo {id}; exit 1"));
            domain
                .operation(command)
                .expect("a builder")
                .id(id)
                .run()
                .expect("a result");
        }
        let journal = domain.journal();
        let operations = journal.operations(&Default::default()).expect("readable");
        (
            operations,
            journal.runs(None).expect("readable"),
            journal.last_seq().expect("readable"),
        )
    };
    let domain = open(&stage);
    let journal = domain.journal();
    let operations = journal.operations(&Default::default()).expect("readable");
    let after = (operations, journal.runs(None).expect("readable"));
    assert_eq!(after, (before.0, before.1));
    assert!(journal.last_seq().expect("readable") >= before.2);
    assert_eq!(domain.recovered(), [], "nothing was left to settle");
}
