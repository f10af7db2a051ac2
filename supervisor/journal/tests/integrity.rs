//! Damage of every kind that can be made by hand: flipped bits, cut files, broken logs, rows that break
//! a rule. It is found and named, or nothing that decides anything has changed. Never a panic, never
//! a write.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use support::*;
use xioflow_journal::{
    Fault, FileError, IntegrityReport, IntegrityStep, Journal, OpenError, OpenOptions,
    OperationFilter, Outcome, Query, ReadError, Reader, RunStatus,
};

const OPERATIONS: usize = 60;

/// A domain with a bit of everything, closed.
fn full() -> Place {
    let place = Place::new();
    let journal = place.open_with_run();
    for n in 0..OPERATIONS {
        let id = format!("operation-{n}");
        let lease = format!("resource-{n}");
        let mut changes = vec![register(&id, &[lease.as_str()]), activate(&id)];
        match n % 4 {
            0 => changes.push(finish(&id, Outcome::Succeeded)),
            1 => changes.push(finish(&id, Outcome::Indeterminate)),
            2 => changes.extend([finish(&id, Outcome::Indeterminate), adjudicate(&id)]),
            _ => {}
        }
        journal.commit(changes).unwrap();
    }
    journal.commit(begin("s")).unwrap();
    journal
        .commit(vec![end_run("s", RunStatus::Failed)])
        .unwrap();
    journal.close().unwrap();
    place
}

/// A folder with these files and nothing else.
fn domain_of(place: &Place, files: &[(&str, &[u8])]) -> PathBuf {
    let root = place.root().with_extension("damaged");
    drop(fs::remove_dir_all(&root));
    fs::create_dir(&root).unwrap();
    for (name, bytes) in files {
        fs::write(root.join(name), bytes).unwrap();
    }
    root
}

/// All by which anything is ever decided.
fn decisive(reader: &Reader) -> Result<String, ReadError> {
    let operations = reader.operations(&OperationFilter::default())?;
    let operations: Vec<_> = operations
        .into_iter()
        .map(|o| {
            (
                o.id,
                o.run_id,
                o.status,
                o.outcome,
                o.adjudication.is_some(),
            )
        })
        .collect();
    let runs: Vec<_> = reader
        .runs(None)?
        .into_iter()
        .map(|r| (r.id, r.status))
        .collect();
    let leases: Vec<_> = reader
        .leases()?
        .into_iter()
        .map(|l| (l.resource_id, l.operation_id))
        .collect();
    let seqs: Vec<_> = reader
        .events(0, None, None)?
        .into_iter()
        .filter(|e| e.operation_id.is_some())
        .map(|e| (e.seq, e.operation_id))
        .collect();
    Ok(format!("{operations:?} {runs:?} {leases:?} {seqs:?}"))
}

/// What a look at a domain says, without changing a byte of its database.
enum Look {
    /// It is refused or its damage is named.
    Named(String),
    /// All looks well: what decides, as it is read.
    Sound(String),
}

fn look(root: &Path) -> Look {
    let before = fs::read(root.join("domain.db")).unwrap();
    let found = Reader::open(root).and_then(|reader| {
        let report = reader.check_integrity(|_| {})?;
        match report.problems.first() {
            Some(problem) => Ok(Look::Named(problem.what.clone())),
            None => decisive(&reader).map(Look::Sound),
        }
    });
    let after = fs::read(root.join("domain.db")).unwrap();
    assert!(before == after, "looking has changed the database");
    found.unwrap_or_else(|error| Look::Named(error.to_string()))
}

fn sound(place: &Place) -> String {
    let reader = Reader::open(place.root()).unwrap();
    let report = reader.check_integrity(|_| {}).unwrap();
    assert_eq!(report, IntegrityReport::default());
    decisive(&reader).unwrap()
}

#[test]
fn a_whole_domain_has_no_problems_and_every_step_is_told_of() {
    let place = full();
    sound(&place);
    let journal = place.open();
    let mut steps = Vec::new();
    assert!(
        journal
            .check_integrity(|step| steps.push(step))
            .unwrap()
            .is_sound()
    );
    use IntegrityStep::{Events, Leases, Operations, Owner, Pages, References, Runs};
    assert_eq!(
        steps,
        [Pages, References, Owner, Operations, Runs, Leases, Events]
    );
}

#[test]
fn domains_of_every_version_are_whole() {
    for version in 1..=3 {
        let place = old::domain(version);
        let reader = Reader::open(place.root()).unwrap();
        let report = reader.check_integrity(|_| {}).unwrap();
        assert!(report.is_sound(), "version {version}: {report:?}");
    }
}

