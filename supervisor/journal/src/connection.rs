//! Opening SQLite, in the three ways that the journal needs it, and its settings.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Result};

use crate::header::{FileError, check_identity};

/// How long a statement waits for a foreign program that has the database locked.
const BUSY_TIMEOUT: Duration = Duration::from_millis(5000);

/// Room for every statement that the journal uses, so that each is compiled once.
const STATEMENTS_MAX: usize = 96;

/// Opens an existing database for its owner. Closing it leaves the log alone until
/// [`checkpoint_on_close`] says otherwise: a database that turns out not to be ours to write
/// must stay as it was.
pub(crate) fn open_for_owner(path: &Path) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_WRITE))?;
    harden(&connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// Opens a file that is thrown away if a crash cuts its making short: it needs no journal on the
/// disk and no syncs before the one at the end, which is its maker's.
pub(crate) fn open_for_draft(path: &Path) -> Result<Connection> {
    let connection = open_for_owner(path)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    Ok(connection)
}

/// Opens an existing database for reading, beside an owner or without one.
pub(crate) fn open_for_reading(path: &Path) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_ONLY))?;
    harden(&connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens a database that nobody can be changing, without looking for a log or taking a lock.
pub(crate) fn open_immutable(path: &Path) -> Result<Connection> {
    let how = flags(OpenFlags::SQLITE_OPEN_READ_ONLY) | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(immutable_uri(path), how)?;
    harden(&connection)?;
    Ok(connection)
}

/// Makes closing write the log back into the database and remove it.
pub(crate) fn checkpoint_on_close(connection: &Connection) -> Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        .map(drop)
}

/// Makes commits durable and foreign keys real.
/// Says whether the database really keeps a write-ahead log.
pub(crate) fn set_for_writing(connection: &Connection) -> Result<bool> {
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    require_durable_commits(connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(mode == "wal")
}

/// Lets the next commits return before the log is on the disk.
///
/// For the owner's row only. A claim that a power failure takes back belongs to an owner that the
/// same failure has ended, and whatever that owner committed has carried the claim to the disk
/// with it. A release is followed by the checkpoint at close, which flushes the log first.
pub(crate) fn relax_commits(connection: &Connection) -> Result<()> {
    connection.pragma_update(None, "synchronous", "NORMAL")
}

/// Makes commits durable again: each returns after fdatasync(2) of the log, and of all that
/// stands in it before.
pub(crate) fn require_durable_commits(connection: &Connection) -> Result<()> {
    connection.pragma_update(None, "synchronous", "FULL")
}

/// Asks SQLite what [`crate::header::Header::check`] asked the file: with a log beside it, the
/// header in force may be the log's.
pub(crate) fn identity(
    connection: &Connection,
    path: &Path,
) -> Result<std::result::Result<u32, FileError>> {
    let application_id: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(check_identity(
        path,
        application_id.cast_unsigned(),
        version.cast_unsigned(),
    ))
}

/// Each connection stands behind a mutex of ours, so SQLite needs none.
fn flags(access: OpenFlags) -> OpenFlags {
    access | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// The file may have passed through other hands: nothing in its schema may call functions with
/// effects, and nothing may write to SQLite's own tables.
fn harden(connection: &Connection) -> Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(())
}

/// SQLite's URI form of a path, every unusual byte escaped.
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(byte.into())
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_in_uris() {
        assert_eq!(
            immutable_uri(Path::new("/a b/100%?#.db")),
            "file:/a%20b/100%25%3F%23.db?immutable=1"
        );
    }
}
