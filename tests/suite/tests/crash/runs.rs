//! What becomes of Runs when their owner dies, or gives the domain back.

use xioflow_kernel::Domain;
use xioflow_kernel::journal::{OperationKind, Outcome, Query, RunStatus, TerminationReason};
use xioflow_kit::Stage;

use crate::left::{Left, Legacy, RUN};
use crate::open;

fn status(domain: &Domain, run_id: &str) -> RunStatus {
    let run = domain.journal().run(run_id).expect("readable");
    run.expect("recorded").status
}

fn operation(id: &str) -> Left {
    Left {
        id: id.into(),
        lease: None,
        ..Left::default()
    }
}

/// One that never ran, and so has a known end.
fn unspawned(id: &str) -> Left {
    Left {
        root: None,
        ..operation(id)
    }
}

/// The first to be settled must not end the Run for the others.
#[test]
fn a_run_with_a_known_and_an_unknown_end_is_indeterminate_in_either_order() {
    for operations in [
        vec![unspawned("known"), operation("unknown")],
        vec![operation("unknown"), unspawned("known")],
    ] {
        let stage = Stage::new();
        Legacy {
            runs: vec![(RUN.into(), RunStatus::Running)],
            operations,
            ..Legacy::default()
        }
        .leave(&stage);
        let domain = open(&stage);
        assert_eq!(domain.recovered().len(), 2);
        assert_eq!(status(&domain, RUN), RunStatus::Indeterminate);
        drop(domain);
        assert_eq!(status(&open(&stage), RUN), RunStatus::Indeterminate);
    }
}

/// Its host had ended it while an operation still ran.
#[test]
fn a_run_that_has_ended_stays_as_it_is() {
    let stage = Stage::new();
    let mut legacy = Legacy::of(operation("late"));
    legacy.ended = vec![(RUN.into(), RunStatus::Failed)];
    legacy.leave(&stage);
    let domain = open(&stage);
    assert_eq!(domain.recovered()[0].status, Outcome::Indeterminate);
    assert_eq!(status(&domain, RUN), RunStatus::Failed);
}

#[test]
fn what_an_owner_that_died_had_begun_has_failed() {
    let finished = Left {
        outcome: Some(Outcome::Succeeded),
        run_id: "worked".into(),
        ..operation("done")
    };
    let runs = [
        ("worked", RunStatus::Running, RunStatus::Failed),
        ("empty", RunStatus::Running, RunStatus::Failed),
        ("starting", RunStatus::Starting, RunStatus::Failed),
        ("stopping", RunStatus::Stopping, RunStatus::Failed),
        ("queued", RunStatus::Queued, RunStatus::Queued),
    ];
    let legacy = |orderly| Legacy {
        runs: runs
            .iter()
            .map(|(id, status, _)| ((*id).into(), *status))
            .collect(),
        operations: vec![finished.clone()],
        orderly,
        ..Legacy::default()
    };
    let stage = Stage::new();
    legacy(false).leave(&stage);
    let domain = open(&stage);
    for (id, _, after) in runs {
        assert_eq!(status(&domain, id), after, "{id}");
    }
    let run = domain
        .journal()
        .run("worked")
        .expect("readable")
        .expect("recorded");
    assert_eq!(
        run.termination_reason,
        Some(TerminationReason::CrashDetected)
    );

    // An owner that gave the domain back died of nothing, and a host can go on with what it had begun.
    let stage = Stage::new();
    legacy(true).leave(&stage);
    let domain = open(&stage);
    for (id, before, _) in runs {
        assert_eq!(status(&domain, id), before, "{id}");
    }
    let run = domain.open_run("worked").expect("it is open");
    assert_eq!(
        run.report_succeeded().expect("all have ended"),
        RunStatus::Succeeded
    );
}

#[test]
fn what_was_cancelled_before_its_owner_died_and_other_kinds_have_their_rows() {
    let kind = |id: &str, kind| Left {
        kind,
        run_id: id.into(),
        ..operation(id)
    };
    let stage = Stage::new();
    let operations = vec![
        kind("snapshot", OperationKind::Snapshot),
        kind("rollback", OperationKind::Rollback),
        kind("service", OperationKind::Service),
    ];
    Legacy {
        runs: operations
            .iter()
            .map(|it| (it.run_id.clone(), RunStatus::Running))
            .collect(),
        operations,
        ..Legacy::default()
    }
    .leave(&stage);
    let domain = open(&stage);
    let found: Vec<_> = domain
        .recovered()
        .iter()
        .map(|it| (it.case, it.status))
        .collect();
    let expected = [
        ('R', Outcome::Failed),
        ('I', Outcome::Indeterminate),
        ('G', Outcome::Indeterminate),
    ];
    assert_eq!(found, expected);
    assert_eq!(status(&domain, "snapshot"), RunStatus::Failed);
    assert_eq!(status(&domain, "rollback"), RunStatus::Indeterminate);
}