#[test]
fn a_flipped_bit_is_found_or_decides_nothing() {
    let place = full();
    let expected = sound(&place);
    let bytes = fs::read(place.root().join("domain.db")).unwrap();
    let (mut named, mut tried) = (0, 0);
    // A prime, so that every part of a page is met.
    for at in (0..bytes.len()).step_by(661).chain(0..110) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        tried += 1;
        match look(&domain_of(&place, &[("domain.db", &flipped)])) {
            Look::Named(what) => {
                assert!(!what.is_empty());
                named += 1;
            }
            Look::Sound(found) => assert!(found == expected, "byte {at} changed {found}"),
        }
    }
    println!("{named} of {tried} flips were named");
    assert!(named > 50, "{named} of {tried}");
}

#[test]
fn a_database_that_is_cut_is_refused_and_named() {
    let place = full();
    let bytes = fs::read(place.root().join("domain.db")).unwrap();
    for len in (1..bytes.len())
        .step_by(1013)
        .chain([99, 100, 4096, bytes.len() - 1])
    {
        let root = domain_of(&place, &[("domain.db", &bytes[..len])]);
        let error = Journal::open(&root, &OpenOptions::default()).unwrap_err();
        assert!(
            matches!(&error, OpenError::File(FileError::Truncated { len: found, .. }) if *found == len as u64),
            "{len}: {error:?}"
        );
        assert_eq!(fs::read(root.join("domain.db")).unwrap(), &bytes[..len]);
        assert!(matches!(look(&root), Look::Named(_)));
    }
}

/// An owner that meets damage in the middle of its work says what it is and what to do.
#[test]
fn an_owner_that_meets_damage_names_the_doctor() {
    let place = full();
    let mut bytes = fs::read(place.root().join("domain.db")).unwrap();
    // Every page but the first: whatever it touches is broken.
    for page in bytes.chunks_mut(4096).skip(1) {
        page[0] = 0xFF;
    }
    let root = domain_of(&place, &[("domain.db", &bytes)]);
    let error = Journal::open(&root, &OpenOptions::default()).unwrap_err();
    let OpenError::Storage(error) = error else {
        panic!("{error:?}")
    };
    assert_eq!(error.fault, Fault::Corrupt);
    assert!(
        error.to_string().contains("xioflow doctor --domain DIR"),
        "{error}"
    );
}

/// A domain after a crash: a database without its newest changes, and the log that has them.
fn crashed() -> (Place, Vec<u8>, Vec<u8>) {
    let place = full();
    kill_at("committed", "commit_and_wait", &place.root());
    let read = |name| fs::read(place.root().join(name)).unwrap();
    let (database, log) = (read("domain.db"), read("domain.db-wal"));
    (place, database, log)
}

#[test]
#[ignore = "a child of the tests of damaged logs"]
fn commit_and_wait() {
    let journal = Journal::open(child_folder(), &OpenOptions::default()).unwrap();
    for n in 0..6 {
        let (id, lease) = (format!("late-{n}"), format!("late-lease-{n}"));
        journal
            .commit(vec![register(&id, &[lease.as_str()])])
            .unwrap();
    }
    println!("committed");
    listen();
}

/// How many of the six commits are there, with all that belongs to each, and all that came before.
fn commits_in(root: &Path) -> usize {
    let reader = Reader::open(root).unwrap();
    assert!(reader.check_integrity(|_| {}).unwrap().is_sound());
    let late = |id: &str| id.starts_with("late-");
    let operations = reader.operations(&OperationFilter::default()).unwrap();
    let many = operations.iter().filter(|o| late(&o.id)).count();
    assert_eq!(operations.len(), OPERATIONS + many);
    for n in 0..many {
        assert!(
            reader.operation(&format!("late-{n}")).unwrap().is_some(),
            "a hole before {many}"
        );
    }
    let leases = reader.leases().unwrap();
    assert_eq!(
        leases.iter().filter(|l| late(&l.operation_id)).count(),
        many
    );
    many
}

#[test]
fn a_flipped_bit_in_the_header_of_the_log_is_refused() {
    let (place, database, log) = crashed();
    for at in 0..32 {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at % 8);
        let root = domain_of(
            &place,
            &[("domain.db", &database), ("domain.db-wal", &flipped)],
        );
        let read = Reader::open(&root);
        assert!(
            matches!(&read, Err(ReadError::File(FileError::DamagedLog { .. }))),
            "{at}: {read:?}"
        );
    }
}

/// By SQLite's rules a frame whose sum is wrong was never committed, and neither is anything after it.
/// So damage there costs commits from some moment on, and never a part of one.
#[test]
fn a_flipped_bit_in_the_log_costs_commits_from_there_on_and_nothing_before() {
    let (place, database, log) = crashed();
    let mut least = usize::MAX;
    let mut before = 0;
    // Behind the header, damage in which is refused.
    for at in (32..log.len()).step_by(487) {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at % 8);
        let root = domain_of(
            &place,
            &[("domain.db", &database), ("domain.db-wal", &flipped)],
        );
        let many = commits_in(&root);
        assert!(
            many >= before,
            "damage at {at} costs more than earlier damage"
        );
        before = many;
        least = least.min(many);
        assert_eq!(fs::read(root.join("domain.db")).unwrap(), database);
    }
    assert_eq!(least, 0, "the beginning of the log was met");
    assert!(before >= 5, "and its end: {before}");
}

