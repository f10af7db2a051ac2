//! An owner whose files are deleted, replaced or cut off behind its back: it says so before it
//! answers the next commit, and what it had promised is not lost where that can be helped.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use support::*;
use xioflow_journal::{CommitError, FenceReason, Journal, Query, Reader};

/// An owner with `many` operations in its log, and nothing of them in its database.
fn with_operations(place: &Place, many: usize) -> Journal {
    let journal = place.open_with_run();
    for n in 0..many {
        journal.commit(vec![register(&n.to_string(), &[])]).unwrap();
    }
    journal
}

/// Commits what must fail because of a file that was lost.
fn fenced(journal: &Journal) -> (PathBuf, FenceReason) {
    match journal.commit(vec![register("late", &[])]).unwrap_err() {
        CommitError::Fenced { path, reason } => {
            assert!(journal.verify_ownership().is_err(), "it is fenced for ever");
            (path, reason)
        }
        other => panic!("{other:?}"),
    }
}

fn names_in(place: &Place) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(place.root())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn unfinished(place: &Place) -> usize {
    Reader::open(place.root())
        .unwrap()
        .unfinished()
        .unwrap()
        .len()
}

/// SQLite goes on writing into a log that has no name any more, and calls that a commit.
#[test]
fn a_deleted_log_fences_its_owner_and_its_commits_are_saved() {
    let place = Place::new();
    let journal = with_operations(&place, 20);
    let log = journal.dir().log();
    fs::remove_file(&log).unwrap();
    assert_eq!(
        fenced(&journal),
        (log, FenceReason::LogGone { is_saved: true })
    );
    drop(journal);
    assert_eq!(unfinished(&place), 20, "what was committed before is there");
    assert_eq!(place.open().unfinished().unwrap().len(), 20);
}

#[test]
fn a_log_that_is_deleted_before_closing_is_saved_too() {
    let place = Place::new();
    let journal = with_operations(&place, 20);
    fs::remove_file(journal.dir().log()).unwrap();
    journal.close().unwrap();
    assert_eq!(unfinished(&place), 20);
}

#[test]
fn a_replaced_log_fences_its_owner_and_stays() {
    let place = Place::new();
    let journal = with_operations(&place, 3);
    let log = journal.dir().log();
    fs::remove_file(&log).unwrap();
    fs::write(&log, b"of somebody else").unwrap();
    let reason = FenceReason::LogReplaced { is_saved: true };
    assert_eq!(fenced(&journal), (log.clone(), reason));
    drop(journal);
    assert_eq!(fs::read(&log).unwrap(), b"of somebody else");
    // It is no log of this database, so SQLite passes it over.
    assert_eq!(place.open().unfinished().unwrap().len(), 3);
}

/// SQLite removes a log by its path when it closes.
#[test]
fn closing_saves_what_was_committed_and_leaves_another_log_alone() {
    let place = Place::new();
    let journal = with_operations(&place, 3);
    let log = journal.dir().log();
    fs::remove_file(&log).unwrap();
    fs::write(&log, b"of somebody else").unwrap();
    journal.close().unwrap();
    assert_eq!(fs::read(&log).unwrap(), b"of somebody else");
    assert_eq!(place.open().unfinished().unwrap().len(), 3);
}

fn changed(change: impl FnOnce(&File)) {
    let place = Place::new();
    let journal = with_operations(&place, 3);
    let log = journal.dir().log();
    change(&OpenOptions::new().write(true).open(&log).unwrap());
    assert_eq!(fenced(&journal), (log, FenceReason::LogChanged));
    let before = bytes_of(&journal.dir().database());
    let database = journal.dir().database();
    drop(journal);
    assert_eq!(
        fs::read(database).unwrap(),
        before,
        "what is broken is not written back"
    );
}

#[test]
fn a_log_that_is_emptied_or_cut_fences_its_owner() {
    changed(|log| log.set_len(0).unwrap());
    changed(|log| log.set_len(5000).unwrap());
}

#[test]
fn a_log_that_is_zeroed_fences_its_owner() {
    changed(|log| log.write_all_at(&[0; 4096], 0).unwrap());
}

