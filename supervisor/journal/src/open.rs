//! Opening a domain as its owner: one script whose order is the guarantee. Everything that can
//! refuse comes before anything is written, and a failure takes back what was made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use xioflow_killpoint as killpoint;

use crate::claim::{Found, choose_name, claim};
use crate::connection;
use crate::error::{Fault, StorageError};
use crate::filesystem::shared_between_hosts;
use crate::folder::{DomainDir, Made};
use crate::footing::{Footing, is_readable_log};
use crate::header::{FileError, Header};
use crate::journal::{Journal, Parts};
use crate::lock::{DomainLock, LockError, LockNote};
use crate::main_file::MainFile;
use crate::model::OwnerRole;
use crate::{backup, create, log_header, owner, schema};

/// How often the folder may vanish between making it and locking it. Each time another opening
/// has failed and removed what it had made; more than a few means something else removes it.
const FOLDER_ATTEMPTS_MAX: u32 = 16;

/// How to open a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// How long to wait for another owner to leave. Zero: not at all.
    pub wait: Duration,
    /// The name of the domain. `None` takes the name that it has; a new one becomes `default`.
    pub domain_id: Option<String>,
    /// For whom the domain is owned. It only says so to others.
    pub role: OwnerRole,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            wait: Duration::ZERO,
            domain_id: None,
            role: OwnerRole::Embedded,
        }
    }
}

/// Why a domain could not be opened. Nothing was changed and no lock is left behind.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another owner has it, in this process or another.
    #[error("{} is in use{}; wait for it, or ask its owner", path.display(), describe(owner.as_ref()))]
    Owned {
        /// The domain's folder.
        path: PathBuf,
        /// What that owner says of itself, if it could be read.
        owner: Option<LockNote>,
    },
    /// The folder belongs to another user, whose files would mix with ours.
    #[error("{} belongs to user {owner_uid}, not to {our_uid}; run as that user, or choose another folder", path.display())]
    WrongOwner {
        /// The domain's folder.
        path: PathBuf,
        /// Whose it is.
        owner_uid: u32,
        /// Who asked.
        our_uid: u32,
    },
    /// The folder is on a file system that several hosts can have mounted.
    #[error(
        "{} is on {name}, where neither locks nor the database's shared memory reach from one host to another; put the domain on a local disk (--domain DIR, XIOFLOW_DOMAIN)",
        path.display()
    )]
    SharedBetweenHosts {
        /// The domain's folder.
        path: PathBuf,
        /// The name of the file system.
        name: &'static str,
    },
    /// It is a domain of another name.
    #[error("{} is the domain {found:?}, not {asked:?}; choose another folder or leave the name out", path.display())]
    OtherDomain {
        /// The domain's folder.
        path: PathBuf,
        /// The name it has.
        found: String,
        /// The name that was asked for.
        asked: String,
    },
    /// The database has to be brought up to date, and the copy of it that comes before that cannot
    /// be made. The database is as it was.
    #[error(
        "the domain in {} has schema version {version} and is not brought up to date, because its backup failed; an older xioflow can still use it",
        path.display()
    )]
    Backup {
        /// The domain's folder.
        path: PathBuf,
        /// The version of its schema.
        version: u32,
        /// What kept the backup from being made.
        source: Box<StorageError>,
    },
    /// The file at the place of the database is not one that this release can use.
    #[error(transparent)]
    File(#[from] FileError),
    /// The storage underneath refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn describe(owner: Option<&LockNote>) -> String {
    owner.map_or_else(String::new, |note| {
        format!(
            " by {} {} on {} since {}",
            match note.role {
                Some(OwnerRole::Arbiter) => "its arbiter, process",
                Some(OwnerRole::Embedded) | None => "process",
            },
            note.owner_pid,
            note.hostname,
            note.acquired_at
        )
    })
}

/// What may be taken back. The fields are dropped in this order: things are removed while the
/// lock still keeps others out.
struct Opening {
    made: Made,
    lock: DomainLock,
}

pub(crate) fn open(root: &Path, options: &OpenOptions) -> Result<Journal, OpenError> {
    let dir = DomainDir::new(root).map_err(StorageError::context(root, "find the folder"))?;
    let mut opening = lock_folder(&dir, options.wait)?;
    killpoint::pass(|| "open:locked");
    let database = dir.database();
    let is_new = is_new(&dir)?;
    dir.make_contents(&mut opening.made)?;
    killpoint::pass(|| "open:folders-made");
    if is_new {
        create::database(&dir, &mut opening.made)?;
    }
    let main = MainFile::open(&database).map_err(StorageError::context(&database, "open"))?;
    // SQLite makes a log where there is none.
    let has_log = is_readable_log(&dir.log()).map_err(StorageError::context(&dir.log(), "read"))?;
    let (writer, version) = open_writer(&database)?;
    if version < schema::SCHEMA_VERSION {
        check_name(&dir, &writer, options)?;
        back_up(&dir, &writer, version, &mut opening.made)?;
    }
    let found = Found {
        version,
        is_new,
        has_log,
        file: main
            .identity()
            .map_err(StorageError::context(&database, "examine"))?,
    };
    let taken = claim(&dir, &writer, &found, &opening.lock, options)?;
    let footing = Footing::new(&dir, opening.lock, main.id())?;
    opening.made.keep();
    Ok(Journal::new(Parts {
        writer,
        main,
        taken,
        dir,
        footing,
    }))
}

