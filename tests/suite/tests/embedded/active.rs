//! Being told that an operation runs, and stopping it for a client that went away.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use xioflow_kernel::journal::{Outcome, Query, RunStatus, TerminationReason};
use xioflow_kernel::{
    Active, Canceller, Domain, ExecuteError, NotActive, OperationBuilder, StopManner,
};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{command, events, open, shell, text, times_run, traced};

/// Has everything that the operation tells put into a channel.
fn listen(operation: OperationBuilder) -> (OperationBuilder, Receiver<Active>) {
    let (tell, told) = mpsc::channel();
    let operation = operation.when_active(move |active| tell.send(active).expect("a listener"));
    (operation, told)
}

fn submit(domain: &Domain, command: xioflow_kernel::Command, id: &str) -> OperationBuilder {
    domain.operation(command).expect("a builder").id(id)
}

fn told_all(told: &Receiver<Active>) -> Vec<Active> {
    told.iter().collect()
}

#[test]
fn it_is_told_once_when_it_is_on_record_and_has_not_run() {
    let stage = Stage::new();
    let domain = open(&stage);
    let (reader, trace) = (domain.clone(), stage.path("trace"));
    let (tell, told) = mpsc::channel();
    let operation = submit(&domain, traced(&stage), "told").when_active(move |active| {
        let recorded = reader.journal().operation("told").expect("readable");
        let status = recorded.expect("on record").status.to_string();
        tell.send((active, status, trace.exists()))
            .expect("a listener");
    });
    let result = operation.run().expect("a result");
    let told: Vec<_> = told.iter().collect();
    let active = Active {
        operation_id: "told".to_owned(),
        run_id: result.run_id,
        joined: false,
        host_moved: None,
    };
    assert_eq!(told, [(active, "active".to_owned(), false)]);
    assert_eq!(times_run(&stage), 1);
}

#[test]
fn one_that_is_cancelled_right_after_was_told_once() {
    let stage = Stage::new();
    let domain = open(&stage);
    for turn in 0..20 {
        let id = format!("cancelled-{turn}");
        let operation = submit(&domain, shell(&stage, "sleep 600"), &id);
        let canceller = operation.canceller();
        let (tell, told) = mpsc::channel();
        let operation = operation.when_active(move |active| {
            canceller
                .stop(StopManner::Kill, Duration::ZERO)
                .expect("it is active");
            tell.send(active).expect("a listener");
        });
        let result = operation.run().expect("a result");
        assert_eq!(result.status, Outcome::Cancelled);
        assert_eq!(told_all(&told).len(), 1);
    }
}

#[test]
fn what_does_not_run_tells_nobody() {
    let stage = Stage::new();
    let domain = open(&stage);
    let told_by = |operation: OperationBuilder| {
        let (operation, told) = listen(operation);
        let canceller = operation.canceller();
        (operation, canceller, told)
    };
    let (operation, canceller, told) = told_by(submit(&domain, traced(&stage), "cancelled"));
    canceller.cancel().expect("it has not ended");
    let result = operation.run().expect("a result");
    assert_eq!(result.status, Outcome::Cancelled);
    assert_eq!(told_all(&told), []);

    let absent = command(&stage, stage.path("absent"), &[]);
    let (operation, _, told) = told_by(submit(&domain, absent, "absent"));
    let result = operation.run().expect("a result");
    assert!(result.spawn_failure.is_some());
    assert_eq!(told_all(&told), []);

    submit(&domain, traced(&stage), "once")
        .run()
        .expect("a result");
    let (operation, _, told) = told_by(submit(&domain, traced(&stage), "once"));
    assert!(operation.run().expect("a replay").replayed);
    assert_eq!(told_all(&told), []);

    let (operation, _, told) = told_by(submit(&domain, shell(&stage, ":"), "once"));
    let conflict = operation.run().expect_err("other inputs");
    assert!(matches!(conflict, ExecuteError::IdConflict { .. }));
    assert_eq!(told_all(&told), []);
}

