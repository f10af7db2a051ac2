//! Many at once, and moments that meet: one terminal record each, with what was really seen.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use xioflow_kernel::journal::{OperationStatus, Outcome, Query};
use xioflow_kernel::{DomainOptions, StopManner};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{open, script, text};

/// One slot: whoever comes next starts only when nothing of the cancelled one lives.
#[test]
fn a_cancelled_command_keeps_its_slot_until_it_is_gone() {
    let stage = Stage::new();
    let domain = open(
        &stage,
        DomainOptions::default().max_concurrent_operations(1),
    );
    let pid_file = stage.path("pid");
    let deaf = format!(
        "trap '' TERM; echo $$ >{0}.draft; mv {0}.draft {0}; sleep 600; sleep 600",
        text(&pid_file)
    );
    let first = domain.operation(script(&stage, &deaf)).expect("a builder");
    let first = first.id("first").start().expect("a thread");
    wait::file(&pid_file, Deadline::usual());
    let looks = format!(
        "kill -0 $(cat {}) 2>&1 && echo alive; exit 0",
        text(&pid_file)
    );
    let next = domain.operation(script(&stage, &looks)).expect("a builder");
    let next = next.wait(Deadline::USUAL).start().expect("a thread");
    let canceller = first.canceller();
    canceller
        .stop(StopManner::Terminate, Duration::from_millis(300))
        .expect("it runs");
    let result = next.wait().expect("its turn comes");
    assert!(!result.stdout.contains("alive"), "{result:?}");
    let recorded = domain
        .journal()
        .operation("first")
        .expect("readable")
        .expect("recorded");
    assert_eq!(
        recorded.outcome,
        Some(Outcome::Cancelled),
        "before the next one began"
    );
    assert_eq!(
        first.wait().expect("a result").signal.as_deref(),
        Some("SIGKILL")
    );
}

/// Cancelled in the moment of its submission, it either never ran or was ended; both are recorded,
/// and it left a mark only if a process of it is.
#[test]
fn two_hundred_cancelled_at_once() {
    let stage = Stage::new();
    let domain = open(&stage, DomainOptions::default());
    for turn in 0..200 {
        let (id, mark) = (format!("turn-{turn}"), stage.path(format!("mark.{turn}")));
        let touch = format!("exec touch {}", text(&mark));
        let operation = domain.operation(script(&stage, &touch)).expect("a builder");
        let handle = operation.id(&id).start().expect("a thread");
        let was_active = handle.canceller().cancel().is_ok();
        let result = handle.wait().expect("a result");
        let recorded = domain.journal().operation(&id).expect("readable");
        let recorded = recorded.unwrap_or_else(|| panic!("{id} has no record: {result:?}"));
        assert_eq!(recorded.status, OperationStatus::Done, "{recorded:?}");
        let fair = match was_active {
            true => [Outcome::Cancelled, Outcome::Succeeded],
            false => [Outcome::Succeeded; 2],
        };
        assert!(fair.contains(&result.status), "{result:?}");
        assert!(
            !mark.exists() || recorded.process_identity.is_some(),
            "{recorded:?}"
        );
        let events = domain
            .journal()
            .events(0, Some(&id), None)
            .expect("readable");
        let ends = events
            .iter()
            .filter(|it| it.kind == "OPERATION_RESULT_RECORDED")
            .count();
        assert_eq!(ends, 1, "{events:?}");
    }
}

/// How many commands end while others begin.
const RUNS: usize = 2000;
/// How many of them at a time.
const AT_A_TIME: usize = 64;

/// A host has children of its own meanwhile; nobody waits for them in its place.
#[test]
fn two_thousand_ends_are_all_seen() {
    let stage = Stage::new();
    let domain = open(&stage, DomainOptions::default().warm_helpers(2));
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while next.load(Ordering::Relaxed) < RUNS {
                let own = std::process::Command::new("false").status();
                assert_eq!(own.expect("our own child").code(), Some(1));
            }
        });
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= RUNS {
                        break;
                    }
                    let code = i32::try_from(turn % 200).expect("small");
                    let command = script(&stage, &format!("exit {code}"));
                    let operation = domain.operation(command).expect("a builder");
                    let result = operation
                        .id(format!("turn-{turn}"))
                        .run()
                        .expect("a result");
                    assert_eq!(result.exit_code, Some(code), "{result:?}");
                }
            });
        }
    });
    assert_eq!(domain.journal().unfinished().expect("readable"), []);
    for turn in 0..RUNS {
        let operation = domain
            .journal()
            .operation(&format!("turn-{turn}"))
            .expect("readable");
        let result = operation.expect("recorded").result.expect("a result");
        assert_eq!(result["exitCode"], turn % 200);
    }
}

/// Whoever reads a result in the moment it comes reads all of it or that it is not there yet.
#[test]
fn a_reader_is_never_told_a_made_up_status() {
    let stage = Stage::new();
    let domain = open(&stage, DomainOptions::default());
    let reader = xioflow_kernel::journal::Reader::open(stage.domain()).expect("a reader");
    for turn in 0..100 {
        let id = format!("turn-{turn}");
        let operation = domain
            .operation(script(&stage, "exit 3"))
            .expect("a builder");
        let handle = operation.id(&id).start().expect("a thread");
        let deadline = Deadline::usual();
        loop {
            let found = reader.operation(&id).expect("readable");
            let done = found
                .as_ref()
                .is_some_and(|it| it.status == OperationStatus::Done);
            let code = found
                .and_then(|it| it.result)
                .map(|result| result["exitCode"].clone());
            assert_eq!(code, done.then(|| 3.into()), "turn {turn}");
            if done {
                break;
            }
            assert!(!deadline.passed(), "turn {turn} has no end");
        }
        assert_eq!(handle.wait().expect("a result").exit_code, Some(3));
    }
}
