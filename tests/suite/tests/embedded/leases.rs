//! Resources are exclusive, waited for in order, and a conflict names their holder.

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use xioflow_kernel::journal::{Outcome, Query};
use xioflow_kernel::{DomainOptions, ExecuteError, Reuse};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{fixture, open, open_with, shell, text, times_run, traced};

/// A command that stays until the stage's file `gate` is there.
fn until_gate(stage: &Stage, ready: &str) -> xioflow_kernel::Command {
    let (ready, gate) = (stage.path(ready), stage.path("gate"));
    let script = format!(
        ": > {}; until [ -e {} ]; do :; done",
        text(&ready),
        text(&gate)
    );
    shell(stage, &script)
}

#[test]
fn a_conflict_names_resource_and_holder() {
    let stage = Stage::new();
    let domain = open(&stage);
    thread::scope(|scope| {
        let holder = domain
            .operation(until_gate(&stage, "ready"))
            .expect("a builder");
        let holder = scope.spawn(|| holder.id("holder").lease("db").run());
        wait::file(&stage.path("ready"), Deadline::usual());
        let leases = domain.journal().leases().expect("readable");
        assert_eq!(leases.len(), 1);
        assert_eq!(
            (
                leases[0].resource_id.as_str(),
                leases[0].operation_id.as_str()
            ),
            ("db", "holder")
        );
        let other = domain
            .operation(traced(&stage))
            .expect("a builder")
            .id("other")
            .lease("db");
        let error = other.run().expect_err("the resource is taken");
        let ExecuteError::ResourceConflict {
            resource,
            holder: named,
            ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!((resource.as_str(), named.as_str()), ("db", "holder"));
        assert_eq!(domain.journal().operation("other").expect("readable"), None);
        let free = domain
            .operation(traced(&stage))
            .expect("a builder")
            .lease("another");
        assert_eq!(
            free.run().expect("another resource is free").exit_code,
            Some(0)
        );
        fs::write(stage.path("gate"), "").expect("a file of the stage");
        holder.join().expect("no panic").expect("a result");
    });
    assert_eq!(times_run(&stage), 1);
    assert_eq!(domain.journal().leases().expect("readable"), []);
}

#[test]
fn whoever_waits_is_served_when_it_is_freed() {
    let stage = Stage::new();
    let domain = open(&stage);
    thread::scope(|scope| {
        let holder = domain
            .operation(until_gate(&stage, "ready"))
            .expect("a builder");
        let holder = scope.spawn(|| holder.lease("db").run());
        wait::file(&stage.path("ready"), Deadline::usual());
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let waiter = domain
                    .operation(traced(&stage))
                    .expect("a builder")
                    .lease("db");
                scope.spawn(|| waiter.wait(Duration::from_secs(25)).run())
            })
            .collect();
        fs::write(stage.path("gate"), "").expect("a file of the stage");
        holder.join().expect("no panic").expect("a result");
        for waiter in waiters {
            assert_eq!(
                waiter
                    .join()
                    .expect("no panic")
                    .expect("a result")
                    .exit_code,
                Some(0)
            );
        }
    });
    assert_eq!(times_run(&stage), 3);
}

#[test]
fn a_wait_that_is_over_is_a_conflict() {
    let stage = Stage::new();
    let domain = open(&stage);
    thread::scope(|scope| {
        let holder = domain
            .operation(until_gate(&stage, "ready"))
            .expect("a builder");
        let holder = scope.spawn(|| holder.id("holder").lease("db").run());
        wait::file(&stage.path("ready"), Deadline::usual());
        let other = domain
            .operation(traced(&stage))
            .expect("a builder")
            .lease("db");
        let error = other
            .wait(Duration::from_millis(200))
            .run()
            .expect_err("it stays taken");
        let ExecuteError::ResourceConflict { waited_ms, .. } = error else {
            panic!("{error:?}")
        };
        assert!(waited_ms >= 200, "{waited_ms}");
        fs::write(stage.path("gate"), "").expect("a file of the stage");
        holder.join().expect("no panic").expect("a result");
    });
    assert_eq!(times_run(&stage), 0);
}

