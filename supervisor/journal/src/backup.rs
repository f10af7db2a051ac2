//! A copy of the database before a migration: `domain.db.v<N>` holds all that the domain had in version
//! N. `open` makes it, between taking the lock and the first change.

use std::fs;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ffi};
use xioflow_killpoint as killpoint;

use crate::connection;
use crate::create::remove_draft;
use crate::error::{Cause, StorageError};
use crate::folder::{DomainDir, Made, open_private, sync_folder};

/// In one go: nobody waits for this database meanwhile.
const ALL_PAGES: i32 = -1;

/// Writes what is in the database to a file of its own, on disk when this returns. Replaces an
/// earlier backup of the same version; a crash leaves the earlier one or the new one, whole.
pub(crate) fn make(
    dir: &DomainDir,
    connection: &Connection,
    version: u32,
    made: &mut Made,
) -> Result<(), StorageError> {
    let backup = dir.backup(version);
    let draft = dir.beside_database(&format!(".v{version}.new"));
    remove_draft(&draft)?;
    let is_first = !backup.exists();
    let result = copy_into(connection, &draft).and_then(|()| publish(dir, &draft, &backup));
    result.map_err(|cause| {
        let error = StorageError::new(&draft, "write the backup", cause);
        // The first error is the one to tell; what is left of the draft is removed next time.
        drop(remove_draft(&draft));
        error
    })?;
    if is_first {
        made.add(backup);
    }
    Ok(())
}

/// Copies every page of one moment, with those that are still in the log.
fn copy_into(connection: &Connection, draft: &Path) -> Result<(), Cause> {
    // SQLite finds an empty file, which is private from its first byte.
    let (file, _) = open_private(draft)?;
    killpoint::pass(|| "backup:draft-made");
    let mut copy = connection::open_for_draft(draft)?;
    match Backup::new(connection, &mut copy)?.step(ALL_PAGES)? {
        StepResult::Done => {}
        // Nobody else has the domain, so this is a foreign program.
        _ => return Err(busy().into()),
    }
    killpoint::pass(|| "backup:written");
    copy.close().map_err(|(_, e)| e)?;
    Ok(file.sync_all()?)
}

fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)
}

fn publish(dir: &DomainDir, draft: &Path, backup: &Path) -> Result<(), Cause> {
    killpoint::pass(|| "backup:before-rename");
    fs::rename(draft, backup)?;
    killpoint::pass(|| "backup:renamed");
    Ok(sync_folder(dir.root())?)
}