/// Makes the folder and locks it.
fn lock_folder(dir: &DomainDir, wait: Duration) -> Result<Opening, OpenError> {
    let mut attempt = 1;
    loop {
        let mut made = Made::default();
        dir.make_root(&mut made)?;
        killpoint::pass(|| "open:root-made");
        check_folder(dir)?;
        match DomainLock::acquire(&dir.lock(), wait) {
            Ok(lock) => {
                if lock.is_new() {
                    made.add(dir.lock());
                }
                return Ok(Opening { made, lock });
            }
            Err(LockError::Held(owner)) => {
                return Err(OpenError::Owned {
                    path: dir.root().to_owned(),
                    owner,
                });
            }
            Err(LockError::Storage(_)) if !dir.root().exists() && attempt < FOLDER_ATTEMPTS_MAX => {
                attempt += 1
            }
            Err(LockError::Storage(error)) => return Err(error.into()),
        }
    }
}

/// Refuses a folder that is another user's, or that nothing can be written in: SQLite would
/// notice only later, and say less.
fn check_folder(dir: &DomainDir) -> Result<(), OpenError> {
    let (owner_uid, our_uid) = (dir.owner_uid()?, rustix::process::geteuid().as_raw());
    if owner_uid != our_uid {
        return Err(OpenError::WrongOwner {
            path: dir.root().to_owned(),
            owner_uid,
            our_uid,
        });
    }
    let system =
        rustix::fs::statfs(dir.root()).map_err(StorageError::context(dir.root(), "examine"))?;
    #[allow(
        clippy::useless_conversion,
        reason = "it is narrower on other architectures"
    )]
    if let Some(name) = shared_between_hosts(system.f_type.into()) {
        return Err(OpenError::SharedBetweenHosts {
            path: dir.root().to_owned(),
            name,
        });
    }
    let asked = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, dir.root(), asked, AtFlags::EACCESS)
        .map_err(StorageError::context(dir.root(), "write in"))?;
    Ok(())
}

/// Looks at the database file without SQLite. `true`: there is none yet.
fn is_new(dir: &DomainDir) -> Result<bool, OpenError> {
    let found = look(dir).map_err(StorageError::context(&dir.database(), "read"))?;
    match found {
        // An empty one is no new one: we make none, so its content was lost, and with it all that ran.
        Some((bytes, len)) => {
            if len == 0 {
                refuse_stray_logs(dir)?;
            }
            let has_log = has_content(&dir.log())?;
            Header {
                path: &dir.database(),
                bytes: &bytes,
                len,
                has_log,
            }
            .check()?;
            log_header::check(&dir.log())?;
            Ok(false)
        }
        None => refuse_stray_logs(dir).map(|()| true),
    }
}

/// The first bytes of the database file and its length; `None` without a file.
fn look(dir: &DomainDir) -> io::Result<Option<(Vec<u8>, u64)>> {
    match MainFile::open(&dir.database()) {
        Ok(file) => file.read_header().map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// SQLite would play a log back into whatever database appears beside it.
fn refuse_stray_logs(dir: &DomainDir) -> Result<(), OpenError> {
    for path in [dir.log(), dir.beside_database("-journal")] {
        if has_content(&path)? {
            return Err(FileError::StrayLog { path }.into());
        }
    }
    Ok(())
}

pub(crate) fn has_content(path: &Path) -> Result<bool, StorageError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len() > 0),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StorageError::new(path, "examine", e)),
    }
}

/// Refuses a domain of another name before a backup of it is made.
fn check_name(
    dir: &DomainDir,
    writer: &Connection,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    let known = owner::name(writer).map_err(StorageError::context(&dir.database(), "read"))?;
    choose_name(dir, known, options.domain_id.as_deref()).map(drop)
}

fn back_up(
    dir: &DomainDir,
    writer: &Connection,
    version: u32,
    made: &mut Made,
) -> Result<(), OpenError> {
    backup::make(dir, writer, version, made).map_err(|source| OpenError::Backup {
        path: dir.root().to_owned(),
        version,
        source: Box::new(source),
    })
}

/// Opens the database and asks SQLite who it is, before the first write.
fn open_writer(database: &Path) -> Result<(Connection, u32), OpenError> {
    let context = || StorageError::context(database, "open");
    let writer = connection::open_for_owner(database).map_err(context())?;
    let version = connection::identity(&writer, database).map_err(context())??;
    if !connection::set_for_writing(&writer).map_err(context())? {
        let fault = Fault::NoWriteAheadLog;
        let source = io::Error::from(io::ErrorKind::Unsupported).into();
        return Err(StorageError {
            path: database.to_owned(),
            doing: "open",
            fault,
            source,
        }
        .into());
    }
    Ok((writer, version))
}