#[test]
fn the_number_of_operations_can_be_limited() {
    let stage = Stage::new();
    let domain = open_with(
        &stage,
        DomainOptions::default().max_concurrent_operations(1),
    );
    thread::scope(|scope| {
        let first = domain
            .operation(until_gate(&stage, "ready"))
            .expect("a builder");
        let first = scope.spawn(|| first.run());
        wait::file(&stage.path("ready"), Deadline::usual());
        let second = domain.operation(traced(&stage)).expect("a builder").run();
        let error = second.expect_err("one at a time");
        assert!(
            error.to_string().contains("domain:max_concurrent_ops"),
            "{error}"
        );
        fs::write(stage.path("gate"), "").expect("a file of the stage");
        first.join().expect("no panic").expect("a result");
    });
    assert_eq!(
        domain.run(traced(&stage)).expect("a result").exit_code,
        Some(0)
    );
}

#[test]
fn waiting_can_be_cancelled() {
    let stage = Stage::new();
    let domain = open(&stage);
    thread::scope(|scope| {
        let holder = domain
            .operation(until_gate(&stage, "ready"))
            .expect("a builder");
        let holder = scope.spawn(|| holder.lease("db").run());
        wait::file(&stage.path("ready"), Deadline::usual());
        let waiter = domain
            .operation(traced(&stage))
            .expect("a builder")
            .lease("db");
        let waiter = waiter.wait(Duration::from_secs(600));
        let canceller = waiter.canceller();
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || sender.send(waiter.run()).is_ok());
        canceller.cancel().expect("it has not ended");
        let answer = receiver
            .recv_timeout(Deadline::USUAL)
            .expect("a cancelled wait ends");
        if let Ok(result) = answer {
            assert_eq!(result.exit_code, None, "it never ran");
        }
        fs::write(stage.path("gate"), "").expect("a file of the stage");
        holder.join().expect("no panic").expect("a result");
    });
    assert_eq!(times_run(&stage), 0);
    let after = domain
        .operation(fixture(&stage, &["exit", "0"]))
        .expect("a builder")
        .lease("db");
    assert_eq!(after.run().expect("nobody holds it").exit_code, Some(0));
}

/// The folder that a command is to make has one name, also through a link that leads there.
#[test]
fn a_folder_that_is_not_there_yet_is_known_by_its_real_path() {
    let stage = Stage::new();
    let domain = open(&stage);
    let real = stage.folder("real");
    std::os::unix::fs::symlink(&real, stage.path("link")).expect("a link");
    let lease = format!("workspace:write:{}/new/", stage.path("link").display());
    let submit = || {
        let script = format!("mkdir {}/new", text(&real));
        let operation = domain.operation(shell(&stage, &script)).expect("a builder");
        operation.id("maker").lease(lease.clone())
    };
    assert_eq!(submit().run().expect("a result").exit_code, Some(0));
    let again = submit().run().expect("the recorded result");
    assert_eq!(again.reused, Reuse::ReplayedRecorded);
    let recorded = domain.journal().operation("maker").expect("readable");
    let real = real.canonicalize().expect("it is there").join("new");
    assert_eq!(
        recorded.expect("it ran").mutation_roots,
        [text(&real).to_owned()]
    );
}

/// Nobody knows whether it is over, but nobody waits for it either.
#[test]
fn one_that_ended_without_proof_keeps_what_it_held_and_no_place() {
    let stage = Stage::new();
    let domain = open_with(
        &stage,
        DomainOptions::default().max_concurrent_operations(1),
    );
    let operation = domain
        .operation(until_gate(&stage, "ready"))
        .expect("a builder")
        .id("unproven")
        .lease("x")
        .drain_timeout(Duration::from_millis(1));
    let unproven = operation.start().expect("a thread");
    wait::file(&stage.path("ready"), Deadline::usual());
    let held = crate::hold_stdout(&domain, "unproven");
    fs::write(stage.path("gate"), "").expect("a file of the stage");
    let result = unproven.wait().expect("a result");
    assert_eq!(result.status, Outcome::Indeterminate);
    drop(held);
    let other = domain.run(traced(&stage)).expect("there is a place");
    assert_eq!(other.exit_code, Some(0));
    let operation = domain.operation(traced(&stage)).expect("a builder");
    let conflict = operation.lease("x").run().expect_err("it is held");
    assert!(conflict.to_string().contains("unproven"), "{conflict}");
}
