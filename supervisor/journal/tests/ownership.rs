//! One owner at a time: the lock, the epoch, and what happens to an owner that lost either.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use support::*;
use xioflow_journal::{
    CommitError, FenceReason, Journal, OpenError, OpenOptions, OwnerRole, OwnerState, Query, Reader,
};

const LONG: Duration = Duration::from_secs(60);

fn waiting(wait: Duration) -> OpenOptions {
    OpenOptions {
        wait,
        ..OpenOptions::default()
    }
}

#[test]
fn an_owner_says_for_whom_it_is_one() {
    let place = Place::new();
    let options = OpenOptions {
        role: OwnerRole::Arbiter,
        ..OpenOptions::default()
    };
    let journal = Journal::open(place.root(), &options).unwrap();
    let error = Journal::open(place.root(), &OpenOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("in use by its arbiter, process ")
    );
    drop(journal);
    let later = place.open();
    let error = Journal::open(place.root(), &options).unwrap_err();
    let OpenError::Owned { owner, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(owner.unwrap().role, Some(OwnerRole::Embedded));
    drop(later);
}

#[test]
fn a_second_owner_is_refused_and_told_of_the_first() {
    let place = Place::new();
    let journal = place.open();
    let error = Journal::open(place.root(), &OpenOptions::default()).unwrap_err();
    let OpenError::Owned {
        owner: Some(note),
        path,
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(path, place.root());
    assert_eq!(note.owner_pid, std::process::id());
    assert_eq!(note.hostname, journal.claim().hostname);
    assert_eq!(note.domain_id, "default");
    assert_eq!(note.role, Some(OwnerRole::Embedded));
    assert!(note.acquired_at.ends_with('Z'));
    assert!(matches!(
        Journal::open(place.root(), &waiting(Duration::from_millis(10))),
        Err(OpenError::Owned { .. })
    ));
    journal.commit(begin("r")).unwrap();
}

#[test]
fn a_waiting_owner_gets_the_domain_when_it_is_closed() {
    let place = Place::new();
    let journal = place.open();
    let epoch = journal.claim().epoch;
    thread::scope(|scope| {
        let next = scope.spawn(|| Journal::open(place.root(), &waiting(LONG)).unwrap());
        journal.close().unwrap();
        assert_eq!(next.join().unwrap().claim().epoch, epoch + 1);
    });
}

#[test]
fn owners_in_two_processes_take_turns() {
    let place = Place::new();
    let journal = place.open();
    let mut child = child("hold_until_told", &place.root())
        .stdin_stdout()
        .spawn()
        .unwrap();
    let mut talk = Talk::with(&mut child);
    talk.expect("waiting");
    journal.commit(begin("r")).unwrap();
    journal.close().unwrap();
    talk.expect("owner of epoch 2");
    let error = Journal::open(place.root(), &OpenOptions::default()).unwrap_err();
    let OpenError::Owned {
        owner: Some(note), ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(note.owner_pid, child.id());
    talk.say("leave");
    let journal = Journal::open(place.root(), &waiting(LONG)).unwrap();
    assert_eq!(journal.claim().epoch, 3);
    assert!(journal.run("r").unwrap().is_some());
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "a child of owners_in_two_processes_take_turns"]
fn hold_until_told() {
    println!("waiting");
    let journal = Journal::open(child_folder(), &waiting(LONG)).unwrap();
    println!("owner of epoch {}", journal.claim().epoch);
    listen();
    journal.close().unwrap();
}

#[test]
fn a_killed_owner_leaves_its_commits_and_no_lock() {
    let place = Place::new();
    kill_at("committed", "commit_until_killed", &place.root());
    let journal = place.open();
    assert_eq!(journal.claim().epoch, 2);
    assert_eq!(journal.unfinished().unwrap()[0].id, "o");
    assert_eq!(journal.leases().unwrap()[0].resource_id, "x");
}

#[test]
#[ignore = "a child of a_killed_owner_leaves_its_commits_and_no_lock"]
fn commit_until_killed() {
    let journal = Journal::open(child_folder(), &OpenOptions::default()).unwrap();
    journal.commit(begin("r")).unwrap();
    journal
        .commit(vec![register("o", &["x"]), activate("o")])
        .unwrap();
    println!("committed");
    listen();
}

/// Kills an owner in the middle of its work, wherever that happens to be.
#[test]
fn a_kill_in_the_middle_of_commits_loses_none_that_returned() {
    let place = Place::new();
    for round in 0..6_u32 {
        let mut child = child("commit_pairs_for_ever", &place.root())
            .stdin_stdout()
            .spawn()
            .unwrap();
        let mut talk = Talk::with(&mut child);
        talk.expect(&format!("epoch {} pair {}", round * 2 + 1, round * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        let heard = talk.rest();
        let last = heard.lines().last().map_or(round * 7, |line| {
            line.rsplit_once(' ').unwrap().1.parse().unwrap()
        });

        let journal = place.open();
        assert_eq!(journal.claim().epoch, i64::from(round * 2 + 2));
        let epoch = round * 2 + 1;
        let is_there = |pair: u32, half| {
            journal
                .operation(&format!("{epoch}-{pair}-{half}"))
                .unwrap()
                .is_some()
        };
        for pair in 0..=last {
            assert!(
                is_there(pair, "a") && is_there(pair, "b"),
                "pair {pair} of {last} is lost"
            );
        }
        assert_eq!(
            is_there(last + 1, "a"),
            is_there(last + 1, "b"),
            "half a commit is there"
        );
        assert!(!is_there(last + 2, "a"));
    }
}

#[test]
#[ignore = "a child of a_kill_in_the_middle_of_commits_loses_none_that_returned"]
fn commit_pairs_for_ever() {
    let journal = Journal::open(child_folder(), &OpenOptions::default()).unwrap();
    let epoch = journal.claim().epoch;
    if epoch == 1 {
        journal.commit(begin("r")).unwrap();
    }
    for pair in 0..u32::MAX {
        let half = |half| register(&format!("{epoch}-{pair}-{half}"), &[]);
        journal.commit(vec![half("a"), half("b")]).unwrap();
        println!("epoch {epoch} pair {pair}");
    }
}

#[test]
fn what_a_crash_left_of_a_draft_is_removed() {
    let place = Place::new();
    fs::create_dir(place.root()).unwrap();
    for suffix in ["", "-wal", "-journal"] {
        fs::write(
            place.root().join(format!("domain.db.new{suffix}")),
            b"half a database",
        )
        .unwrap();
    }
    place.open_with_run().close().unwrap();
    let left = fs::read_dir(place.root())
        .unwrap()
        .map(|e| e.unwrap().file_name());
    assert_eq!(
        left.filter(|name| name.to_string_lossy().contains("new"))
            .count(),
        0
    );
}

#[test]
fn closing_marks_the_row_and_dropping_does_too() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(journal.owner().unwrap().unwrap().released_at_ms, None);
    journal.close().unwrap();
    let reader = Reader::open(place.root()).unwrap();
    assert!(reader.owner().unwrap().unwrap().released_at_ms.is_some());
    assert_eq!(reader.owner_state(), OwnerState::Free);

    drop(place.open());
    let owner = reader.owner().unwrap().unwrap();
    assert_eq!(owner.epoch, 2);
    assert!(owner.released_at_ms.is_some());
}

#[test]
fn a_closed_domain_has_no_log() {
    let place = Place::new();
    let journal = place.open_with_run();
    let log = journal.dir().log();
    assert!(log.exists());
    journal.close().unwrap();
    assert!(!log.exists());
}

#[test]
fn an_owner_whose_epoch_is_over_is_fenced_for_ever() {
    let place = Place::new();
    let journal = place.open_with_run();
    let behind = Connection::open(journal.dir().database()).unwrap();
    behind
        .execute(
            "UPDATE owners SET epoch = epoch + 1, owner_id = 'thief'",
            [],
        )
        .unwrap();
    let error = journal.commit(vec![register("o", &[])]).unwrap_err();
    let CommitError::Fenced {
        reason:
            FenceReason::Superseded {
                ours: 1,
                found: Some(found),
            },
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!((found.epoch, found.owner_id.as_str()), (2, "thief"));
    // Even if the row is put right again.
    behind
        .execute(
            "UPDATE owners SET owner_id = ?1",
            [&journal.claim().owner_id],
        )
        .unwrap();
    assert!(matches!(
        journal.commit(vec![register("o", &[])]),
        Err(CommitError::Fenced { .. })
    ));
    assert!(matches!(
        journal.verify_ownership(),
        Err(CommitError::Fenced { .. })
    ));
    assert_eq!(journal.operation("o").unwrap(), None);
    // Closing must not mark a row that is another's.
    journal.close().unwrap();
    let reader = Reader::open(place.root()).unwrap();
    assert_eq!(reader.owner().unwrap().unwrap().released_at_ms, None);
}

#[test]
fn a_deleted_lock_file_fences_its_owner() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.verify_ownership().unwrap();
    fs::remove_file(journal.dir().lock()).unwrap();
    for error in [
        journal.commit(vec![register("o", &[])]).unwrap_err(),
        journal.verify_ownership().unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                CommitError::Fenced {
                    reason: FenceReason::LockFileGone,
                    ..
                }
            ),
            "{error:?}"
        );
    }
    let reader = Reader::open(place.root()).unwrap();
    assert!(matches!(
        reader.owner_state(),
        OwnerState::CannotTell { .. }
    ));
}

#[test]
fn a_replaced_lock_file_fences_the_old_owner_and_not_the_new() {
    let place = Place::new();
    let old = place.open_with_run();
    fs::remove_file(old.dir().lock()).unwrap();
    let new = place.open();
    assert!(matches!(
        old.verify_ownership(),
        Err(CommitError::Fenced {
            reason: FenceReason::LockFileReplaced,
            ..
        })
    ));
    new.commit(vec![register("o", &[])]).unwrap();
    assert!(matches!(
        old.commit(vec![register("p", &[])]),
        Err(CommitError::Fenced { .. })
    ));
    drop(old);
    new.commit(vec![register("q", &[])]).unwrap();
    assert!(matches!(
        Reader::open(place.root()).unwrap().owner_state(),
        OwnerState::Held { note: Some(note) } if note.owner_pid == std::process::id()
    ));
}

#[test]
fn the_schema_keeps_what_must_not_change() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![
            register("o", &[]),
            end_run("r", xioflow_journal::RunStatus::Failed),
        ])
        .unwrap();
    let behind = Connection::open(journal.dir().database()).unwrap();
    for sql in [
        "DELETE FROM owners",
        "UPDATE owners SET epoch = 0",
        "UPDATE journal_events SET payload_json = '{}'",
        "DELETE FROM journal_events",
        "UPDATE runs SET status = 'succeeded'",
        "UPDATE operations SET status = 'frozen'",
        "UPDATE operations SET status = 'done'",
        "INSERT INTO resource_leases VALUES ('x', 'none', 0)",
    ] {
        // Foreign keys are off for foreign programs, unless they say so.
        let foreign_keys = behind.execute_batch("PRAGMA foreign_keys = ON");
        foreign_keys.unwrap();
        assert!(behind.execute(sql, []).is_err(), "{sql} went through");
    }
}

