//! The one transaction in which an opening takes a domain: the schema is brought up to date, a copy
//! is noticed, the next epoch is taken. `open` has done all before it that can refuse.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use xioflow_killpoint as killpoint;

use crate::error::StorageError;
use crate::events::{self, Fact};
use crate::folder::DomainDir;
use crate::lock::{DomainLock, LockNote};
use crate::model::OwnerRole;
use crate::open::{OpenError, OpenOptions};
use crate::origin::{self, FileIdentity, OpenedAs};
use crate::owner::{self, Claim, DEFAULT_DOMAIN_ID};
use crate::{clock, connection, schema};

/// The database as it was found.
pub(crate) struct Found {
    pub(crate) version: u32,
    pub(crate) is_new: bool,
    pub(crate) file: FileIdentity,
}

/// Brings the schema up to date and takes the next epoch, in one transaction. The note comes
/// before the commit, so that the commit is the last step that can fail.
pub(crate) fn claim(
    dir: &DomainDir,
    writer: &Connection,
    found: &Found,
    lock: &DomainLock,
    options: &OpenOptions,
) -> Result<(Claim, OpenedAs), OpenError> {
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
    let (claim, opened_as) = take(&transaction, &domain_id, found).map_err(context())?;
    lock.write_note(&note(&claim, options.role))
        .map_err(StorageError::context(&dir.lock(), "write"))?;
    killpoint::pass(|| "claim:before-commit");
    transaction.commit().map_err(|e| {
        // The note speaks of an owner that never was. If it stays, it misleads people only.
        drop(lock.clear_note());
        context()(e)
    })?;
    killpoint::pass(|| "claim:after-commit");
    connection::require_durable_commits(writer).map_err(context())?;
    Ok((claim, opened_as))
}

/// Takes the domain, and remembers what of its record another file's owners wrote.
fn take(
    transaction: &Transaction<'_>,
    domain_id: &str,
    found: &Found,
) -> rusqlite::Result<(Claim, OpenedAs)> {
    let now_ms = clock::now_ms();
    let opened_as = if found.is_new {
        OpenedAs::New
    } else {
        origin::compare(owner::file(transaction)?, found.file)
    };
    if opened_as == OpenedAs::Copy
        && let Some(original) = owner::read(transaction)?
    {
        events::append_of_domain(
            transaction,
            &Fact::DomainCopied {
                of: &original.owner,
            },
            now_ms,
        )?;
    }
    owner::mark_inherited(transaction, opened_as)?;
    let claim = owner::take(transaction, domain_id, found.file, now_ms)?;
    Ok((claim, opened_as))
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
