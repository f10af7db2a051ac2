//! The versions of the schema and the way from each to the next. The SQL is in `migrations/`,
//! one file for each version; a published file never changes.

use rusqlite::Connection;

/// Marks a database as ours: the bytes of "XFLW".
pub const APPLICATION_ID: u32 = u32::from_be_bytes(*b"XFLW");

/// The newest schema that this release knows.
pub const SCHEMA_VERSION: u32 = 4;

/// The first version whose outputs have lines and gaps.
pub(crate) const OUTPUT_GAPS_SINCE: u32 = 2;

/// The first version that has the order of outputs.
pub(crate) const OUTPUT_ORDER_SINCE: u32 = 3;

/// The first version that has adjudications, pruned outputs and the file of the owner.
pub(crate) const ADJUDICATIONS_SINCE: u32 = 4;

/// `MIGRATIONS[n]` leads from version n to n + 1.
const MIGRATIONS: [&str; SCHEMA_VERSION as usize] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_output_gaps.sql"),
    include_str!("migrations/0003_output_order.sql"),
    include_str!("migrations/0004_adjudication_and_pruning.sql"),
];

/// Brings an open database from `version` to the newest, inside the caller's transaction.
pub(crate) fn migrate(connection: &Connection, version: u32) -> rusqlite::Result<()> {
    let done = MIGRATIONS.len().min(version as usize);
    for step in &MIGRATIONS[done..] {
        connection.execute_batch(step)?;
    }
    if done < MIGRATIONS.len() {
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    Ok(())
}

/// Makes an empty database ours and brings it to the newest version.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    migrate(connection, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        OperationKind, OperationStatus, Outcome, RunStatus, Stream, TerminationReason,
    };

    fn fresh() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        create(&connection).unwrap();
        connection
    }

    #[test]
    fn a_new_database_is_ours_and_current() {
        let connection = fresh();
        let pragma = |name| {
            connection
                .pragma_query_value(None, name, |r| r.get::<_, u32>(0))
                .unwrap()
        };
        assert_eq!(pragma("application_id"), 0x5846_4C57);
        assert_eq!(pragma("user_version"), SCHEMA_VERSION);
    }

    #[test]
    fn migrating_a_current_database_does_nothing() {
        let connection = fresh();
        migrate(&connection, SCHEMA_VERSION).unwrap();
    }

    /// A name added to the model must be added to the schema, by a migration.
    #[test]
    fn the_checks_know_every_name_of_the_model() {
        let sql = MIGRATIONS.concat();
        let mut names: Vec<&str> = Vec::new();
        names.extend(RunStatus::ALL.iter().map(|n| n.as_str()));
        names.extend(OperationKind::ALL.iter().map(|n| n.as_str()));
        names.extend(OperationStatus::ALL.iter().map(|n| n.as_str()));
        names.extend(Outcome::ALL.iter().map(|n| n.as_str()));
        names.extend(TerminationReason::ALL.iter().map(|n| n.as_str()));
        names.extend(Stream::ALL.iter().map(|n| n.as_str()));
        for name in names {
            assert!(sql.contains(&format!("'{name}'")), "{name} is missing");
        }
    }
}
