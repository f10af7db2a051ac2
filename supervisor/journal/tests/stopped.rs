//! Owners that are stopped for a while, and clocks that jump: no time is ever up. Real processes and
//! real signals.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::process::Child;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use support::*;
use xioflow_journal::{
    CommitError, Fault, Journal, OpenError, OpenOptions, OwnerState, Query, Reader,
};

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Stops a child and returns when it stands still.
fn stop_child(child: &Child) {
    kill_process(pid(child), Signal::STOP).unwrap();
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    let stopped = waitid(WaitId::Pid(pid(child)), options).unwrap();
    assert!(stopped.is_some_and(|status| status.stopped()));
}

fn go_on(child: &Child) {
    kill_process(pid(child), Signal::CONT).unwrap();
}

fn owner_in_a_child(place: &Place) -> (Child, Talk) {
    let mut child = child("own_and_do_as_told", &place.root())
        .stdin_stdout()
        .spawn()
        .unwrap();
    let mut talk = Talk::with(&mut child);
    talk.expect("owner");
    (child, talk)
}

/// Registers one operation for each line that it is told, and says how that went.
#[test]
#[ignore = "a child of the tests of stopped owners"]
fn own_and_do_as_told() {
    let journal = Journal::open(child_folder(), &OpenOptions::default()).unwrap();
    journal.commit(begin("r")).unwrap();
    println!("owner");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        if line == "leave" {
            break;
        }
        match journal.commit(vec![register(&line, &["x"])]) {
            Ok(_) => println!("did {line}"),
            Err(CommitError::Fenced { reason, .. }) => println!("fenced: {reason}"),
            Err(other) => println!("{other:?}"),
        }
    }
    println!("{:?}", journal.close().map_err(|e| e.to_string()));
}

#[test]
fn a_stopped_owner_keeps_the_domain_and_goes_on() {
    let place = Place::new();
    let (mut child, mut talk) = owner_in_a_child(&place);
    stop_child(&child);
    let waiting = OpenOptions {
        wait: Duration::from_millis(50),
        ..OpenOptions::default()
    };
    for options in [OpenOptions::default(), waiting] {
        let error = Journal::open(place.root(), &options).unwrap_err();
        assert!(matches!(error, OpenError::Owned { .. }), "{error:?}");
    }
    let reader = Reader::open(place.root()).unwrap();
    assert!(matches!(reader.owner_state(), OwnerState::Held { .. }));
    assert!(reader.run("r").unwrap().is_some(), "readers go on reading");
    go_on(&child);
    talk.say("o");
    talk.expect("did o");
    assert!(reader.operation("o").unwrap().is_some());
    talk.say("leave");
    talk.expect("Ok(())");
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_owner_that_slept_through_a_takeover_is_fenced() {
    let place = Place::new();
    let (mut child, mut talk) = owner_in_a_child(&place);
    stop_child(&child);
    // It is told before it goes on, so that its commit is under way when it does.
    talk.say("late");
    fs::remove_file(place.root().join("domain.lock")).unwrap();
    let journal = place.open();
    assert_eq!(journal.claim().epoch, 2);
    journal.commit(vec![register("mine", &["x"])]).unwrap();
    let before = journal.last_seq().unwrap();
    go_on(&child);
    talk.expect("fenced: its lock file was replaced");
    talk.say("leave");
    talk.expect("Ok(())");
    assert!(child.wait().unwrap().success());
    assert_eq!(journal.last_seq().unwrap(), before, "nothing has changed");
    assert_eq!(journal.operation("late").unwrap(), None);
    assert_eq!(journal.leases().unwrap()[0].operation_id, "mine");
    journal.commit(vec![register("more", &[])]).unwrap();
    journal.close().unwrap();
    assert_eq!(place.open().claim().epoch, 3);
}

/// The epoch is the second line: even an owner that looked at its lock file just before it was
/// stopped commits nothing, because it looks at the row inside the transaction.
#[test]
fn an_owner_whose_lock_file_was_put_back_is_fenced_by_its_epoch() {
    let place = Place::new();
    let (mut child, mut talk) = owner_in_a_child(&place);
    stop_child(&child);
    talk.say("late");
    let (lock, kept) = (
        place.root().join("domain.lock"),
        place.root().join("domain.kept"),
    );
    fs::rename(&lock, &kept).unwrap();
    let journal = place.open();
    fs::rename(&kept, &lock).unwrap();
    go_on(&child);
    talk.expect(" is in force");
    talk.say("leave");
    talk.expect("Ok(())");
    assert!(child.wait().unwrap().success());
    assert_eq!(journal.operation("late").unwrap(), None);
}

/// An owner that is stopped inside a transaction holds SQLite's lock. A takeover finds the
/// database busy rather than half written.
#[test]
fn an_owner_that_is_stopped_inside_a_commit_cannot_be_overtaken() {
    let place = Place::new();
    drop(place.open_with_run());
    let mut child = child("stop_inside_a_transaction", &place.root())
        .stdin_stdout()
        .spawn()
        .unwrap();
    let mut talk = Talk::with(&mut child);
    talk.expect("inside");
    stop_child(&child);
    let error = Journal::open(place.root(), &OpenOptions::default()).unwrap_err();
    let OpenError::Storage(error) = error else {
        panic!("{error:?}")
    };
    assert_eq!(error.fault, Fault::Busy, "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.open().claim().epoch, 2);
}

#[test]
#[ignore = "a child of an_owner_that_is_stopped_inside_a_commit_cannot_be_overtaken"]
fn stop_inside_a_transaction() {
    let connection = Connection::open(child_folder().join("domain.db")).unwrap();
    connection
        .execute_batch("BEGIN IMMEDIATE; UPDATE owners SET pid = 1")
        .unwrap();
    println!("inside");
    listen();
}

/// Times in the record are those of clocks that may have been wrong. Whoever reads them decides
/// nothing by them: not whether an owner lives, and not what comes after what.
#[test]
fn clocks_that_jump_change_nothing() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    for shift in [-60 * YEAR_MS, 3000 * YEAR_MS] {
        let place = Place::new();
        let (mut child, mut talk) = owner_in_a_child(&place);
        talk.say("first");
        talk.expect("did first");
        let behind = Connection::open(place.root().join("domain.db")).unwrap();
        let moved = format!(
            "UPDATE owners SET acquired_at_ms = acquired_at_ms + {shift};
             UPDATE operations SET created_at_ms = created_at_ms + {shift};
             UPDATE resource_leases SET acquired_at_ms = acquired_at_ms + {shift};"
        );
        behind.execute_batch(&moved).unwrap();
        let error = Journal::open(place.root(), &OpenOptions::default()).unwrap_err();
        assert!(
            matches!(error, OpenError::Owned { .. }),
            "a living owner keeps it"
        );
        talk.say("second");
        talk.expect("Rejected(ResourceHeld { resource: \"x\", holder: \"first\" })");
        child.kill().unwrap();
        child.wait().unwrap();
        let journal = place.open();
        assert_eq!(journal.claim().epoch, 2, "a dead one does not");
        assert_eq!(journal.leases().unwrap().len(), 1, "no lease runs out");
        journal.commit(vec![register("third", &[])]).unwrap();
        let order: Vec<String> = journal
            .unfinished()
            .unwrap()
            .into_iter()
            .map(|o| o.id)
            .collect();
        assert_eq!(order, ["first", "third"]);
    }
}
