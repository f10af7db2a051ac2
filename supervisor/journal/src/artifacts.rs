//! Stored files by their names, for whoever goes through the folder of them. Part of `query`; files by their age
//! are in `upkeep`.

use rusqlite::Connection;

use crate::model::Output;
use crate::query::{collect, first_of, output_columns};
use crate::rows::{self, RowError};

/// The output that a file of this name holds, pruned or not. The index over the names answers it.
pub(crate) fn output_in(
    connection: &Connection,
    artifact: &str,
) -> Result<Option<Output>, RowError> {
    let columns = output_columns(connection)?;
    let sql = format!("SELECT {columns} FROM operation_outputs WHERE artifact = ?1");
    first_of(connection, &sql, [artifact], rows::output)
}

/// Operations whose results are among the newest `events` events.
pub(crate) fn settled_lately(
    connection: &Connection,
    events: u32,
) -> Result<Vec<String>, RowError> {
    let sql = "SELECT operation_id FROM journal_events
               WHERE seq > (SELECT coalesce(max(seq), 0) FROM journal_events) - ?1
                 AND type = 'OPERATION_RESULT_RECORDED' AND operation_id IS NOT NULL";
    collect(connection, sql, [events], |row| Ok(row.get(0)?))
}

/// Files that the newest `events` events say were given up.
pub(crate) fn pruned_lately(connection: &Connection, events: u32) -> Result<Vec<String>, RowError> {
    let sql = "SELECT payload_json ->> '$.artifact' FROM journal_events
               WHERE seq > (SELECT coalesce(max(seq), 0) FROM journal_events) - ?1
                 AND type = 'OUTPUT_PRUNED'";
    let names: Vec<Option<String>> = collect(connection, sql, [events], |row| Ok(row.get(0)?))?;
    Ok(names.into_iter().flatten().collect())
}
