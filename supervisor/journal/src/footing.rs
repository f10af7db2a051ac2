//! Whether an owner still stands on the files that it opened: its lock, the database, the log and
//! the log's shared memory, each at its path, and the log as its owner left it. `writer` asks before
//! each batch; what follows from the answer is decided there.
//!
//! SQLite holds descriptors and looks at no path. What it writes after one of these files has lost
//! its name goes where nobody will ever read it, and it says that all is well.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::error::StorageError;
use crate::folder::{DomainDir, open_plain};
use crate::lock::{DomainLock, Standing};
use crate::log_header::LOG_HEADER_LEN;
use crate::main_file::{FileId, id_of, standing};
use crate::queue::locked;

/// What an owner stands on.
#[derive(Debug)]
pub(crate) struct Footing {
    lock: DomainLock,
    database: Named,
    shared: Named,
    log: Named,
    /// The log, for a look at its start and its length. No lock of SQLite is on this file.
    log_file: File,
    /// How the log was left. Only its owner writes to it.
    log_left: Mutex<LogState>,
}

/// A file, and the path at which it should be.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    id: FileId,
}

/// What can be seen of a log at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogState {
    len: u64,
    header: Vec<u8>,
}

/// Which of the files is not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Lock,
    Database,
    SharedMemory,
    Log,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slip {
    Gone(Part),
    Replaced(Part),
    /// The log is shorter than it was, or begins otherwise.
    LogChanged,
}

impl Footing {
    /// Takes note of the files of a domain that has just been claimed: SQLite has made them all.
    pub(crate) fn new(
        dir: &DomainDir,
        lock: DomainLock,
        database: FileId,
    ) -> Result<Self, StorageError> {
        let log = dir.log();
        let context = |path| StorageError::context(path, "examine");
        let log_file = open_plain(&log).map_err(context(&log))?;
        let log_id = id_of(&log_file.metadata().map_err(context(&log))?);
        let left = LogState::of(&log_file).map_err(context(&log))?;
        let shared = dir.beside_database("-shm");
        let shared_id = id_of(&std::fs::metadata(&shared).map_err(context(&shared))?);
        Ok(Self {
            lock,
            database: Named {
                path: dir.database(),
                id: database,
            },
            shared: Named {
                path: shared,
                id: shared_id,
            },
            log: Named {
                path: log,
                id: log_id,
            },
            log_file,
            log_left: Mutex::new(left),
        })
    }

    pub(crate) fn lock(&self) -> &DomainLock {
        &self.lock
    }

    /// The first of the files that is not as it was; the lock, which decides whose the domain is,
    /// before the others.
    ///
    /// The caller keeps everybody else from writing to the database meanwhile.
    pub(crate) fn look(&self) -> Result<Option<Slip>, StorageError> {
        let lock = self.lock.standing();
        let lock = lock.map_err(StorageError::context(self.lock.path(), "examine"))?;
        if let Some(slip) = slip(lock, Part::Lock) {
            return Ok(Some(slip));
        }
        self.look_at_database()
    }

    /// The same without the lock: whether what SQLite writes goes where it belongs.
    pub(crate) fn look_at_database(&self) -> Result<Option<Slip>, StorageError> {
        for (part, file) in [
            (Part::Database, &self.database),
            (Part::SharedMemory, &self.shared),
            (Part::Log, &self.log),
        ] {
            if let Some(slip) = slip(file.standing()?, part) {
                return Ok(Some(slip));
            }
        }
        let now = self.log_state()?;
        let left = locked(&self.log_left);
        let as_left = now.len >= left.len && now.header == left.header;
        Ok((!as_left).then_some(Slip::LogChanged))
    }

    /// Takes note of how the log is left, after a transaction of whatever end: one that is rolled
    /// back may have begun the log anew.
    pub(crate) fn leave_log(&self) -> Result<(), StorageError> {
        *locked(&self.log_left) = self.log_state()?;
        Ok(())
    }

    /// Where a part belongs.
    pub(crate) fn path(&self, part: Part) -> &Path {
        match part {
            Part::Lock => self.lock.path(),
            Part::Database => &self.database.path,
            Part::SharedMemory => &self.shared.path,
            Part::Log => &self.log.path,
        }
    }

    fn log_state(&self) -> Result<LogState, StorageError> {
        LogState::of(&self.log_file).map_err(StorageError::context(&self.log.path, "read"))
    }
}

impl Named {
    fn standing(&self) -> Result<Standing, StorageError> {
        standing(self.id, &self.path).map_err(StorageError::context(&self.path, "examine"))
    }
}

fn slip(standing: Standing, part: Part) -> Option<Slip> {
    match standing {
        Standing::InPlace => None,
        Standing::Gone => Some(Slip::Gone(part)),
        Standing::Replaced => Some(Slip::Replaced(part)),
    }
}

impl LogState {
    fn of(file: &File) -> io::Result<Self> {
        let mut header = vec![0; LOG_HEADER_LEN];
        let filled = file.read_at(&mut header, 0)?;
        header.truncate(filled);
        Ok(Self {
            len: file.metadata()?.len(),
            header,
        })
    }
}

/// Whether there is a log at this path that SQLite would read: one with a header of its own.
pub(crate) fn is_readable_log(path: &Path) -> io::Result<bool> {
    let mut header = [0; LOG_HEADER_LEN];
    match open_plain(path).and_then(|file| file.read_exact_at(&mut header, 0)) {
        Ok(()) => Ok(is_log_header(&header)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The magic number, whose last bit says how sums are made, and the version of the format.
fn is_log_header(header: &[u8; LOG_HEADER_LEN]) -> bool {
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    word(0) & !1 == 0x377F_0682 && word(4) == 3_007_000
}
