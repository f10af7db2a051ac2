//! A domain of version 1, with rows, under this release.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;

use rusqlite::Connection;
use support::old;
use xioflow_journal::{
    DataFault, Gap, OpenOptions, Outcome, Output, Query, ReadError, Reader, SCHEMA_VERSION, Stream,
};

/// What is known of its outputs, whoever asks: nobody counted lines, and all of it is stored.
fn old_outputs() -> Vec<Output> {
    vec![
        Output {
            stream: Stream::Stdout,
            total_bytes: 3,
            lines: None,
            sha256: Some("ab".into()),
            artifact: None,
            content: Some(vec![0, 255, 10]),
            gap: None,
            spill_error: None,
            pruned_at_ms: None,
        },
        Output {
            stream: Stream::Stderr,
            total_bytes: 99999,
            lines: None,
            sha256: Some("cd".into()),
            artifact: Some("o-stderr.log".into()),
            content: None,
            gap: None,
            spill_error: Some("full".into()),
            pruned_at_ms: None,
        },
    ]
}

#[test]
fn an_owner_brings_it_up_to_date_and_keeps_every_row() {
    let place = old::domain(1);
    let journal = place.open();
    assert_eq!(journal.outputs("o").unwrap(), old_outputs());
    let operation = journal.operation("o").unwrap().unwrap();
    assert_eq!(operation.outcome, Some(Outcome::Succeeded));
    assert_eq!(operation.output_ref.as_deref(), Some("o-stderr.log"));
    assert_eq!(journal.output_order("o").unwrap(), None);
    assert_eq!(operation.adjudication, None);
    let files = journal.stored_files(None, 9).unwrap();
    assert_eq!(files.len(), 1, "files of old results can be given up");
    assert_eq!(files[0].artifact, "o-stderr.log");
    assert_eq!(journal.last_seq().unwrap(), 5);
    assert_eq!(journal.claim().epoch, 8);
    journal.close().unwrap();
    let header = fs::read(place.root().join("domain.db")).unwrap();
    assert_eq!(header[60..64], SCHEMA_VERSION.to_be_bytes());
}

#[test]
fn a_reader_reads_it_as_it_is_and_changes_nothing() {
    let place = old::domain(1);
    let database = place.root().join("domain.db");
    let before = fs::read(&database).unwrap();
    let reader = Reader::open(place.root()).unwrap();
    assert_eq!(reader.outputs("o").unwrap(), old_outputs());
    assert_eq!(reader.output_order("o").unwrap(), None);
    let operation = reader.operation("o").unwrap().unwrap();
    assert_eq!(operation.adjudication, None);
    assert_eq!(reader.stored_files(None, 9).unwrap().len(), 1);
    assert_eq!(reader.unadjudicated(None).unwrap(), []);
    assert_eq!(reader.open_runs().unwrap(), []);
    assert_eq!(reader.counts().unwrap().total, 1);
    assert_eq!(fs::read(&database).unwrap(), before);
}

#[test]
fn a_reader_goes_on_while_an_owner_brings_it_up_to_date() {
    let place = old::domain(1);
    let reader = Reader::open(place.root()).unwrap();
    assert_eq!(reader.outputs("o").unwrap(), old_outputs());
    let journal = place.open();
    assert_eq!(reader.outputs("o").unwrap(), old_outputs());
    drop(journal);
}

#[test]
fn a_change_that_fails_leaves_the_old_version_whole() {
    let place = old::domain(1);
    let database = place.root().join("domain.db");
    let connection = Connection::open(&database).unwrap();
    // The second step of the migration meets a column that is there already.
    connection
        .execute_batch("ALTER TABLE operation_outputs ADD COLUMN gap_from INTEGER")
        .unwrap();
    connection.close().unwrap();
    xioflow_journal::Journal::open(place.root(), &OpenOptions::default()).unwrap_err();
    let connection = Connection::open(&database).unwrap();
    let has_lines = connection
        .prepare("SELECT lines FROM operation_outputs")
        .is_ok();
    assert!(!has_lines, "the first step was kept without the second");
    let version: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 1);
}

#[test]
fn a_gap_that_makes_no_sense_is_refused_and_named() {
    let place = old::domain(1);
    drop(place.open());
    let connection = Connection::open(place.root().join("domain.db")).unwrap();
    let set = |from: &str, to: &str| {
        let sql = format!(
            "UPDATE operation_outputs SET gap_from = {from}, gap_to = {to} WHERE stream = 'stderr'"
        );
        connection.execute_batch(&sql)
    };
    for (from, to) in [
        ("5", "NULL"),
        ("NULL", "5"),
        ("5", "5"),
        ("-1", "5"),
        ("5", "100000"),
    ] {
        set(from, to).expect_err("the schema refuses it");
    }
    set("5", "99999").unwrap();
    let reader = Reader::open(place.root()).unwrap();
    let gap = reader.outputs("o").unwrap()[1].gap;
    assert_eq!(gap, Some(Gap { from: 5, to: 99999 }));
    connection
        .pragma_update(None, "ignore_check_constraints", true)
        .unwrap();
    set("9", "5").unwrap();
    match reader.outputs("o").unwrap_err() {
        ReadError::Data(error) => {
            assert_eq!(error.column, "gap_to");
            assert!(matches!(error.source, DataFault::Range(5)), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
}
