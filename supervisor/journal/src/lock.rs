//! The lock that makes one process the owner of a domain, for as long as it keeps one
//! descriptor open. The kernel decides who holds it; the text in the file is for people.
//!
//! It is an open file description lock (fcntl(2), `F_OFD_SETLK`): it conflicts with another
//! opening in the same process as well, closing some other descriptor does not drop it, and a
//! reader can ask about it (`F_OFD_GETLK`) without taking it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Fault, StorageError};
use crate::folder::{open_plain, open_private};
use crate::model::OwnerRole;
use crate::owner;

/// How much longer a lock is waited for whose owner has ended. It kept no lock, but a program that it was
/// just starting has a copy of the descriptor until its exec.
const STARTING_PROGRAM: Duration = Duration::from_secs(1);

/// A note is shorter than this; a longer file is not read as one.
const NOTE_LEN_MAX: usize = 4096;

/// What the owner has written into its lock file, for people. It may be that of the owner
/// before, in the moment between taking the lock and writing it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockNote {
    /// The domain's name.
    pub domain_id: String,
    /// The owner's process id.
    pub owner_pid: u32,
    /// Since when, as RFC 3339.
    pub acquired_at: String,
    /// The owner's host.
    pub hostname: String,
    /// For whom it owns the domain; `None` in a note of a release that did not say, or that says
    /// something which this release does not know.
    #[serde(default, deserialize_with = "known_role")]
    pub role: Option<OwnerRole>,
}

impl LockNote {
    /// Whether the process that it names has ended, as far as can be seen from here. It says for how long
    /// to be patient, and nothing of whose the domain is: that the lock says.
    fn owner_has_ended(&self) -> bool {
        let pid = i32::try_from(self.owner_pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| self.hostname == owner::hostname()) else {
            return false;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Err(error) => error == rustix::io::Errno::SRCH,
            // One that nobody has waited for yet still has its number.
            Ok(pidfd) => {
                let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
                poll(&mut ended, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            }
        }
    }
}

/// A name that is not known is no reason not to read the rest.
fn known_role<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OwnerRole>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.and_then(|name| name.parse().ok()))
}

/// What can be learned of a domain's owner without disturbing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerState {
    /// Somebody holds the lock.
    Held {
        /// What the owner says of itself, if it can be read.
        note: Option<LockNote>,
    },
    /// Nobody holds the lock.
    Free,
    /// The question could not be put.
    CannotTell {
        /// Why not.
        why: String,
    },
}

/// Why the lock was not to be had.
pub(crate) enum LockError {
    Held(Option<LockNote>),
    Storage(StorageError),
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(crate) struct DomainLock {
    file: Locked,
    path: PathBuf,
    /// Whether this opening made the file.
    is_new: bool,
}

/// A file with the lock on it.
///
/// The lock is dropped explicitly. Closing the file would not do while another thread starts a
/// program: until that has executed, it has a copy of every descriptor, and the lock lives as
/// long as the last of them.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked by closing it.
        fcntl(&self.0, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK))).ok();
    }
}

/// Whether the lock file is still the one at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    InPlace,
    Gone,
    Replaced,
}

