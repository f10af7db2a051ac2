//! An operation is paused by its id and goes on, and whatever else happens to it meanwhile.

use std::path::Path;
use std::time::Duration;

use xioflow_kernel::journal::{Outcome, PauseMeans, Query, TerminationReason};
use xioflow_kernel::{Domain, Driver, NotActive, PauseError, StopManner};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{events, fixture, open, text};

/// A tree of which a part has left its session, held by the helper alone, so that every host can pause it by signals.
fn tree(stage: &Stage, ready: &Path) -> xioflow_kernel::Command {
    let words = ["--ready", text(ready), "escape-setsid", "2"];
    fixture(stage, &words).driver(Driver::Reaper)
}

fn all_are(pids: &[u32], stopped: bool) -> impl FnMut() -> bool {
    move || {
        pids.iter()
            .all(|pid| (wait::state(*pid) == Some('T')) == stopped)
    }
}

fn paused(domain: &Domain, id: &str) -> Option<PauseMeans> {
    let operation = domain.journal().operation(id).expect("readable");
    operation.expect("recorded").pause.map(|pause| pause.means)
}

fn stop(domain: &Domain, id: &str) {
    let manner = StopManner::Terminate;
    let stopped = domain.cancel(id, manner, Duration::from_secs(600));
    stopped.expect("it runs");
}

#[test]
fn every_process_stands_still_and_goes_on_and_the_record_says_so() {
    let stage = Stage::new();
    let domain = open(&stage);
    let ready = stage.path("ready");
    let operation = domain.operation(tree(&stage, &ready)).expect("a builder");
    let running = operation.id("tree").start().expect("a thread");
    let pids = stage.wait_ready(&ready);
    for _ in 0..2 {
        let standing = domain.pause("tree").expect("it runs");
        assert_eq!(standing.paused, Some(PauseMeans::Signals));
        assert_eq!((standing.changed, standing.timeout_left), (true, None));
        assert_eq!(paused(&domain, "tree"), Some(PauseMeans::Signals));
        wait::until("standstill", Deadline::usual(), all_are(&pids, true));
        let again = domain.pause("tree").expect("it is paused");
        assert_eq!((again.paused, again.changed), (standing.paused, false));

        let standing = domain.resume("tree").expect("it is paused");
        assert_eq!((standing.paused, standing.changed), (None, true));
        assert_eq!(paused(&domain, "tree"), None);
        wait::until("going on", Deadline::usual(), all_are(&pids, false));
        assert!(!domain.resume("tree").expect("it runs").changed);
    }
    stop(&domain, "tree");
    assert_eq!(running.wait().expect("a result").status, Outcome::Cancelled);
    let kinds = events(&domain, "tree");
    let of_pauses: Vec<&str> = kinds
        .iter()
        .map(String::as_str)
        .filter(|kind| kind.contains("_PAUSED") || kind.contains("_RESUMED"))
        .collect();
    let expected = ["OPERATION_PAUSED", "OPERATION_RESUMED"].repeat(2);
    assert_eq!(of_pauses, expected, "once for each change");
}

#[test]
fn what_stands_still_is_asked_to_end_and_can_heed_it() {
    let stage = Stage::new();
    let domain = open(&stage);
    let ready = stage.path("ready");
    let operation = domain.operation(tree(&stage, &ready)).expect("a builder");
    let running = operation.id("tree").start().expect("a thread");
    let pids = stage.wait_ready(&ready);
    domain.pause("tree").expect("it runs");
    wait::until("standstill", Deadline::usual(), all_are(&pids, true));
    stop(&domain, "tree");
    let result = running.wait().expect("a result");
    assert_eq!(result.status, Outcome::Cancelled);
    let stop = result.stop.expect("it was stopped");
    assert_eq!(stop.last_signal.as_deref(), Some("SIGTERM"), "no kill");
    assert!(pids.iter().all(|pid| !wait::is_alive(*pid)));
}

#[test]
fn its_time_limit_goes_on() {
    let stage = Stage::new();
    let domain = open(&stage);
    let ready = stage.path("ready");
    let operation = domain.operation(tree(&stage, &ready)).expect("a builder");
    // Long enough to be paused within, also on a machine that is busy.
    let limit = Duration::from_secs(8);
    let running = operation
        .id("tree")
        .timeout(limit)
        .start()
        .expect("a thread");
    stage.wait_ready(&ready);
    let standing = domain.pause("tree").expect("it runs");
    let left = standing.timeout_left.expect("it has a limit");
    assert!(left <= limit, "{left:?}");
    let result = running.wait().expect("a result");
    assert_eq!(result.termination_reason, Some(TerminationReason::TimedOut));
    assert_eq!(result.status, Outcome::Failed);
}

#[test]
fn only_what_has_begun_and_is_not_ending_is_paused() {
    let stage = Stage::new();
    let domain = open(&stage);
    let unknown = domain.pause("nobody");
    assert!(
        matches!(
            unknown,
            Err(PauseError::NotActive(NotActive::NotFound { .. }))
        ),
        "{unknown:?}"
    );
    let ready = stage.path("ready");
    let words = ["--ready", text(&ready), "ignore-signals"];
    let operation = domain
        .operation(fixture(&stage, &words))
        .expect("a builder");
    let first = operation.id("first").lease("x").start().expect("a thread");
    stage.wait_ready(&ready);
    let second = domain
        .operation(fixture(&stage, &["exit", "0"]))
        .expect("a builder");
    let second = second
        .id("second")
        .lease("x")
        .wait(Duration::from_secs(600));
    let second = second.start().expect("a thread");
    wait::until("the second waits", Deadline::usual(), || {
        domain.budget().expect("our own").waiting == 1
    });
    for asked in [domain.pause("second"), domain.resume("second")] {
        assert!(
            matches!(asked, Err(PauseError::NotBegun { .. })),
            "{asked:?}"
        );
    }
    stop(&domain, "first");
    wait::until("it is being stopped", Deadline::usual(), || {
        matches!(domain.pause("first"), Err(PauseError::Ending { .. }))
    });
    let kill = domain.cancel("first", StopManner::Kill, Duration::ZERO);
    kill.expect("it is there");
    first.wait().expect("a result");
    second.wait().expect("a result");
    let over = domain.resume("first");
    assert!(
        matches!(
            over,
            Err(PauseError::NotActive(NotActive::AlreadyCompleted { .. }))
        ),
        "{over:?}"
    );
}
