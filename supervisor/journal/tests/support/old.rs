//! Domains as earlier releases left them.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of this"
)]

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use xioflow_journal::APPLICATION_ID;

use super::Place;

const VERSIONS: [&str; 3] = [
    include_str!("../../src/migrations/0001_first.sql"),
    include_str!("../../src/migrations/0002_output_gaps.sql"),
    include_str!("../../src/migrations/0003_output_order.sql"),
];

/// One finished operation with both kinds of output, in columns that every version has.
const ROWS: &str = "
    INSERT INTO owners (domain_id, owner_id, epoch, pid, hostname, acquired_at_ms, released_at_ms)
        VALUES ('default', 'old', 7, 1, 'host', 1, 2);
    INSERT INTO tasks VALUES ('t', 'task', 1, 'null');
    INSERT INTO runs VALUES (1, 'r', 't', 'me', 'succeeded', 'completed', 1, 2, '{}');
    INSERT INTO operations (ordinal, id, run_id, kind, name, input_fingerprint, status,
            required_resources_json, mutation_roots_json, output_ref, spawn_gated, created_at_ms,
            finished_at_ms, outcome, result_json)
        VALUES (1, 'o', 'r', 'process', 'build', 'f', 'done', '[]', '[]', 'o-stderr.log', 1, 1, 2,
            'succeeded', '{}');
    INSERT INTO operation_outputs (operation_id, stream, total_bytes, sha256, artifact, content, spill_error)
        VALUES ('o', 'stdout', 3, 'ab', NULL, X'00FF0A', NULL),
               ('o', 'stderr', 99999, 'cd', 'o-stderr.log', NULL, 'full');
    INSERT INTO journal_events VALUES (5, 'r', 'o', 'OPERATION_RESULT_RECORDED', '{}', 2);";

/// A closed domain of this version.
pub fn domain(version: u32) -> Place {
    let place = Place::new();
    fs::create_dir(place.root()).unwrap();
    let connection = Connection::open(place.root().join("domain.db")).unwrap();
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .unwrap();
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .unwrap();
    for step in &VERSIONS[..version as usize] {
        connection.execute_batch(step).unwrap();
    }
    connection
        .pragma_update(None, "user_version", version)
        .unwrap();
    connection.execute_batch(ROWS).unwrap();
    connection.close().unwrap();
    place
}

/// The version of a database that nobody has open, after checking that it is whole and has its rows.
pub fn version_of(database: &Path) -> u32 {
    let connection = Connection::open(database).unwrap();
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok", "{}", database.display());
    for (table, rows) in [
        ("operations", 1),
        ("operation_outputs", 2),
        ("tasks", 1),
        ("runs", 1),
    ] {
        let sql = format!("SELECT count(*) FROM {table}");
        let found: i64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(found, rows, "{table} of {}", database.display());
    }
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}