#[test]
fn a_domain_keeps_its_name() {
    let place = Place::new();
    let named = |name: &str| OpenOptions {
        domain_id: Some(name.into()),
        ..OpenOptions::default()
    };
    drop(Journal::open(place.root(), &named("ci")).unwrap());
    assert_eq!(place.open().domain_id(), "ci");
    let error = Journal::open(place.root(), &named("other")).unwrap_err();
    assert!(
        matches!(&error, OpenError::OtherDomain { found, asked, .. } if found == "ci" && asked == "other"),
        "{error:?}"
    );
    assert_eq!(
        Journal::open(place.root(), &named("ci"))
            .unwrap()
            .claim()
            .epoch,
        3
    );
}

/// SQLite would go on writing into a file that nobody can open any more.
#[test]
fn a_database_that_is_deleted_or_replaced_fences_its_owner() {
    for replaced in [false, true] {
        let place = Place::new();
        let journal = place.open_with_run();
        let database = journal.dir().database();
        let copy = database.with_file_name("copy");
        fs::copy(&database, &copy).unwrap();
        fs::remove_file(&database).unwrap();
        if replaced {
            fs::rename(&copy, &database).unwrap();
        }
        let error = journal.commit(vec![register("o", &[])]).unwrap_err();
        let CommitError::Fenced { path, reason } = error else {
            panic!("{error:?}");
        };
        assert_eq!(path, database);
        let is_right = match reason {
            FenceReason::DatabaseGone => !replaced,
            FenceReason::DatabaseReplaced => replaced,
            _ => false,
        };
        assert!(is_right, "{reason:?}, replaced: {replaced}");
        assert!(journal.verify_ownership().is_err());
    }
}
