//! Whether a database is whole: SQLite's own check, and what the rules of the record imply of its rows.
//! Part of `query`; it reads everything, and writes nothing.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Params, Row};
use serde::Serialize;

use crate::error::StorageError;
use crate::query::{ReadError, read_error, version};
use crate::rows::RowError;
use crate::schema::ADJUDICATIONS_SINCE;

/// How many problems of one kind are told. One damaged page can make thousands, and nobody reads them.
const PROBLEMS_OF_A_KIND_MAX: u32 = 100;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IntegrityReport {
    /// Nothing is in here when all is well.
    pub problems: Vec<Problem>,
    /// Whether there were more of one kind than are told.
    pub is_cut: bool,
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What was being looked at.
    pub found_in: IntegrityStep,
    /// What is wrong, as a sentence.
    pub what: String,
}

/// One step of the check, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntegrityStep {
    /// SQLite's pages, indexes and constraints.
    Pages,
    /// Rows that refer to others.
    References,
    /// The owner row.
    Owner,
    /// Operations, with their results and outputs.
    Operations,
    /// Runs.
    Runs,
    /// Leases.
    Leases,
    /// Events.
    Events,
}

/// A rule of the rows: a query for those that break it, each as a sentence.
struct Rule {
    step: IntegrityStep,
    /// Whether the columns it needs came with adjudications.
    is_recent: bool,
    sql: &'static str,
}

const fn rule(step: IntegrityStep, sql: &'static str) -> Rule {
    Rule {
        step,
        is_recent: false,
        sql,
    }
}

const fn recent(step: IntegrityStep, sql: &'static str) -> Rule {
    Rule {
        step,
        is_recent: true,
        sql,
    }
}

const RULES: &[Rule] = &[
    rule(
        IntegrityStep::Owner,
        "SELECT 'there are ' || count(*) || ' owner rows' FROM owners HAVING count(*) <> 1",
    ),
    rule(
        IntegrityStep::Operations,
        "SELECT 'operation ' || quote(id) || ' is ' || status || ' and has '
             || iif(result_json IS NULL, 'no result', 'a result') FROM operations
         WHERE (status = 'done') <> (result_json IS NOT NULL)
            OR (status = 'done') <> (outcome IS NOT NULL)",
    ),
    rule(
        IntegrityStep::Operations,
        "SELECT 'the JSON of operation ' || quote(id) || ' is damaged' FROM operations
         WHERE NOT (json_valid(required_resources_json) AND json_valid(mutation_roots_json)
            AND coalesce(json_valid(resource_budget_json), 1) AND coalesce(json_valid(process_identity_json), 1)
            AND coalesce(json_valid(holder_json), 1) AND coalesce(json_valid(result_json), 1))",
    ),
    recent(
        IntegrityStep::Operations,
        "SELECT 'the decision about operation ' || quote(id) || ' is damaged' FROM operations
         WHERE adjudication_json IS NOT NULL AND NOT json_valid(adjudication_json)",
    ),
    recent(
        IntegrityStep::Operations,
        "SELECT 'operation ' || quote(id) || ' is ' || iif(has_files, '', 'not ') || 'listed as having files'
         FROM operations o WHERE (has_files IS 1) <> EXISTS
             (SELECT 1 FROM operation_outputs x WHERE x.operation_id = o.id
              AND x.artifact IS NOT NULL AND x.pruned_at_ms IS NULL)",
    ),
    rule(
        IntegrityStep::Operations,
        "SELECT 'operation ' || quote(x.operation_id) || ' has output and no result' FROM operation_outputs x
         JOIN operations o ON o.id = x.operation_id WHERE o.status <> 'done'",
    ),
    rule(
        IntegrityStep::Runs,
        "SELECT 'Run ' || quote(r.id) || ' has succeeded and its operation ' || quote(o.id) || ' is ' || o.status
         FROM operations o JOIN runs r ON r.id = o.run_id WHERE o.status <> 'done' AND r.status = 'succeeded'",
    ),
    rule(
        IntegrityStep::Runs,
        "SELECT 'the configuration of Run ' || quote(id) || ' is damaged' FROM runs WHERE NOT json_valid(config_json)",
    ),
    recent(
        IntegrityStep::Leases,
        "SELECT 'the resource ' || quote(l.resource_id) || ' is held by operation ' || quote(o.id)
             || ', whose end is known' FROM resource_leases l JOIN operations o ON o.id = l.operation_id
         WHERE o.status = 'done' AND (o.outcome <> 'indeterminate' OR o.adjudication_json IS NOT NULL)",
    ),
    rule(
        IntegrityStep::Events,
        "SELECT 'operation ' || quote(operation_id) || ' has ' || count(*) || ' results on record' FROM journal_events
         WHERE operation_id IS NOT NULL AND type = 'OPERATION_RESULT_RECORDED'
         GROUP BY operation_id HAVING count(*) > 1",
    ),
    rule(
        IntegrityStep::Events,
        "SELECT 'event ' || max(seq) || ' is beyond the last position given out' FROM journal_events
         HAVING max(seq) > coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'journal_events'), 0)",
    ),
    rule(
        IntegrityStep::Events,
        "SELECT 'event ' || seq || ' is damaged' FROM journal_events WHERE seq < 1 OR NOT json_valid(payload_json)",
    ),
];

