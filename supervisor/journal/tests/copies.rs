//! A domain whose folder was copied: the copy is a domain of its own, knows that it is one, and takes
//! nothing from the original.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use support::*;
use xioflow_journal::{
    Fault, Inherited, Journal, OpenError, OpenOptions, OpenedAs, Outcome, OwnerState, Query, Reader,
};

/// `cp -a`, as people do it: by another process, with the times and modes of the original.
fn copy(from: &Path) -> PathBuf {
    let to = from.with_extension("copy");
    let done = Command::new("cp").arg("-a").args([from, &to]).status();
    assert!(done.unwrap().success());
    to
}

fn open(root: &Path) -> Journal {
    Journal::open(root, &OpenOptions::default()).unwrap()
}

/// A domain with one operation that has ended and one that has not, which holds a lease.
fn original(place: &Place) -> Journal {
    let journal = place.open_with_run();
    let over = vec![register("over", &[]), finish("over", Outcome::Succeeded)];
    journal.commit(over).unwrap();
    let begun = vec![register("o", &["x"]), activate("o")];
    journal.commit(begun).unwrap();
    journal
}

fn copied(ids: &[&str]) -> Inherited {
    Inherited {
        copied: ids.iter().map(|&id| id.to_owned()).collect(),
        renumbered: BTreeSet::new(),
    }
}

fn kinds(journal: &Journal) -> Vec<String> {
    let events = journal.events(0, None, None).unwrap();
    events.into_iter().map(|e| e.kind).collect()
}

#[test]
fn a_domain_that_was_not_copied_is_not_called_a_copy() {
    let place = Place::new();
    let journal = original(&place);
    assert_eq!(journal.opened_as(), OpenedAs::New);
    drop(journal);
    let journal = place.open();
    assert_eq!(journal.opened_as(), OpenedAs::Same);
    assert_eq!(journal.inherited().unwrap(), Inherited::default());
    assert!(!kinds(&journal).contains(&"DOMAIN_COPIED".to_owned()));
}

#[test]
fn a_domain_that_was_moved_is_not_called_a_copy() {
    let place = Place::new();
    drop(original(&place));
    let moved = place.root().with_extension("moved");
    fs::rename(place.root(), &moved).unwrap();
    assert_eq!(open(&moved).opened_as(), OpenedAs::Same);
}

#[test]
fn a_copy_of_a_closed_domain_knows_whose_operations_it_has() {
    let place = Place::new();
    drop(original(&place));
    let root = copy(&place.root());
    let reader = Reader::open(&root).unwrap();
    assert_eq!(reader.owner_state(), OwnerState::Free);
    assert_eq!(
        reader.inherited().unwrap(),
        copied(&["o"]),
        "before it is opened"
    );
    let journal = open(&root);
    assert_eq!(journal.opened_as(), OpenedAs::Copy);
    assert_eq!(journal.inherited().unwrap(), copied(&["o"]));
    assert_eq!(reader.inherited().unwrap(), copied(&["o"]));
    // The leases are the copy's: nobody else can free them.
    assert_eq!(journal.leases().unwrap()[0].operation_id, "o");
    assert_eq!(kinds(&journal).last().unwrap(), "DOMAIN_COPIED");
}

#[test]
fn a_copy_of_a_living_domain_is_a_domain_of_its_own() {
    let place = Place::new();
    let journal = original(&place);
    let root = copy(&place.root());
    let copy = open(&root);
    assert_eq!(copy.opened_as(), OpenedAs::Copy);
    assert_eq!(copy.inherited().unwrap(), copied(&["o"]));
    copy.commit(vec![finish("o", Outcome::Indeterminate)])
        .unwrap();
    journal
        .commit(vec![finish("o", Outcome::Succeeded)])
        .unwrap();
    copy.close().unwrap();
    journal.commit(vec![register("p", &["x"])]).unwrap();
    journal.verify_ownership().unwrap();
    let outcome = |journal: &Journal| journal.operation("o").unwrap().unwrap().outcome;
    assert_eq!(outcome(&journal), Some(Outcome::Succeeded));
    assert_eq!(outcome(&open(&root)), Some(Outcome::Indeterminate));
}

