//! Runs that a host opens and ends itself.

use xioflow_kernel::journal::{Outcome, Query, RunStatus, TerminationReason};
use xioflow_kernel::{ExecuteError, RunError};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{fixture, hold_stdout, open, shell, text, times_run, traced};

#[test]
fn a_failing_operation_leaves_its_run_alone() {
    let stage = Stage::new();
    let domain = open(&stage);
    let run = domain
        .begin_run("work", &serde_json::json!({}))
        .expect("a run");
    let failing = run
        .operation(fixture(&stage, &["exit", "1"]))
        .expect("a builder");
    assert_eq!(failing.run().expect("a result").exit_code, Some(1));
    let status = |id: &str| {
        domain
            .journal()
            .run(id)
            .expect("readable")
            .expect("recorded")
            .status
    };
    assert_eq!(status(run.id()), RunStatus::Running);
    assert_eq!(
        run.report_succeeded().expect("nothing is open"),
        RunStatus::Succeeded
    );
    assert_eq!(status(run.id()), RunStatus::Succeeded);
}

#[test]
fn a_run_cannot_end_before_its_operations() {
    let stage = Stage::new();
    let domain = open(&stage);
    let run = domain
        .begin_run("work", &serde_json::json!({}))
        .expect("a run");
    let (ready, gate) = (stage.path("ready"), stage.path("gate"));
    let script = format!(
        ": > {}; until [ -e {} ]; do :; done",
        text(&ready),
        text(&gate)
    );
    let operation = run
        .operation(shell(&stage, &script))
        .expect("a builder")
        .id("open");
    let handle = operation.start().expect("a thread");
    wait::file(&ready, Deadline::usual());
    let error = run.report_succeeded().expect_err("one is open");
    assert!(matches!(&error, RunError::Unfinished { operation_id, .. } if operation_id == "open"));
    std::fs::write(&gate, "").expect("a file of the stage");
    handle.wait().expect("a result");
    assert_eq!(
        run.report_succeeded().expect("all have ended"),
        RunStatus::Succeeded
    );
}

#[test]
fn an_ended_run_takes_no_operations_and_ends_once() {
    let stage = Stage::new();
    let domain = open(&stage);
    let run = domain
        .begin_run("work", &serde_json::json!({}))
        .expect("a run");
    run.report_failed(TerminationReason::UserCancelled)
        .expect("it is open");
    let operation = run.operation(traced(&stage)).expect("a builder").id("late");
    let error = operation.run().expect_err("the run has ended");
    assert!(
        matches!(
            error,
            ExecuteError::RunClosed { .. } | ExecuteError::Commit(_)
        ),
        "{error:?}"
    );
    assert_eq!(domain.journal().operation("late").expect("readable"), None);
    assert_eq!(times_run(&stage), 0);
    assert!(matches!(
        run.report_succeeded(),
        Err(RunError::Ended { .. })
    ));
    assert_eq!(domain.journal().leases().expect("readable"), []);
}

/// The host says that the Run has failed while its operation still runs; nobody can tell how that ends.
#[test]
fn a_run_that_has_ended_stays_so_when_an_operation_becomes_unclear() {
    let stage = Stage::new();
    let domain = open(&stage);
    let run = domain
        .begin_run("work", &serde_json::json!({}))
        .expect("a run");
    let (ready, gate) = (stage.path("ready"), stage.path("gate"));
    let script = format!(
        ": > {}; until [ -e {} ]; do :; done",
        text(&ready),
        text(&gate)
    );
    let operation = run.operation(shell(&stage, &script)).expect("a builder");
    let handle = operation.id("late").start().expect("a thread");
    wait::file(&ready, Deadline::usual());
    let pipe = hold_stdout(&domain, "late");
    run.report_failed(TerminationReason::Completed)
        .expect("it is open");
    std::fs::write(&gate, "").expect("a file of the stage");
    let result = handle.wait().expect("its result is recorded");
    assert_eq!(result.status, Outcome::Indeterminate);
    let recorded = domain.journal().run(run.id()).expect("readable");
    assert_eq!(recorded.expect("recorded").status, RunStatus::Failed);
    drop(pipe);
}
