//! The one transaction in which an opening takes a domain: the schema is brought up to date, a copy
//! is noticed, the next epoch is taken. `open` has done all before it that can refuse.

use rusqlite::{Connection, Transaction, TransactionBehavior, ffi};
use xioflow_killpoint as killpoint;

use crate::error::StorageError;
use crate::events::{self, Fact};
use crate::folder::DomainDir;
use crate::lock::{DomainLock, LockNote};
use crate::model::{Owner, OwnerRole};
use crate::open::{OpenError, OpenOptions};
use crate::origin::{self, FileIdentity, OpenedAs};
use crate::owner::{self, Claim, DEFAULT_DOMAIN_ID};
use crate::{clock, connection, schema};

/// The database as it was found.
pub(crate) struct Found {
    pub(crate) version: u32,
    pub(crate) is_new: bool,
    /// Whether a log that can be read lay beside it.
    pub(crate) has_log: bool,
    pub(crate) file: FileIdentity,
}

/// The domain as it was taken.
pub(crate) struct Taken {
    pub(crate) claim: Claim,
    pub(crate) opened_as: OpenedAs,
    pub(crate) is_log_missing: bool,
}

/// Brings the schema up to date and takes the next epoch, in one transaction. The note comes
/// before the commit, so that the commit is the last step that can fail.
pub(crate) fn claim(
    dir: &DomainDir,
    writer: &Connection,
    found: &Found,
    lock: &DomainLock,
    options: &OpenOptions,
) -> Result<Taken, OpenError> {
    let database = dir.database();
    let context = || StorageError::context(&database, "write");
    if found.version == schema::SCHEMA_VERSION {
        connection::relax_commits(writer).map_err(context())?;
    }
    let transaction =
        Transaction::new_unchecked(writer, TransactionBehavior::Immediate).map_err(context())?;
    schema::migrate(&transaction, found.version).map_err(context())?;
    killpoint::pass(|| "claim:migrated");
    let known = owner::name(&transaction).map_err(context())?;
    let domain_id = choose_name(dir, known, options.domain_id.as_deref())?;
    let taken = take(&transaction, &domain_id, found).map_err(context())?;
    lock.write_note(&note(&taken.claim, options.role))
        .map_err(StorageError::context(&dir.lock(), "write"))?;
    killpoint::pass(|| "claim:before-commit");
    transaction.commit().map_err(|e| {
        // The note speaks of an owner that never was. If it stays, it misleads people only.
        drop(lock.clear_note());
        context()(e)
    })?;
    killpoint::pass(|| "claim:after-commit");
    connection::require_durable_commits(writer).map_err(context())?;
    Ok(taken)
}

/// Takes the domain, and remembers what of its record another file's owners wrote.
fn take(transaction: &Transaction<'_>, domain_id: &str, found: &Found) -> rusqlite::Result<Taken> {
    let now_ms = clock::now_ms();
    let before = owner::read(transaction)?.map(|claim| claim.owner);
    let opened_as = if found.is_new {
        OpenedAs::New
    } else {
        origin::compare(owner::file(transaction)?, found.file)
    };
    let is_copy = opened_as == OpenedAs::Copy;
    // Without an owner's row it has never been opened, or is the older half of a copy.
    if is_copy || (before.is_none() && !found.is_new) {
        refuse_torn(transaction)?;
    }
    let is_log_missing = !is_copy && !found.has_log && before.as_ref().is_some_and(is_unreleased);
    let fact = match &before {
        Some(of) if is_copy => Some(Fact::DomainCopied { of }),
        Some(of) if is_log_missing => Some(Fact::DomainLogMissing { of }),
        _ => None,
    };
    if let Some(fact) = fact {
        events::append_of_domain(transaction, &fact, now_ms)?;
    }
    owner::mark_inherited(transaction, opened_as)?;
    let claim = owner::take(transaction, domain_id, found.file, now_ms)?;
    Ok(Taken {
        claim,
        opened_as,
        is_log_missing,
    })
}

/// An owner that did not leave in order has left a log, and this row came from the database alone.
fn is_unreleased(owner: &Owner) -> bool {
    owner.released_at_ms.is_none()
}

/// Copying a domain while its owner writes can take the database and its log from two moments. SQLite
/// sees nothing wrong in that before it meets the pages, so a copy is read once, all of it.
fn refuse_torn(connection: &Connection) -> rusqlite::Result<()> {
    let said: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if said == "ok" {
        return Ok(());
    }
    let corrupt = ffi::Error::new(ffi::SQLITE_CORRUPT);
    let why = format!("this copy was taken while its original was written to: {said}");
    Err(rusqlite::Error::SqliteFailure(corrupt, Some(why)))
}

pub(crate) fn choose_name(
    dir: &DomainDir,
    known: Option<String>,
    asked: Option<&str>,
) -> Result<String, OpenError> {
    match (known, asked) {
        (Some(found), Some(asked)) if found != asked => Err(OpenError::OtherDomain {
            path: dir.root().to_owned(),
            found,
            asked: asked.to_owned(),
        }),
        (Some(found), _) => Ok(found),
        (None, asked) => Ok(asked.unwrap_or(DEFAULT_DOMAIN_ID).to_owned()),
    }
}

fn note(claim: &Claim, role: OwnerRole) -> LockNote {
    LockNote {
        domain_id: claim.domain_id.clone(),
        owner_pid: claim.owner.pid,
        acquired_at: clock::rfc3339(claim.owner.acquired_at_ms),
        hostname: claim.owner.hostname.clone(),
        role: Some(role),
    }
}
