//! Joining an operation that runs: what the joiner sees, and what it cannot do to it.

use std::thread;
use std::time::Duration;

use xioflow_kernel::journal::{Outcome, Query, Stream};
use xioflow_kernel::{
    Domain, ExecuteError, NotActive, OperationBuilder, Piece, Reuse, StopManner, Subscription,
};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{events, open, shell, text, times_run};

/// Prints `early`, stays until the stage's file `gate` is there, prints `late`.
fn submission(stage: &Stage, domain: &Domain) -> OperationBuilder {
    let script = format!(
        "echo ran >> {}; echo early; : > {}; until [ -e {} ]; do :; done; echo late",
        text(&stage.path("trace")),
        text(&stage.path("ready")),
        text(&stage.path("gate"))
    );
    let operation = domain.operation(shell(stage, &script)).expect("a builder");
    operation.id("shared")
}

fn read(subscription: &Subscription) -> (Vec<u8>, Option<u64>) {
    let mut printed = Vec::new();
    let mut first = None;
    while let Some(piece) = subscription.next_piece() {
        let Piece::Data {
            stream: Stream::Stdout,
            offset,
            bytes,
        } = piece
        else {
            panic!("{piece:?}")
        };
        first.get_or_insert(offset);
        printed.extend(bytes);
    }
    (printed, first)
}

fn wait_until_joined(domain: &Domain) {
    wait::until("a joiner", Deadline::usual(), || {
        domain
            .in_flight()
            .expect("ours")
            .iter()
            .any(|flight| flight.joiners == 1)
    });
}

fn open_gate(stage: &Stage) {
    std::fs::write(stage.path("gate"), "").expect("a file of the stage");
}

#[test]
fn a_joiner_sees_what_comes_from_its_joining_on() {
    let stage = Stage::new();
    let domain = open(&stage);
    let mut first = submission(&stage, &domain);
    let sees_all = first.subscribe();
    let first = first.start().expect("a thread");
    let early = sees_all.next_piece().expect("it prints");
    assert_eq!(early.stream(), Stream::Stdout);
    wait::file(&stage.path("ready"), Deadline::usual());
    let mut joiner = submission(&stage, &domain);
    let sees_rest = joiner.subscribe();
    let joiner = joiner.start().expect("a thread");
    wait_until_joined(&domain);
    open_gate(&stage);
    assert_eq!(read(&sees_rest), (b"late\n".to_vec(), Some(6)));
    assert_eq!(read(&sees_all), (b"late\n".to_vec(), Some(6)));
    let (first, joined) = (
        first.wait().expect("a result"),
        joiner.wait().expect("a result"),
    );
    assert_eq!((first.reused, first.replayed), (Reuse::Executed, false));
    assert_eq!(
        (joined.reused, joined.replayed),
        (Reuse::JoinedInFlight, true)
    );
    assert_eq!(joined.stdout, "early\nlate\n");
    assert_eq!(
        (joined.run_id, joined.stdout_hash),
        (first.run_id, first.stdout_hash)
    );
    assert_eq!(times_run(&stage), 1);
    let replays = domain
        .journal()
        .events(0, Some("shared"), None)
        .expect("readable");
    let replays: Vec<_> = replays
        .into_iter()
        .filter(|it| it.kind == "OPERATION_REPLAYED")
        .collect();
    assert_eq!(replays.len(), 1);
    assert_eq!(replays[0].payload["mode"], "joined");
}

#[test]
fn a_joiner_that_stops_waiting_leaves_it_alone() {
    let stage = Stage::new();
    let domain = open(&stage);
    let first = submission(&stage, &domain).start().expect("a thread");
    wait::file(&stage.path("ready"), Deadline::usual());
    let mut joiner = submission(&stage, &domain);
    let sees = joiner.subscribe();
    let joiner = joiner.start().expect("a thread");
    // Whether it has joined by now or not.
    joiner.canceller().cancel().expect("it waits");
    let error = joiner.wait().expect_err("it was told to stop waiting");
    assert!(
        matches!(error, ExecuteError::JoinAbandoned { .. }),
        "{error:?}"
    );
    assert_eq!(sees.next_piece(), None);
    open_gate(&stage);
    let result = first.wait().expect("a result");
    assert_eq!(
        (result.status, result.exit_code),
        (Outcome::Succeeded, Some(0))
    );
    assert!(!events(&domain, "shared").contains(&"OPERATION_REPLAYED".to_owned()));
}

#[test]
fn a_cancelled_operation_is_cancelled_for_everybody() {
    let stage = Stage::new();
    let domain = open(&stage);
    let first = submission(&stage, &domain).start().expect("a thread");
    wait::file(&stage.path("ready"), Deadline::usual());
    let joiner = submission(&stage, &domain).start().expect("a thread");
    wait_until_joined(&domain);
    let not_its_own = joiner.canceller().suspend();
    assert!(
        matches!(not_its_own, Err(NotActive::Joined { .. })),
        "{not_its_own:?}"
    );
    domain
        .clone()
        .cancel("shared", StopManner::Kill, Duration::ZERO)
        .expect("it runs");
    let (first, joined) = (
        first.wait().expect("a result"),
        joiner.wait().expect("a result"),
    );
    assert_eq!(
        (first.status, joined.status),
        (Outcome::Cancelled, Outcome::Cancelled)
    );
    assert!(joined.replayed && !first.replayed);
}

/// The same from many threads, over and over: the effect is there once.
#[test]
fn a_thousand_replays_of_eight_threads_run_nothing() {
    const THREADS: usize = 8;
    const REPLAYS_EACH: usize = 125;
    let stage = Stage::new();
    let domain = open(&stage);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for turn in 0..REPLAYS_EACH {
                    let operation = domain.operation(crate::traced(&stage)).expect("a builder");
                    let result = operation.id("once").run().expect("a result");
                    assert_eq!(result.exit_code, Some(0));
                    if turn > 0 {
                        // Nobody runs it any more, so nobody joins it.
                        assert_eq!(result.reused, Reuse::ReplayedRecorded);
                    }
                }
            });
        }
    });
    assert_eq!(times_run(&stage), 1);
    let kinds = events(&domain, "once");
    let count = |name: &str| kinds.iter().filter(|kind| *kind == name).count();
    assert_eq!(count("OPERATION_RESULT_RECORDED"), 1);
    assert_eq!(count("OPERATION_REPLAYED"), THREADS * REPLAYS_EACH - 1);
}

#[test]
fn only_an_open_run_is_given_a_result_again() {
    let stage = Stage::new();
    let domain = open(&stage);
    let submit = |run: &xioflow_kernel::RunHandle| {
        let operation = run.operation(crate::traced(&stage)).expect("a builder");
        operation.id("once").run()
    };
    let run = domain
        .begin_run("first", &serde_json::json!({}))
        .expect("a run");
    submit(&run).expect("a result");
    assert!(submit(&run).expect("a replay").replayed);
    let other = domain
        .begin_run("other", &serde_json::json!({}))
        .expect("a run");
    let replay = submit(&other).expect("a replay");
    assert_eq!(replay.run_id, run.id(), "the run that executed it");
    other.report_succeeded().expect("nothing is open");
    let before = domain.journal().counts().expect("readable");
    let error = submit(&other).expect_err("the run has ended");
    assert!(matches!(error, ExecuteError::RunClosed { .. }), "{error:?}");
    assert_eq!(domain.journal().counts().expect("readable"), before);
}