/// `PRAGMA wal_checkpoint(TRUNCATE)` of another program empties the log as well, in order.
#[test]
fn a_log_that_another_program_writes_back_and_empties_harms_nobody() {
    let place = Place::new();
    let journal = with_operations(&place, 3);
    let behind = Connection::open(journal.dir().database()).unwrap();
    let busy: i64 = behind
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(busy, 0);
    assert_eq!(journal.dir().log().metadata().unwrap().len(), 0);
    journal.commit(vec![register("next", &[])]).unwrap();
    journal.close().unwrap();
    assert_eq!(unfinished(&place), 4);
}

#[test]
fn lost_shared_memory_fences_its_owner() {
    for replaced in [false, true] {
        let place = Place::new();
        let journal = with_operations(&place, 3);
        let shared = place.root().join("domain.db-shm");
        fs::remove_file(&shared).unwrap();
        if replaced {
            // As a reader of another process makes it.
            File::create(&shared).unwrap();
        }
        let reason = if replaced {
            FenceReason::SharedMemoryReplaced
        } else {
            FenceReason::SharedMemoryGone
        };
        assert_eq!(fenced(&journal), (shared, reason));
        drop(journal);
        assert_eq!(unfinished(&place), 3);
    }
}

/// Whoever moves a domain away and puts another in its place must not lose the other's log.
#[test]
fn an_owner_whose_folder_was_replaced_takes_nothing_from_the_new_one() {
    let place = Place::new();
    let old = with_operations(&place, 3);
    fs::rename(place.root(), place.root().with_extension("moved")).unwrap();
    let new = with_operations(&place, 5);
    let before = names_in(&place);
    drop(old);
    assert_eq!(names_in(&place), before);
    new.commit(vec![register("more", &[])]).unwrap();
    drop(new);
    assert_eq!(unfinished(&place), 6);
}

/// A log begins anew many times in the life of an owner.
#[test]
fn a_log_that_its_owner_begins_anew_is_no_loss() {
    let place = Place::new();
    let journal = place.open_with_run();
    let start = |log: &Path| bytes_of(log)[..32].to_vec();
    let before = start(&journal.dir().log());
    for n in 0..200 {
        let mut task = task();
        task.meta = n.to_string().repeat(50_000).into();
        let saved = vec![xioflow_journal::Change::SaveTask(task)];
        journal.commit(saved).unwrap();
        journal.verify_ownership().unwrap();
    }
    assert_ne!(start(&journal.dir().log()), before, "it was begun anew");
}

fn is_told(journal: &Journal) -> bool {
    let events = journal.events(0, None, None).unwrap();
    let is_told = events.iter().any(|e| e.kind == "DOMAIN_LOG_MISSING");
    assert_eq!(journal.is_log_missing(), is_told);
    is_told
}

/// A dead owner's log is part of its record. Where it is gone or empty, nobody knows what it held.
#[test]
fn a_log_that_is_lost_after_a_crash_is_told_of() {
    type Damage = fn(&Path);
    let damages: [(Damage, bool); 3] = [
        (|_| {}, false),
        (|log| fs::remove_file(log).unwrap(), true),
        (|log| fs::write(log, b"").unwrap(), true),
    ];
    for (damage, expected) in damages {
        let place = Place::new();
        kill_at("written back", "write_back_and_wait", &place.root());
        damage(&place.root().join("domain.db-wal"));
        let journal = place.open();
        assert_eq!(is_told(&journal), expected);
        assert!(journal.operation("early").unwrap().is_some());
        assert_eq!(journal.operation("late").unwrap().is_some(), !expected);
        journal.close().unwrap();
        assert!(!place.open().is_log_missing(), "once is enough");
    }
}

#[test]
#[ignore = "a child of a_log_that_is_lost_after_a_crash_is_told_of"]
fn write_back_and_wait() {
    let journal = Journal::open(child_folder(), &xioflow_journal::OpenOptions::default()).unwrap();
    journal.commit(begin("r")).unwrap();
    journal.commit(vec![register("early", &[])]).unwrap();
    // As the journal does by itself after some thousand changes.
    let behind = Connection::open(journal.dir().database()).unwrap();
    behind
        .query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(()))
        .unwrap();
    journal.commit(vec![register("late", &[])]).unwrap();
    println!("written back");
    listen();
}

#[test]
fn a_domain_that_was_closed_misses_no_log() {
    let place = Place::new();
    assert!(!is_told(&place.open()));
    assert!(!is_told(&place.open()));
    drop(Reader::open(place.root()).unwrap());
    assert!(!is_told(&place.open()));
}