impl DomainLock {
    /// Takes the lock, waiting for at most `wait` while another holds it.
    ///
    /// Whoever fails to open a domain removes the lock file that it made. So a lock that was
    /// obtained counts only if its file is still at the path; else all begins again.
    pub(crate) fn acquire(path: &Path, wait: Duration) -> Result<Self, LockError> {
        let begun = Instant::now();
        let (mut wait, mut is_extended) = (wait, false);
        loop {
            let (file, is_new) = open_private(path).map_err(|e| storage(path, "open", e))?;
            let left = wait.saturating_sub(begun.elapsed());
            match Self::lock(path, file, is_new, left) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) => {}
                Err(LockError::Held(Some(note))) if !is_extended && note.owner_has_ended() => {
                    is_extended = true;
                    wait = begun.elapsed() + STARTING_PROGRAM;
                }
                Err(error) => {
                    // One that another holds by now is no longer ours to remove.
                    if is_new && matches!(error, LockError::Storage(_)) {
                        drop(fs::remove_file(path));
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Locks a file that has been opened; `None` if it has left its path meanwhile.
    fn lock(
        path: &Path,
        file: File,
        is_new: bool,
        wait: Duration,
    ) -> Result<Option<Self>, LockError> {
        let file = lock_within(file, wait).map_err(|e| unlockable(path, e))?;
        let Some(file) = file else {
            return Err(LockError::Held(read_note_at(path)));
        };
        let lock = Self {
            file,
            path: path.to_owned(),
            is_new,
        };
        match lock.standing().map_err(|e| storage(path, "examine", e))? {
            Standing::InPlace => lock.prove().map(|()| Some(lock)),
            Standing::Gone | Standing::Replaced => Ok(None),
        }
    }

    /// Tries the lock out: another opening of the file must see it, and must not get it. There are
    /// file systems that grant every lock to everybody.
    ///
    /// Closing that other opening does no harm: this kind of lock belongs to one opening alone.
    fn prove(&self) -> Result<(), LockError> {
        let (other, _) = open_private(&self.path).map_err(|e| storage(&self.path, "open", e))?;
        let is_seen = is_held(&other).map_err(|e| unlockable(&self.path, e))?;
        let is_granted = try_lock(&other).map_err(|e| unlockable(&self.path, e))?;
        if is_seen && !is_granted {
            return Ok(());
        }
        let why = "the same lock was granted twice";
        Err(LockError::Storage(without_locks(
            &self.path,
            io::Error::other(why),
        )))
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the file that is locked with the one at its path.
    pub(crate) fn standing(&self) -> io::Result<Standing> {
        let ours = rustix::fs::fstat(&self.file.0)?;
        match rustix::fs::stat(&self.path) {
            Ok(there) if there.st_dev == ours.st_dev && there.st_ino == ours.st_ino => {
                Ok(Standing::InPlace)
            }
            Ok(_) => Ok(Standing::Replaced),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(Standing::Gone),
            Err(e) => Err(e.into()),
        }
    }

    /// Says in the file who holds the lock.
    pub(crate) fn write_note(&self, note: &LockNote) -> io::Result<()> {
        let text = serde_json::to_string(note)? + "\n";
        self.file.0.write_all_at(text.as_bytes(), 0)?;
        self.file.0.set_len(text.len() as u64)
    }

    /// Empties the file, so that nobody reads of an owner that has left.
    pub(crate) fn clear_note(&self) -> io::Result<()> {
        self.file.0.set_len(0)
    }

    /// Tells followers that something new can be read: sets the file's times, which inotify
    /// reports. A write to the database's log would not do, because that comes before the
    /// new content becomes visible.
    pub(crate) fn ring(&self) -> io::Result<()> {
        use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        Ok(rustix::fs::futimens(
            &self.file.0,
            &Timestamps {
                last_access: now,
                last_modification: now,
            },
        )?)
    }
}

fn storage(path: &Path, doing: &'static str, error: io::Error) -> LockError {
    LockError::Storage(StorageError::new(path, doing, error))
}

/// A lock that the system refuses to grant to anybody. EINVAL says that a file system does not know
/// this kind of lock; elsewhere it says nothing about locks.
fn unlockable(path: &Path, error: io::Error) -> LockError {
    match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::INVAL) => LockError::Storage(without_locks(path, error)),
        _ => storage(path, "lock", error),
    }
}

fn without_locks(path: &Path, source: io::Error) -> StorageError {
    StorageError {
        path: path.to_owned(),
        doing: "lock",
        fault: Fault::NoLocks,
        source: source.into(),
    }
}

/// Asks who holds the lock at `path`, without taking it.
pub(crate) fn owner_state(path: &Path) -> OwnerState {
    let cannot_tell = |doing: &str, e: io::Error| OwnerState::CannotTell {
        why: format!("cannot {doing} {}: {e}", path.display()),
    };
    let file = match open_plain(path) {
        Ok(file) => file,
        // An owner whose lock file was deleted does not know it before its next commit.
        Err(e) => return cannot_tell("open", e),
    };
    match is_held(&file) {
        Ok(true) => OwnerState::Held {
            note: read_note(&file),
        },
        Ok(false) => OwnerState::Free,
        Err(e) => cannot_tell("ask about the lock on", e),
    }
}

fn read_note_at(path: &Path) -> Option<LockNote> {
    open_plain(path).ok().and_then(|file| read_note(&file))
}

/// The note in a lock file; `None` when it is empty, being written, or not ours.
fn read_note(file: &File) -> Option<LockNote> {
    let mut text = vec![0; NOTE_LEN_MAX];
    let len = file.read_at(&mut text, 0).ok()?;
    serde_json::from_slice(&text[..len]).ok()
}

/// Locks `file` within `wait`; `None` when another holds it for longer.
///
/// fcntl(2) has no time limit. So a thread waits in the kernel, without polling, and hands the
/// locked file over. If nobody takes it any more, the thread drops it in the same moment: it
/// remains until the owner leaves, holds nothing but one descriptor, and ends by itself.
fn lock_within(file: File, wait: Duration) -> io::Result<Option<Locked>> {
    if try_lock(&file)? {
        return Ok(Some(Locked(file)));
    }
    if wait.is_zero() {
        return Ok(None);
    }
    let (hand_over, locked) = mpsc::channel();
    thread::Builder::new()
        .name("domain-lock".into())
        .spawn(move || {
            let result = wait_for_lock(&file).map(|()| Locked(file));
            // A receiver that is gone has given up; the file comes back in the error and is dropped.
            drop(hand_over.send(result));
        })?;
    match locked.recv_timeout(wait) {
        Ok(result) => result.map(Some),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => {
            Err(io::Error::other("the waiting thread ended early"))
        }
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn wait_for_lock(file: &File) -> io::Result<()> {
    loop {
        match fcntl(file, FcntlArg::F_OFD_SETLKW(&whole_file(libc::F_WRLCK))) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Whether an exclusive lock would conflict. The kernel answers for a read-only file as well.
fn is_held(file: &File) -> io::Result<bool> {
    let mut question = whole_file(libc::F_WRLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut question))?;
    Ok(i32::from(question.l_type) != libc::F_UNLCK)
}

/// A lock of this type from the first byte to the last, however many there will be. `l_pid`
/// must be 0 for this kind of lock.
fn whole_file(lock_type: i32) -> libc::flock {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "constants from 0 to 2 for fields of 16 bits"
    )]
    let (l_type, l_whence) = (lock_type as i16, libc::SEEK_SET as i16);
    libc::flock {
        l_type,
        l_whence,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock_in(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("domain.lock")
    }

    #[test]
    fn a_second_opening_in_the_same_process_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        assert!(matches!(
            DomainLock::acquire(&path, Duration::ZERO),
            Err(LockError::Held(None))
        ));
        drop(held);
        assert!(DomainLock::acquire(&path, Duration::ZERO).is_ok());
    }

    #[test]
    fn asking_neither_takes_nor_drops_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        assert_eq!(owner_state(&path), OwnerState::Held { note: None });
        assert_eq!(owner_state(&path), OwnerState::Held { note: None });
        drop(held);
        assert_eq!(owner_state(&path), OwnerState::Free);
        fs::remove_file(&path).unwrap();
        assert!(matches!(owner_state(&path), OwnerState::CannotTell { .. }));
    }

    #[test]
    fn a_waiter_gets_the_lock_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        let waiter = thread::spawn({
            let path = path.clone();
            move || DomainLock::acquire(&path, Duration::from_secs(60)).is_ok()
        });
        drop(held);
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn an_abandoned_wait_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        assert!(DomainLock::acquire(&path, Duration::from_millis(5)).is_err());
        drop(held);
        assert!(DomainLock::acquire(&path, Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn a_lock_on_a_file_that_left_its_path_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        let waiter = thread::spawn({
            let path = path.clone();
            move || {
                DomainLock::acquire(&path, Duration::from_secs(60))
                    .map(|l| l.standing().unwrap())
                    .ok()
            }
        });
        fs::remove_file(&path).unwrap();
        assert_eq!(held.standing().unwrap(), Standing::Gone);
        drop(held);
        assert_eq!(waiter.join().unwrap(), Some(Standing::InPlace));
    }

    /// A copy of the descriptor stands for a program that another thread is starting.
    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        let copy = held.file.0.try_clone().unwrap();
        drop(held);
        assert_eq!(owner_state(&path), OwnerState::Free);
        drop(copy);
    }

    /// Its copy stands for the program that an owner was starting when it was killed.
    #[test]
    fn a_lock_that_outlives_its_owner_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let mut note = LockNote {
            domain_id: "d".into(),
            owner_pid: std::process::id(),
            acquired_at: "1970-01-01T00:00:00.000Z".into(),
            hostname: owner::hostname(),
            role: None,
        };
        assert!(!note.owner_has_ended());
        note.owner_pid = gone.id();
        assert!(note.owner_has_ended());
        held.write_note(&note).unwrap();
        let begun = Instant::now();
        let refused = DomainLock::acquire(&path, Duration::ZERO);
        assert!(matches!(refused, Err(LockError::Held(_))));
        assert!(begun.elapsed() >= STARTING_PROGRAM, "nobody waited");
        thread::scope(|scope| {
            let next = scope.spawn(|| DomainLock::acquire(&path, Duration::ZERO).is_ok());
            drop(held);
            assert!(next.join().unwrap());
        });
        // What another host says of its processes cannot be looked at here.
        note.hostname = "elsewhere".into();
        assert!(!note.owner_has_ended());
    }

    #[test]
    fn notes_of_other_releases_are_read() {
        let role = |role: &str| {
            let text =
                format!(r#"{{"domainId":"d","ownerPid":7,"acquiredAt":"t","hostname":"h"{role}}}"#);
            serde_json::from_str::<LockNote>(&text).unwrap().role
        };
        assert_eq!(role(""), None);
        assert_eq!(role(r#","role":null"#), None);
        assert_eq!(role(r#","role":"of tomorrow""#), None);
        assert_eq!(role(r#","role":"embedded""#), Some(OwnerRole::Embedded));
    }

    #[test]
    fn a_note_is_read_back_and_a_shorter_one_leaves_no_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = lock_in(&folder);
        let held = DomainLock::acquire(&path, Duration::ZERO).ok().unwrap();
        let mut note = LockNote {
            domain_id: "a long name".into(),
            owner_pid: 7,
            acquired_at: "1970-01-01T00:00:00.000Z".into(),
            hostname: "host".into(),
            role: Some(OwnerRole::Arbiter),
        };
        for name in ["a long name", "b"] {
            note.domain_id = name.into();
            held.write_note(&note).unwrap();
            assert_eq!(
                owner_state(&path),
                OwnerState::Held {
                    note: Some(note.clone())
                }
            );
        }
        held.clear_note().unwrap();
        assert_eq!(owner_state(&path), OwnerState::Held { note: None });
    }
}
