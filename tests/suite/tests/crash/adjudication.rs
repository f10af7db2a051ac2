//! Somebody decides about an end that could not be proven: once, and what it held is free.

use std::sync::Barrier;
use std::time::Duration;

use xioflow_kernel::journal::{AdjudicationVerdict, Outcome, Query, RunStatus};
use xioflow_kernel::{AdjudicateError, Command, Residual, Reuse};
use xioflow_kit::{Stage, wait};

use crate::left::{ID, LEASE, Left, Legacy, RUN};
use crate::stop::{end, leaderless};
use crate::{assert_free, assert_isolated, decision, is_over, open, result, true_command};

const CONFIRMED: AdjudicationVerdict = AdjudicationVerdict::ConfirmedStopped;
const ABANDONED: AdjudicationVerdict = AdjudicationVerdict::AbandonWithResiduals;

/// A domain with an operation whose end is not known, and nothing of it left.
fn unclear() -> Stage {
    let stage = Stage::new();
    Legacy::of(Left::default()).leave(&stage);
    stage
}

#[test]
fn a_decision_is_an_event_before_the_leases_are_free() {
    let stage = unclear();
    let domain = open(&stage);
    assert_isolated(&stage, &domain);
    let before = domain.journal().last_seq().expect("readable");
    let decided = domain.adjudicate(ID, CONFIRMED, "ada", Some("looked with ps"));
    let decided = decided.expect("nothing of it lives");
    assert_eq!(
        (decided.actor.as_str(), decided.note.as_deref()),
        ("ada", Some("looked with ps"))
    );
    let events = domain
        .journal()
        .events(before, None, None)
        .expect("readable");
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["OPERATION_ADJUDICATED", "RESOURCES_RELEASED"]);
    assert_eq!(domain.journal().leases().expect("readable"), []);
    assert_eq!(result(&domain, ID).adjudication, Some(decided.clone()));
    assert_free(&stage, &domain);
    drop(domain);
    // It is decided, also for the next owner.
    let domain = open(&stage);
    assert_eq!(domain.recovered(), []);
    assert_eq!(result(&domain, ID).adjudication, Some(decided));
    assert_free(&stage, &domain);
}

#[test]
fn whoever_waits_for_the_leases_has_them_then() {
    let stage = unclear();
    let domain = open(&stage);
    let waiter = domain.operation(true_command(&stage)).expect("a builder");
    let waiter = waiter.id("next").lease(LEASE).wait(Duration::from_secs(60));
    let waiter = waiter.start().expect("a thread");
    while domain.in_flight().expect("ours").is_empty() {
        std::thread::yield_now();
    }
    domain
        .adjudicate(ID, CONFIRMED, "ada", None)
        .expect("nothing of it lives");
    assert_eq!(waiter.wait().expect("it got the lease").exit_code, Some(0));
}

#[test]
fn of_several_at_once_one_decides_and_the_others_are_told_what() {
    let stage = unclear();
    let domain = open(&stage);
    let together = Barrier::new(8);
    let decided: Vec<_> = std::thread::scope(|scope| {
        let deciders = (0..8).map(|at| {
            let (domain, together) = (&domain, &together);
            scope.spawn(move || {
                together.wait();
                domain.adjudicate(ID, CONFIRMED, &format!("actor-{at}"), None)
            })
        });
        let deciders: Vec<_> = deciders.collect();
        deciders
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect()
    });
    let won: Vec<_> = decided.iter().filter_map(|it| it.as_ref().ok()).collect();
    let [won] = won.as_slice() else {
        panic!("{decided:?}");
    };
    for lost in decided.iter().filter_map(|it| it.as_ref().err()) {
        let AdjudicateError::AlreadyAdjudicated { adjudication, .. } = lost else {
            panic!("{lost:?}");
        };
        assert_eq!(&**adjudication, *won);
    }
    let events = domain
        .journal()
        .events(0, Some(ID), None)
        .expect("readable");
    let decisions = events
        .iter()
        .filter(|event| event.kind == "OPERATION_ADJUDICATED");
    assert_eq!(decisions.count(), 1);
}

/// Its leader is gone, so recovery left it alone; whoever confirms that it stopped is told that it did not.
#[test]
fn a_member_of_the_commands_session_keeps_it_from_being_confirmed() {
    let stage = Stage::new();
    let (identity, member) = leaderless(&stage);
    Legacy::of(Left::with_root(&identity)).leave(&stage);
    let domain = open(&stage);
    let refused = domain.adjudicate(ID, CONFIRMED, "ada", None);
    let Err(AdjudicateError::StillAlive { processes, .. }) = &refused else {
        panic!("{refused:?}");
    };
    let command = Some("sleep".to_owned());
    assert_eq!(
        processes,
        &[Residual {
            pid: member,
            command
        }]
    );
    assert_isolated(&stage, &domain);
    let abandoned = domain.adjudicate(ID, ABANDONED, "ada", Some("it is harmless"));
    assert_eq!(abandoned.expect("given up").residual_pids, [member]);
    assert!(wait::is_alive(member), "nobody ends it for that");
    assert_free(&stage, &domain);
    end(member);
}