#[test]
fn a_log_that_is_cut_keeps_what_is_whole() {
    let (place, database, log) = crashed();
    let mut before = 0;
    for len in (0..=log.len()).step_by(1021).chain([log.len()]) {
        let root = domain_of(
            &place,
            &[("domain.db", &database), ("domain.db-wal", &log[..len])],
        );
        let many = commits_in(&root);
        assert!(many >= before, "cut at {len}");
        before = many;
    }
    assert_eq!(before, 6);
}

/// Rows that no owner writes, put there behind the rules' back.
#[test]
fn rows_that_break_a_rule_are_found() {
    use IntegrityStep::{Events, Leases, Operations, Owner, References, Runs};
    let place = full();
    let whole = fs::read(place.root().join("domain.db")).unwrap();
    for (step, expected, sql) in [
        (
            Owner,
            "2 owner rows",
            "INSERT INTO owners (domain_id, owner_id, epoch, pid, hostname, acquired_at_ms) VALUES ('x', 'x', 1, 1, 'x', 1)",
        ),
        (
            Operations,
            "has no result",
            "UPDATE operations SET result_json = NULL WHERE id = 'operation-0'",
        ),
        (
            Operations,
            "is damaged",
            "UPDATE operations SET result_json = '{' WHERE id = 'operation-0'",
        ),
        (
            Operations,
            "is damaged",
            "UPDATE operations SET holder_json = 'x' WHERE id = 'operation-0'",
        ),
        (
            Operations,
            "is damaged",
            "UPDATE operations SET adjudication_json = '{' WHERE id = 'operation-2'",
        ),
        (
            Operations,
            "is listed as having files",
            "UPDATE operations SET has_files = 1 WHERE id = 'operation-0'",
        ),
        (
            Operations,
            "is not listed",
            "INSERT INTO operation_outputs (operation_id, stream, total_bytes, artifact) VALUES ('operation-0', 'stdout', 1, 'file')",
        ),
        (
            Operations,
            "has output and no result",
            "INSERT INTO operation_outputs (operation_id, stream, total_bytes) VALUES ('operation-3', 'stdout', 1)",
        ),
        (
            Runs,
            "has succeeded",
            "UPDATE runs SET status = 'succeeded' WHERE id = 'r'",
        ),
        (
            Runs,
            "is damaged",
            "UPDATE runs SET config_json = '' WHERE id = 'r'",
        ),
        (
            Leases,
            "whose end is known",
            "INSERT INTO resource_leases VALUES ('x', 'operation-0', 1)",
        ),
        (
            Leases,
            "whose end is known",
            "INSERT INTO resource_leases VALUES ('x', 'operation-2', 1)",
        ),
        (
            References,
            "that is not there",
            "INSERT INTO resource_leases VALUES ('x', 'nobody', 1)",
        ),
        (
            Events,
            "2 results",
            "INSERT INTO journal_events (operation_id, type, payload_json, timestamp_ms) VALUES ('operation-0', 'OPERATION_RESULT_RECORDED', '{}', 1)",
        ),
        (
            Events,
            "beyond the last position",
            "UPDATE sqlite_sequence SET seq = 3",
        ),
        (
            Events,
            "is damaged",
            "INSERT INTO journal_events (type, payload_json, timestamp_ms) VALUES ('X', '{', 1)",
        ),
    ] {
        let root = domain_of(&place, &[("domain.db", &whole)]);
        let behind = Connection::open(root.join("domain.db")).unwrap();
        behind
            .execute_batch("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
            .unwrap();
        behind.execute_batch(sql).unwrap();
        behind.close().unwrap();
        let reader = Reader::open(&root).unwrap();
        let report = reader.check_integrity(|_| {}).unwrap();
        let found = report
            .problems
            .iter()
            .any(|p| p.found_in == step && p.what.contains(expected));
        assert!(found, "{sql}: {report:?}");
    }
}

#[test]
fn a_flood_of_problems_is_cut() {
    let place = full();
    let behind = Connection::open(place.root().join("domain.db")).unwrap();
    let many = "PRAGMA foreign_keys = OFF; WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300)
        INSERT INTO resource_leases SELECT 'x' || x, 'operation-0', 1 FROM n";
    behind.execute_batch(many).unwrap();
    let report = place.open().check_integrity(|_| {}).unwrap();
    assert!(report.is_cut);
    assert_eq!(report.problems.len(), 100);
}
