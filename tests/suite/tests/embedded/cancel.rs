//! Stopping: whole trees, exact reasons, and an error where there is nothing to stop.

use std::thread;
use std::time::{Duration, Instant};

use xioflow_kernel::journal::{Outcome, Query, TerminationReason};
use xioflow_kernel::{DescendantPolicy, NotActive, StopManner};
use xioflow_kit::{Deadline, Stage, fixture_pids, wait};

use crate::{events, fixture, open, shell, text, times_run, traced};

/// Starts a fixture that says when it stands, stops it so, and returns its result and its pids.
fn stopped(
    stage: &Stage,
    mode: &[&str],
    manner: StopManner,
    grace: Duration,
) -> (xioflow_kernel::OperationResult, Vec<u32>) {
    let domain = open(stage);
    let ready = stage.path("ready");
    let words = [&["--ready", text(&ready)], mode].concat();
    let operation = domain
        .operation(fixture(stage, &words))
        .expect("a builder")
        .id("stopped");
    let handle = operation.start().expect("a thread");
    let pids = stage.wait_ready(&ready);
    handle.canceller().stop(manner, grace).expect("it runs");
    let result = handle.wait().expect("a result");
    let kinds = events(&domain, "stopped");
    let results = kinds
        .iter()
        .filter(|kind| *kind == "OPERATION_RESULT_RECORDED")
        .count();
    assert_eq!(results, 1, "{kinds:?}");
    assert_eq!(domain.journal().leases().expect("readable"), []);
    (result, pids)
}

#[test]
fn a_cancelled_tree_is_gone_when_its_result_is_there() {
    let modes: [&[&str]; 4] = [
        &["sleep"],
        &["ignore-signals"],
        &["spawn-tree", "mixed", "20"],
        &["escape-setsid", "ignore", "2"],
    ];
    for mode in modes {
        let stage = Stage::new();
        let (result, pids) = stopped(
            &stage,
            mode,
            StopManner::Terminate,
            Duration::from_millis(200),
        );
        assert!(
            pids.iter().all(|pid| !wait::is_alive(*pid)),
            "{mode:?} lives"
        );
        assert_eq!(result.status, Outcome::Cancelled);
        assert_eq!(
            result.termination_reason,
            Some(TerminationReason::UserCancelled)
        );
        assert!(result.residual_pids.is_empty(), "{mode:?}");
        assert!(result.stop.is_some());
    }
}

#[test]
fn each_manner_begins_with_its_own_signal() {
    for (manner, signal) in [
        (StopManner::Interrupt, "SIGINT"),
        (StopManner::Terminate, "SIGTERM"),
        (StopManner::Kill, "SIGKILL"),
    ] {
        let stage = Stage::new();
        let (result, _) = stopped(&stage, &["sleep"], manner, Duration::from_secs(20));
        assert_eq!(result.signal.as_deref(), Some(signal), "{manner:?}");
        let stop = result.stop.expect("it was stopped");
        assert_eq!(stop.last_signal.as_deref(), Some(signal));
    }
}