#[test]
fn once_it_has_ended_it_can_be_confirmed() {
    let stage = Stage::new();
    let (identity, member) = leaderless(&stage);
    Legacy::of(Left::with_root(&identity)).leave(&stage);
    let domain = open(&stage);
    let refused = domain.adjudicate(ID, CONFIRMED, "ada", None);
    assert!(
        matches!(refused, Err(AdjudicateError::StillAlive { .. })),
        "{refused:?}"
    );
    end(member);
    assert!(is_over(member));
    domain
        .adjudicate(ID, CONFIRMED, "ada", None)
        .expect("nothing of it lives");
    assert_free(&stage, &domain);
}

#[test]
fn without_an_identity_nothing_can_be_confirmed() {
    let stage = Stage::new();
    Legacy::of(Left {
        root: None,
        spawn_gated: None,
        ..Left::default()
    })
    .leave(&stage);
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'M');
    let refused = domain.adjudicate(ID, CONFIRMED, "ada", None);
    assert!(
        matches!(refused, Err(AdjudicateError::CannotTell { .. })),
        "{refused:?}"
    );
    domain
        .adjudicate(ID, ABANDONED, "ada", None)
        .expect("given up");
    assert_free(&stage, &domain);
}

#[test]
fn there_must_be_something_to_decide() {
    let stage = Stage::new();
    let domain = open(&stage);
    domain
        .operation(true_command(&stage))
        .expect("a builder")
        .id("fine")
        .run()
        .expect("a result");
    let of = |id: &str| domain.adjudicate(id, CONFIRMED, "ada", None);
    assert!(matches!(
        of("fine"),
        Err(AdjudicateError::NotIndeterminate { .. })
    ));
    assert!(matches!(
        of("nobody"),
        Err(AdjudicateError::NotFound { .. })
    ));
    domain.close();
    assert!(matches!(of("fine"), Err(AdjudicateError::DomainClosed)));
}

/// Its pipe is held by a stranger, this test, so its end is not known to the process that saw it.
#[test]
fn what_became_unclear_in_this_process_is_decided_too() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = "echo run >>trace; while [ ! -e gate ]; do sleep 0.01; done";
    let shell = || {
        let shell = Command::new("/bin/sh").args(["-c", script]);
        shell.cwd(stage.path("")).inherit_env()
    };
    let run = domain
        .begin_run("work", &serde_json::json!({}))
        .expect("a run");
    let running = run
        .operation(shell())
        .expect("a builder")
        .id("live")
        .lease(LEASE);
    let running = running.start().expect("a thread");
    wait::file(&stage.path("trace"), xioflow_kit::Deadline::usual());
    let operation = domain
        .journal()
        .operation("live")
        .expect("readable")
        .expect("recorded");
    let pid = operation.process_identity.expect("it runs")["pid"].clone();
    let pipe = std::fs::File::options()
        .write(true)
        .open(format!("/proc/{pid}/fd/1"));
    let pipe = pipe.expect("its standard output");
    std::fs::write(stage.path("gate"), "").expect("a file of the stage");
    let unclear = running.wait().expect("a result");
    assert_eq!(unclear.status, Outcome::Indeterminate);
    let guidance = unclear.recovery_guidance.unwrap_or_default();
    assert!(guidance.contains("xioflow adjudicate live "), "{guidance}");
    drop(pipe);

    let decided = domain
        .adjudicate("live", CONFIRMED, "ada", None)
        .expect("it is gone");
    assert_free(&stage, &domain);
    // The same id is answered from the record, with the decision, and never runs again.
    let again = domain
        .operation(shell())
        .expect("a builder")
        .id("live")
        .lease(LEASE);
    let again = again.run().expect("the recorded result");
    assert_eq!(
        (again.reused, again.status),
        (Reuse::ReplayedRecorded, Outcome::Indeterminate)
    );
    assert_eq!(again.adjudication, Some(decided));
    let trace = std::fs::read_to_string(stage.path("trace")).expect("a file of the stage");
    assert_eq!(trace.lines().count(), 1);
}

/// Whoever left a Run open with an operation of that kind in it, and however.
#[test]
fn an_unclear_operation_takes_its_run_along() {
    let stage = Stage::new();
    let mut legacy = Legacy::of(Left {
        outcome: Some(Outcome::Indeterminate),
        ..Left::default()
    });
    legacy.orderly = true;
    legacy.leave(&stage);
    let domain = open(&stage);
    let run = domain
        .journal()
        .run(RUN)
        .expect("readable")
        .expect("recorded");
    assert_eq!(run.status, RunStatus::Indeterminate);
    // What is recorded of it says nothing that could be looked for.
    let refused = domain.adjudicate(ID, CONFIRMED, "ada", None);
    assert!(
        matches!(refused, Err(AdjudicateError::CannotTell { .. })),
        "{refused:?}"
    );
}
