//! `Domain::cancel` and `Domain::close`: in each phase of an operation, and an error with its reason
//! where there is nothing to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xioflow_kernel::journal::{Outcome, Query, TerminationReason};
use xioflow_kernel::{Domain, DomainOptions, ExecuteError, NotActive, StopManner};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{events, fixture, open, open_with, text, times_run, traced};

fn cancel(domain: &Domain, id: &str) -> Result<(), NotActive> {
    domain.cancel(id, StopManner::Terminate, Duration::from_millis(200))
}

/// Runs until it is stopped, holding the resource `x`.
fn holder(stage: &Stage, domain: &Domain) -> xioflow_kernel::OperationHandle {
    let ready = stage.path("ready");
    let command = fixture(stage, &["--ready", text(&ready), "sleep"]);
    let operation = domain.operation(command).expect("a builder");
    let handle = operation.id("holder").lease("x").start().expect("a thread");
    stage.wait_ready(&ready);
    handle
}

#[test]
fn an_active_one_is_stopped() {
    let stage = Stage::new();
    let domain = open(&stage);
    let handle = holder(&stage, &domain);
    cancel(&domain, "holder").expect("it runs");
    let result = handle.wait().expect("a result");
    assert_eq!(result.status, Outcome::Cancelled);
    assert_eq!(
        result.termination_reason,
        Some(TerminationReason::UserCancelled)
    );
    assert_eq!(domain.journal().leases().expect("readable"), []);
    let late = cancel(&domain, "holder");
    assert!(
        matches!(late, Err(NotActive::AlreadyCompleted { .. })),
        "{late:?}"
    );
}

#[test]
fn one_that_waits_for_a_resource_is_recorded_and_runs_nothing() {
    let stage = Stage::new();
    let domain = open(&stage);
    let handle = holder(&stage, &domain);
    let waiting = domain.operation(traced(&stage)).expect("a builder");
    let waiting = waiting
        .id("waiting")
        .lease("x")
        .wait(Duration::from_secs(600));
    let waiting = waiting.start().expect("a thread");
    // It is known from its submission on, whether it waits already or not.
    wait::until("its submission", Deadline::usual(), || {
        cancel(&domain, "waiting").is_ok()
    });
    let result = waiting.wait().expect("a result");
    assert_eq!(
        (result.status, result.exit_code),
        (Outcome::Cancelled, None)
    );
    assert_eq!(events(&domain, "waiting"), ["OPERATION_RESULT_RECORDED"]);
    let held = domain.journal().leases().expect("readable");
    assert_eq!(held.len(), 1, "the holder's alone");
    cancel(&domain, "holder").expect("it runs");
    handle.wait().expect("a result");
    assert_eq!(times_run(&stage), 0);
}

#[test]
fn one_that_nobody_knows_is_an_error() {
    let stage = Stage::new();
    let domain = open(&stage);
    let error = cancel(&domain, "nobody").expect_err("there is none");
    assert!(matches!(error, NotActive::NotFound { .. }), "{error:?}");
    assert!(error.to_string().contains("nobody"), "{error}");
}

#[test]
fn a_closed_domain_takes_nothing_and_loses_nothing() {
    let stage = Stage::new();
    let domain = open_with(&stage, DomainOptions::default());
    let ready = stage.path("ready");
    let gate = stage.path("gate");
    let script = format!(
        ": > {}; until [ -e {} ]; do :; done; exit 3",
        text(&ready),
        text(&gate)
    );
    let running = domain
        .operation(crate::shell(&stage, &script))
        .expect("a builder");
    let running = running.id("running").lease("x").start().expect("a thread");
    wait::file(&ready, Deadline::usual());
    let waiting = domain.operation(traced(&stage)).expect("a builder");
    let waiting = waiting
        .id("waiting")
        .lease("x")
        .wait(Duration::from_secs(600));
    let waiting = waiting.start().expect("a thread");
    domain.close();
    let refused = waiting.wait().expect_err("nothing is taken any more");
    assert!(matches!(refused, ExecuteError::DomainClosed), "{refused:?}");
    let closed = cancel(&domain, "running");
    assert!(matches!(closed, Err(NotActive::DomainClosed)), "{closed:?}");
    let refused = domain.run(traced(&stage)).expect_err("closed");
    assert!(matches!(refused, ExecuteError::DomainClosed), "{refused:?}");
    let refused = domain
        .begin_run("late", &serde_json::json!({}))
        .expect_err("closed");
    assert!(matches!(refused, ExecuteError::DomainClosed), "{refused:?}");
    std::fs::write(&gate, "").expect("a file of the stage");
    let result = running.wait().expect("it goes on to its result");
    assert_eq!(result.exit_code, Some(3));
    assert_eq!(times_run(&stage), 0);
    drop(domain);
    let again = open(&stage);
    assert_eq!(
        again
            .journal()
            .operations(&Default::default())
            .expect("readable")
            .len(),
        1
    );
}

/// A repetition is in flight while it is answered, but there is nothing of it to stop.
#[test]
fn one_that_is_only_answered_again_has_ended() {
    const REPLAYS: usize = 200;
    let stage = Stage::new();
    let domain = open(&stage);
    let submit = || {
        let operation = domain.operation(traced(&stage)).expect("a builder");
        operation.id("once").run().expect("a result")
    };
    assert_eq!(submit().status, Outcome::Succeeded);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..REPLAYS {
                assert_eq!(submit().status, Outcome::Succeeded);
            }
            over.store(true, Ordering::SeqCst);
        });
        while !over.load(Ordering::SeqCst) {
            let stopped = cancel(&domain, "once");
            assert!(
                matches!(stopped, Err(NotActive::AlreadyCompleted { .. })),
                "{stopped:?}"
            );
        }
    });
}