#[test]
fn one_that_joins_is_told_so() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = format!("until [ -e {} ]; do :; done", text(&stage.path("gate")));
    let (first, first_told) = listen(submit(&domain, shell(&stage, &script), "shared"));
    let first = first.start().expect("a thread");
    let of_first = first_told.recv().expect("it runs");
    let (second, second_told) = listen(submit(&domain, shell(&stage, &script), "shared"));
    let second = second.start().expect("a thread");
    let of_second = second_told.recv().expect("it joins");
    assert_eq!((of_first.joined, of_second.joined), (false, true));
    assert_eq!(of_first.run_id, of_second.run_id);
    std::fs::write(stage.path("gate"), "").expect("a file of the stage");
    first.wait().expect("a result");
    assert!(second.wait().expect("a result").replayed);
    assert_eq!(
        told_all(&first_told).len() + told_all(&second_told).len(),
        0
    );
}

/// Runs `sleep` until `end` is asked of it, and says how it ended.
fn ended_by(
    stage: &Stage,
    domain: &Domain,
    id: &str,
    end: impl FnOnce(&Canceller) -> Result<(), NotActive>,
) -> (xioflow_kernel::OperationResult, Vec<String>) {
    let (operation, told) = listen(submit(domain, shell(stage, "sleep 600"), id));
    let running = operation.start().expect("a thread");
    told.recv().expect("it runs");
    end(&running.canceller()).expect("it runs");
    let result = running.wait().expect("a result");
    (result, events(domain, id))
}

#[test]
fn a_lost_client_is_a_reason_of_its_own() {
    let stage = Stage::new();
    let domain = open(&stage);
    let grace = Duration::from_secs(2);
    let (lost, lost_events) = ended_by(&stage, &domain, "lost", |it| it.client_lost(grace));
    let (user, user_events) = ended_by(&stage, &domain, "user", |it| it.cancel());
    let lost_reason = Some(TerminationReason::ClientLost);
    assert_eq!(
        (lost.status, lost.termination_reason),
        (Outcome::Cancelled, lost_reason)
    );
    assert_eq!(
        lost.stop.map(|stop| stop.reason),
        Some(TerminationReason::ClientLost)
    );
    assert_eq!(lost_events, user_events, "the usual events of a stop");
    let reasons = |id: &str| -> Vec<_> {
        let events = domain
            .journal()
            .events(0, Some(id), None)
            .expect("readable");
        let reason = |event: &serde_json::Value| event["reason"].as_str().map(str::to_owned);
        events
            .iter()
            .filter_map(|event| reason(&event.payload))
            .collect()
    };
    assert_eq!(reasons("user"), ["user_cancelled"]);
    assert_eq!(reasons("lost"), ["client_lost"]);
    let run = domain.journal().run(&lost.run_id).expect("readable");
    let run = run.expect("on record");
    assert_eq!(
        (run.status, run.termination_reason),
        (RunStatus::Cancelled, lost_reason)
    );
    assert_eq!(user.status, Outcome::Cancelled);
}

#[test]
fn a_client_that_is_lost_before_anything_ran_leaves_a_result_that_says_so() {
    let stage = Stage::new();
    let domain = open(&stage);
    let operation = submit(&domain, traced(&stage), "early");
    operation
        .canceller()
        .client_lost(Duration::ZERO)
        .expect("it has not ended");
    let result = operation.run().expect("a result");
    assert_eq!(
        (result.status, result.termination_reason),
        (Outcome::Cancelled, Some(TerminationReason::ClientLost))
    );
    assert_eq!(times_run(&stage), 0);
}

/// The client of one that has joined stops nothing but its own waiting.
#[test]
fn the_loss_of_a_client_that_joined_leaves_the_operation_alone() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = format!("until [ -e {} ]; do :; done", text(&stage.path("gate")));
    let (first, told) = listen(submit(&domain, shell(&stage, &script), "shared"));
    let first = first.start().expect("a thread");
    told.recv().expect("it runs");
    let joiner = submit(&domain, shell(&stage, &script), "shared")
        .start()
        .expect("a thread");
    wait::until("a joiner", Deadline::usual(), || {
        domain.in_flight().expect("ours")[0].joiners == 1
    });
    joiner
        .canceller()
        .client_lost(Duration::ZERO)
        .expect("it waits");
    let left = joiner.wait().expect_err("it was told to stop waiting");
    assert!(matches!(left, ExecuteError::JoinAbandoned { .. }));
    std::fs::write(stage.path("gate"), "").expect("a file of the stage");
    assert_eq!(first.wait().expect("a result").status, Outcome::Succeeded);
}
