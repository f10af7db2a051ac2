//! Making a new database so that a crash leaves either none or a whole one: it is built under
//! another name, written to disk, and renamed. The caller holds the domain's lock.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use xioflow_killpoint as killpoint;

use crate::connection;
use crate::error::{Cause, StorageError};
use crate::folder::{DomainDir, Made, open_private, sync_folder};
use crate::schema;

/// Puts an empty database of the newest version at its place.
pub(crate) fn database(dir: &DomainDir, made: &mut Made) -> Result<(), StorageError> {
    let draft = dir.beside_database(".new");
    remove_draft(&draft)?;
    let result = build(&draft).and_then(|()| publish(dir, &draft, made));
    result.map_err(|cause| {
        let error = StorageError::new(&draft, "create", cause);
        // The first error is the one to tell; what is left of the draft is removed next time.
        drop(remove_draft(&draft));
        error
    })
}

fn build(draft: &Path) -> Result<(), Cause> {
    let (file, _) = open_private(draft)?;
    let connection = connection::open_for_draft(draft)?;
    let transaction = rusqlite::Transaction::new_unchecked(
        &connection,
        rusqlite::TransactionBehavior::Immediate,
    )?;
    schema::create(&transaction)?;
    killpoint::pass(|| "create:before-commit");
    transaction.commit()?;
    killpoint::pass(|| "create:after-commit");
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection::checkpoint_on_close(&connection)?;
    connection.close().map_err(|(_, e)| e)?;
    file.sync_all()?;
    killpoint::pass(|| "create:draft-synced");
    Ok(())
}

fn publish(dir: &DomainDir, draft: &Path, made: &mut Made) -> Result<(), Cause> {
    fs::rename(draft, dir.database())?;
    killpoint::pass(|| "create:renamed");
    // Undone in reverse order: the log goes before the database that it belongs to.
    for suffix in ["", "-shm", "-wal"] {
        made.add(dir.beside_database(suffix));
    }
    Ok(sync_folder(dir.root())?)
}

/// Removes what a crash left of an earlier draft.
pub(crate) fn remove_draft(draft: &Path) -> Result<(), StorageError> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = draft.as_os_str().to_owned();
        name.push(suffix);
        let path = PathBuf::from(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(StorageError::new(&path, "remove", e));
            }
            _ => {}
        }
    }
    Ok(())
}