#[test]
fn a_second_stop_can_only_make_it_quicker() {
    let stage = Stage::new();
    let domain = open(&stage);
    let ready = stage.path("ready");
    let command = fixture(&stage, &["--ready", text(&ready), "ignore-signals"]);
    let handle = domain
        .operation(command)
        .expect("a builder")
        .start()
        .expect("a thread");
    stage.wait_ready(&ready);
    let canceller = handle.canceller();
    canceller
        .stop(StopManner::Interrupt, Duration::from_secs(600))
        .expect("it runs");
    canceller
        .stop(StopManner::Kill, Duration::ZERO)
        .expect("it still runs");
    let begun = Instant::now();
    let result = handle.wait().expect("a result");
    assert_eq!(result.status, Outcome::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn there_is_nothing_to_stop_after_the_end() {
    let stage = Stage::new();
    let domain = open(&stage);
    let operation = domain.operation(traced(&stage)).expect("a builder");
    let canceller = operation.canceller();
    operation.run().expect("a result");
    let late = canceller.cancel();
    assert!(
        matches!(late, Err(NotActive::AlreadyCompleted { .. })),
        "{late:?}"
    );
}

#[test]
fn a_stop_before_the_start_runs_nothing() {
    let stage = Stage::new();
    let domain = open(&stage);
    let operation = domain
        .operation(traced(&stage))
        .expect("a builder")
        .id("early");
    operation.canceller().cancel().expect("it has not ended");
    if let Ok(result) = operation.run() {
        assert_eq!(result.status, Outcome::Cancelled, "{result:?}");
        assert_eq!(result.exit_code, None);
    }
    assert_eq!(times_run(&stage), 0);
    assert_eq!(domain.journal().unfinished().expect("readable"), []);
}

#[test]
fn a_timeout_is_bounded_whatever_the_tree_does() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = fixture(&stage, &["escape-setsid", "ignore", "3"]);
    let operation = domain.operation(command).expect("a builder");
    let operation = operation.timeout(Duration::from_millis(600));
    let begun = Instant::now();
    let result = operation
        .timeout_grace(Duration::from_millis(500))
        .run()
        .expect("a result");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(result.status, Outcome::Failed);
    assert_eq!(result.termination_reason, Some(TerminationReason::TimedOut));
}

/// Those who outlive a command are ended after it, which takes its time. That is not the command's.
#[test]
fn a_command_that_has_ended_is_not_timed_out() {
    let stage = Stage::new();
    let domain = open(&stage);
    let script = format!("trap '' TERM; {} sleep & exit 0", text(&stage.fixture()));
    let operation = domain.operation(shell(&stage, &script)).expect("a builder");
    // It comes while they have their grace: 1.5 s, after a settle time of 0.2 s.
    let operation = operation.timeout(Duration::from_millis(1200));
    let result = operation
        .timeout_grace(Duration::ZERO)
        .run()
        .expect("a result");
    assert_eq!(
        (result.status, result.exit_code, result.termination_reason),
        (
            Outcome::Succeeded,
            Some(0),
            Some(TerminationReason::Completed)
        )
    );
    assert_eq!(result.survivors.len(), 1, "{:?}", result.survivors);
    assert_eq!(result.survivors[0].signal.as_deref(), Some("SIGKILL"));
}

#[test]
fn descendants_that_are_waited_for_can_be_stopped() {
    let stage = Stage::new();
    let domain = open(&stage);
    let ready = stage.path("ready");
    let command = fixture(
        &stage,
        &["--ready", text(&ready), "--exit", "4", "daemonise", "2"],
    );
    let operation = domain.operation(command).expect("a builder");
    let handle = operation
        .descendants(DescendantPolicy::Wait)
        .start()
        .expect("a thread");
    let pids = stage.wait_ready(&ready);
    assert!(wait::pid_gone(pids[0], Deadline::usual()));
    handle
        .canceller()
        .cancel()
        .expect("it is open while they live");
    let result = handle.wait().expect("a result");
    assert!(fixture_pids(&ready).iter().all(|pid| !wait::is_alive(*pid)));
    assert_eq!(result.exit_code, Some(4), "the real exit is kept");
}

fn all_are(pids: &[u32], stopped: bool) -> impl FnMut() -> bool {
    move || {
        pids.iter()
            .all(|pid| (wait::state(*pid) == Some('T')) == stopped)
    }
}

#[test]
fn a_suspended_tree_stands_still_and_can_go_on_or_be_ended() {
    for ends in [false, true] {
        let stage = Stage::new();
        let domain = open(&stage);
        let ready = stage.path("ready");
        let command = fixture(&stage, &["--ready", text(&ready), "escape-setsid", "2"]);
        let handle = domain
            .operation(command)
            .expect("a builder")
            .start()
            .expect("a thread");
        let pids = stage.wait_ready(&ready);
        let canceller = handle.canceller();
        canceller.suspend().expect("it runs");
        wait::until("standstill", Deadline::usual(), all_are(&pids, true));
        if !ends {
            canceller.resume().expect("it is there");
            wait::until("going on", Deadline::usual(), all_are(&pids, false));
        }
        canceller
            .stop(StopManner::Terminate, Duration::from_secs(600))
            .expect("it is there");
        let result = handle.wait().expect("a result");
        assert_eq!(result.status, Outcome::Cancelled);
        let stop = result.stop.expect("it was stopped");
        assert_eq!(stop.last_signal.as_deref(), Some("SIGTERM"), "no kill");
        assert!(matches!(
            canceller.suspend(),
            Err(NotActive::AlreadyCompleted { .. })
        ));
    }
}

/// How many operations are cancelled, each a little later than the one before.
const RACES: u32 = 100;
/// The difference between two; all of them together span a whole operation.
const RACE_STEP: Duration = Duration::from_micros(60);

/// Whoever wins, there is one result, and a command that would have succeeded did not fail.
#[test]
fn a_stop_and_an_end_at_the_same_time_have_one_result() {
    let stage = Stage::new();
    let domain = open(&stage);
    for turn in 0..RACES {
        let id = format!("race-{turn}");
        let operation = domain
            .operation(fixture(&stage, &["exit", "0"]))
            .expect("a builder");
        let handle = operation.id(&id).start().expect("a thread");
        let canceller = handle.canceller();
        let racer = thread::spawn(move || {
            // The time is not waited for anything: it is what this test varies.
            thread::park_timeout(RACE_STEP * turn);
            canceller.cancel().is_ok()
        });
        let result = handle.wait();
        racer.join().expect("no panic");
        let kinds = events(&domain, &id);
        let results = kinds
            .iter()
            .filter(|kind| *kind == "OPERATION_RESULT_RECORDED")
            .count();
        assert!(results <= 1, "{kinds:?}");
        assert_eq!(result.is_ok(), results == 1, "{result:?} with {kinds:?}");
        let status = result.map(|result| result.status);
        let fair = [Outcome::Succeeded, Outcome::Cancelled];
        assert!(
            status.as_ref().map_or(true, |status| fair.contains(status)),
            "{status:?}"
        );
    }
    assert_eq!(domain.journal().unfinished().expect("readable"), []);
}
