//! The owner row: a second line of defence behind the lock. Each opening gets a higher epoch;
//! each batch checks that the row still names this opening.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::model::Owner;
use crate::origin::{FileIdentity, OpenedAs};

/// The name of a domain whose creator gave none.
pub(crate) const DEFAULT_DOMAIN_ID: &str = "default";

/// The row as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) domain_id: String,
    pub(crate) owner: Owner,
    /// Who had the domain before, as the row was found; only known to the claim that replaced it.
    pub(crate) before: Option<Owner>,
}

/// Reads the owner row; `None` before the first opening is complete.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Option<Claim>> {
    let sql = "SELECT domain_id, owner_id, epoch, pid, hostname, acquired_at_ms, released_at_ms FROM owners";
    connection
        .prepare_cached(sql)?
        .query_row([], claim)
        .optional()
}

fn claim(row: &Row<'_>) -> rusqlite::Result<Claim> {
    Ok(Claim {
        domain_id: row.get(0)?,
        owner: Owner {
            owner_id: row.get(1)?,
            epoch: row.get(2)?,
            pid: row.get(3)?,
            hostname: row.get(4)?,
            acquired_at_ms: row.get(5)?,
            released_at_ms: row.get(6)?,
        },
        before: None,
    })
}

/// The name of the domain, whatever the version of its schema.
pub(crate) fn name(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection
        .query_row("SELECT domain_id FROM owners", [], |row| row.get(0))
        .optional()
}

/// The database's file as the last owner recorded it.
pub(crate) fn file(connection: &Connection) -> rusqlite::Result<Option<FileIdentity>> {
    let sql = "SELECT file_device, file_inode, file_born_ns FROM owners
               WHERE file_device IS NOT NULL AND file_inode IS NOT NULL";
    let file = |row: &Row<'_>| {
        Ok(FileIdentity {
            device: row.get::<_, i64>(0)?.cast_unsigned(),
            inode: row.get::<_, i64>(1)?.cast_unsigned(),
            born_ns: row.get(2)?,
        })
    };
    connection.query_row(sql, [], file).optional()
}

/// Writes a new claim over the one before, with the next epoch. The caller holds the lock and
/// has a write transaction open.
pub(crate) fn take(
    connection: &Connection,
    domain_id: &str,
    file: FileIdentity,
    now_ms: i64,
) -> rusqlite::Result<Claim> {
    let before = read(connection)?.map(|claim| claim.owner);
    let epoch = before.as_ref().map_or(0, |owner| owner.epoch) + 1;
    let claim = Claim {
        domain_id: domain_id.to_owned(),
        owner: myself(epoch, now_ms),
        before,
    };
    let owner = &claim.owner;
    connection.execute(
        "INSERT INTO owners (domain_id, owner_id, epoch, pid, hostname, acquired_at_ms, released_at_ms,
                             file_device, file_inode, file_born_ns)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8, ?9)
         ON CONFLICT (domain_id) DO UPDATE SET
            owner_id = excluded.owner_id, epoch = excluded.epoch, pid = excluded.pid,
            hostname = excluded.hostname, acquired_at_ms = excluded.acquired_at_ms, released_at_ms = NULL,
            file_device = excluded.file_device, file_inode = excluded.file_inode,
            file_born_ns = excluded.file_born_ns",
        params![
            claim.domain_id, owner.owner_id, owner.epoch, owner.pid, owner.hostname, owner.acquired_at_ms,
            file.device.cast_signed(), file.inode.cast_signed(), file.born_ns
        ],
    )?;
    Ok(claim)
}

/// Marks what is recorded so far as the original's, or as written before the device had this
/// number. The marks outlive the opening that noticed it: the next one finds its own file.
pub(crate) fn mark_inherited(connection: &Connection, opened_as: OpenedAs) -> rusqlite::Result<()> {
    let column = match opened_as {
        OpenedAs::Copy => "copied_through",
        OpenedAs::Renumbered => "renumbered_through",
        OpenedAs::New | OpenedAs::Same | OpenedAs::Unrecorded => return Ok(()),
    };
    let sql =
        format!("UPDATE owners SET {column} = (SELECT coalesce(max(ordinal), 0) FROM operations)");
    connection.execute(&sql, [])?;
    Ok(())
}

/// Marks the row released, if it is still `owner`'s.
pub(crate) fn release(connection: &Connection, owner: &Owner, now_ms: i64) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE owners SET released_at_ms = ?1 WHERE owner_id = ?2 AND epoch = ?3",
        params![now_ms, owner.owner_id, owner.epoch],
    )?;
    Ok(())
}

/// The epoch in the id keeps two openings of one process in one millisecond apart.
fn myself(epoch: i64, now_ms: i64) -> Owner {
    let pid = std::process::id();
    Owner {
        owner_id: format!("owner-{pid}-{now_ms}-{epoch}"),
        epoch,
        pid,
        hostname: hostname(),
        acquired_at_ms: now_ms,
        released_at_ms: None,
    }
}

/// The name of this host, for people.
pub(crate) fn hostname() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}