/// Checks everything, at one moment of the record.
pub(crate) fn check(
    connection: &Connection,
    path: &Path,
    mut progress: impl FnMut(IntegrityStep),
) -> Result<IntegrityReport, ReadError> {
    let mut report = IntegrityReport::default();
    let storage = |e| StorageError::new(path, "check", e);
    // One moment for all of it. An owner goes on meanwhile.
    let moment = connection.unchecked_transaction();
    let moment = report
        .or_damage(IntegrityStep::Pages, moment)
        .map_err(storage)?;
    let Some(moment) = moment else {
        return Ok(report);
    };
    progress(IntegrityStep::Pages);
    let pages = format!("PRAGMA integrity_check({PROBLEMS_OF_A_KIND_MAX})");
    let said = sentences(&moment, &pages, [], |row| row.get(0));
    let said = report
        .or_damage(IntegrityStep::Pages, said)
        .map_err(storage)?;
    let said = said.unwrap_or_default();
    report.add(IntegrityStep::Pages, said.into_iter().filter(|s| s != "ok"));
    progress(IntegrityStep::References);
    let said = sentences(&moment, "PRAGMA foreign_key_check", [], dangling);
    let said = report
        .or_damage(IntegrityStep::References, said)
        .map_err(storage)?;
    report.add(IntegrityStep::References, said.unwrap_or_default());
    let is_recent = match version(&moment) {
        Ok(version) => version >= ADJUDICATIONS_SINCE,
        Err(RowError::Sqlite(e)) if is_damage(&e) => return Ok(report),
        Err(e) => return Err(read_error(path, e)),
    };
    let mut now = None;
    for rule in RULES.iter().filter(|rule| is_recent || !rule.is_recent) {
        if now.replace(rule.step) != Some(rule.step) {
            progress(rule.step);
        }
        let sql = format!("{} LIMIT {PROBLEMS_OF_A_KIND_MAX}", rule.sql);
        let said = sentences(&moment, &sql, [], |row| row.get(0));
        let said = report.or_damage(rule.step, said).map_err(storage)?;
        report.add(rule.step, said.unwrap_or_default());
    }
    Ok(report)
}

impl IntegrityReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, found_in: IntegrityStep, sentences: impl IntoIterator<Item = String>) {
        let before = self.problems.len();
        let problem = |what| Problem { found_in, what };
        self.problems.extend(sentences.into_iter().map(problem));
        self.is_cut |= self.problems.len() - before >= PROBLEMS_OF_A_KIND_MAX as usize;
    }

    /// A step that met damage has found something; any other failure is one of the check.
    fn or_damage<T>(
        &mut self,
        step: IntegrityStep,
        result: rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if is_damage(&error) => {
                self.add(step, [error.to_string()]);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether an error is what damage looks like: to SQLite, to the rows' types, or in the schema itself,
/// whose tables may be unreadable by their names.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(
                failure.code,
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
            ) || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ
        }
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..) => true,
        _ => false,
    }
}

fn sentences(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<String>,
) -> rusqlite::Result<Vec<String>> {
    connection.prepare(sql)?.query_map(params, read)?.collect()
}

fn dangling(row: &Row<'_>) -> rusqlite::Result<String> {
    let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
    let at = match row.get::<_, Option<i64>>(1)? {
        Some(rowid) => format!("row {rowid} of {table}"),
        None => format!("a row of {table}"),
    };
    Ok(format!(
        "{at} refers to a row of {parent} that is not there"
    ))
}