/// An owner may die between opening the copy and settling what it found.
#[test]
fn a_copy_remembers_that_it_is_one_until_its_operations_are_settled() {
    let place = Place::new();
    drop(original(&place));
    let root = copy(&place.root());
    kill_at("opened", "open_and_begin_another", &root);
    let journal = open(&root);
    assert_eq!(
        journal.opened_as(),
        OpenedAs::Same,
        "it is the copy's own file by now"
    );
    assert_eq!(
        journal.inherited().unwrap(),
        copied(&["o"]),
        "and not what came later"
    );
    journal
        .commit(vec![finish("o", Outcome::Indeterminate)])
        .unwrap();
    assert_eq!(journal.inherited().unwrap(), Inherited::default());
}

#[test]
#[ignore = "a child of a_copy_remembers_that_it_is_one_until_its_operations_are_settled"]
fn open_and_begin_another() {
    let journal = open(&child_folder());
    journal.commit(vec![register("mine", &[])]).unwrap();
    println!("opened");
    listen();
}

#[test]
fn a_copy_of_a_copy_inherits_from_both() {
    let place = Place::new();
    drop(original(&place));
    let first = copy(&place.root());
    let journal = open(&first);
    journal.commit(vec![register("second", &[])]).unwrap();
    drop(journal);
    let renamed = place.root().with_file_name("first");
    fs::rename(&first, &renamed).unwrap();
    let second = copy(&renamed);
    assert_eq!(open(&second).inherited().unwrap(), copied(&["o", "second"]));
    let first = open(&renamed);
    assert_eq!(
        first.inherited().unwrap(),
        copied(&["o"]),
        "the first has only its own past"
    );
}

/// What a device number is after the machine was started again cannot be known.
#[test]
fn a_device_with_another_number_is_told_apart_from_a_copy() {
    let place = Place::new();
    drop(original(&place));
    let connection = Connection::open(place.root().join("domain.db")).unwrap();
    connection
        .execute_batch("UPDATE owners SET file_device = file_device + 1")
        .unwrap();
    connection.close().unwrap();
    let renumbered = Inherited {
        copied: BTreeSet::new(),
        renumbered: ["o".to_owned()].into(),
    };
    let reader = Reader::open(place.root()).unwrap();
    assert_eq!(reader.inherited().unwrap(), renumbered);
    let journal = place.open();
    assert_eq!(journal.opened_as(), OpenedAs::Renumbered);
    assert_eq!(journal.inherited().unwrap(), renumbered);
    drop(journal);
    assert_eq!(place.open().inherited().unwrap(), renumbered);
}

/// `cp` reads one file after the other, and an owner does not wait for it.
#[test]
fn a_copy_of_two_moments_is_refused() {
    for is_known in [false, true] {
        let place = Place::new();
        let mut journal = original(&place);
        if is_known {
            // Closing brings the owner's row into the database.
            journal.close().unwrap();
            journal = place.open();
        }
        let early = copy(&place.root());
        for n in 0..600 {
            let id = format!("{n}-{}", "x".repeat(400));
            let whole = vec![register(&id, &[]), finish(&id, Outcome::Succeeded)];
            journal.commit(whole).unwrap();
        }
        let late = bytes_of(&place.root().join("domain.db-wal"));
        let len = bytes_of(&place.root().join("domain.db")).len();
        assert!(len > 100_000, "the log was begun anew");
        fs::write(early.join("domain.db-wal"), late).unwrap();
        let error = Journal::open(&early, &OpenOptions::default()).unwrap_err();
        let OpenError::Storage(error) = error else {
            panic!("{error:?}")
        };
        assert_eq!(error.fault, Fault::Corrupt, "{error}");
        journal.commit(vec![register("p", &[])]).unwrap();
    }
}
