//! An operation's id is its idempotency key: whatever happens, it is executed at most once.

use std::thread;

use xioflow_kernel::journal::{OperationStatus, Query};
use xioflow_kernel::{DomainOptions, ExecuteError};
use xioflow_kit::Stage;

use crate::{events, fixture, open, open_with, shell, text, times_run, traced};

#[test]
fn the_recorded_result_is_returned_and_nothing_runs() {
    let stage = Stage::new();
    let domain = open(&stage);
    let submit = || {
        domain
            .operation(traced(&stage))
            .expect("a builder")
            .id("once")
            .run()
    };
    let first = submit().expect("a result");
    let again = submit().expect("a result");
    assert!(!first.replayed && again.replayed);
    let as_first = xioflow_kernel::OperationResult {
        replayed: false,
        ..again
    };
    // How long it took is known to whoever saw it.
    assert_eq!(as_first.completed_at, first.completed_at);
    assert_eq!(as_first.exit_code, first.exit_code);
    assert_eq!(as_first.stdout_hash, first.stdout_hash);
    assert_eq!(times_run(&stage), 1);
}

#[test]
fn it_is_returned_by_a_later_owner_too() {
    let stage = Stage::new();
    let command = || shell(&stage, "printf 'out\\377'; printf err >&2; exit 3");
    let first = {
        let domain = open(&stage);
        domain
            .operation(command())
            .expect("a builder")
            .id("once")
            .run()
            .expect("a result")
    };
    let domain = open(&stage);
    let again = domain
        .operation(command())
        .expect("a builder")
        .id("once")
        .run()
        .expect("a result");
    assert!(again.replayed);
    assert_eq!((again.exit_code, &again.stdout), (Some(3), &first.stdout));
    assert_eq!(
        (again.stdout_base64, again.stderr),
        (first.stdout_base64, first.stderr)
    );
}

#[test]
fn submissions_at_the_same_time_share_one_process() {
    let stage = Stage::new();
    let domain = open(&stage);
    let gate = stage.path("gate");
    let script = format!(
        "echo ran >> {}; until [ -e {} ]; do :; done; echo out; exit 5",
        text(&stage.path("trace")),
        text(&gate)
    );
    let results: Vec<_> = thread::scope(|scope| {
        let submit = || {
            domain
                .operation(shell(&stage, &script))
                .expect("a builder")
                .id("shared")
                .run()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(submit)).collect();
        xioflow_kit::wait::file(&stage.path("trace"), xioflow_kit::Deadline::usual());
        std::fs::write(&gate, "").expect("a file of the stage");
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert_eq!(times_run(&stage), 1);
    for result in results {
        let result = result.expect("a result for each");
        assert_eq!(
            (result.exit_code, result.stdout.as_str()),
            (Some(5), "out\n")
        );
    }
}

#[test]
fn other_inputs_under_the_same_id_are_a_conflict() {
    let stage = Stage::new();
    let domain = open(&stage);
    let submit = |command| {
        domain
            .operation(command)
            .expect("a builder")
            .id("same")
            .run()
    };
    let first = submit(traced(&stage)).expect("a result");
    let changes = [
        traced(&stage).arg("another"),
        traced(&stage).env("ANOTHER", "1"),
        traced(&stage).cwd("/"),
        fixture(&stage, &["exit", "0"]),
    ];
    for command in changes {
        let error = submit(command.clone()).expect_err("another operation");
        let ExecuteError::IdConflict {
            existing_fingerprint,
            requested_fingerprint,
            ..
        } = &error
        else {
            panic!("{command:?} is answered by {error:?}");
        };
        assert_ne!(existing_fingerprint, requested_fingerprint);
    }
    assert_eq!(times_run(&stage), 1);
    let again = submit(traced(&stage)).expect("the first one, unharmed");
    assert_eq!(again.completed_at, first.completed_at);
}

/// The one with other inputs has the id for a moment, until it is refused.
#[test]
fn one_that_is_refused_disturbs_no_repetition() {
    const TURNS: usize = 300;
    let stage = Stage::new();
    let domain = open(&stage);
    let submit = |command| {
        let operation = domain.operation(command).expect("a builder");
        operation.id("same").run()
    };
    submit(traced(&stage)).expect("a result");
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TURNS {
                let error = submit(traced(&stage).arg("another")).expect_err("other inputs");
                let named = matches!(&error, ExecuteError::IdConflict { status, .. }
                    if *status == OperationStatus::Done);
                assert!(named, "{error:?}");
            }
        });
        for turn in 0..TURNS {
            let again = submit(traced(&stage));
            assert!(again.is_ok(), "turn {turn}: {again:?}");
        }
    });
    assert_eq!(times_run(&stage), 1);
}

#[test]
fn each_end_is_recorded_exactly_once() {
    let stage = Stage::new();
    let domain = open(&stage);
    let commands = [
        ("succeeds", fixture(&stage, &["exit", "0"])),
        ("fails", fixture(&stage, &["exit", "1"])),
        ("dies", fixture(&stage, &["die-by-signal", "15"])),
        (
            "is missing",
            crate::command(&stage, "/nonexistent/program", &[]),
        ),
        (
            "leaves somebody",
            fixture(&stage, &["--exit", "0", "escape-setsid", "ignore", "1"]),
        ),
    ];
    for (id, command) in commands {
        domain
            .operation(command)
            .expect("a builder")
            .id(id)
            .run()
            .expect("a result");
        let events = events(&domain, id);
        let results = events
            .iter()
            .filter(|kind| *kind == "OPERATION_RESULT_RECORDED")
            .count();
        assert_eq!(results, 1, "{id}: {events:?}");
        assert_eq!(domain.journal().leases().expect("a readable journal"), []);
    }
}

#[test]
fn many_operations_at_once_all_have_their_own_result() {
    let stage = Stage::new();
    let domain = open_with(&stage, DomainOptions::default().warm_helpers(2));
    thread::scope(|scope| {
        for worker in 0..8 {
            let (domain, stage) = (&domain, &stage);
            scope.spawn(move || {
                for turn in 0..5 {
                    let code = worker * 5 + turn;
                    let script = format!("echo {code}; exit {code}");
                    let result = domain.run(shell(stage, &script)).expect("a result");
                    assert_eq!(result.exit_code, Some(code));
                    assert_eq!(result.stdout, format!("{code}\n"));
                }
            });
        }
    });
    assert_eq!(
        domain.journal().unfinished().expect("a readable journal"),
        []
    );
}
