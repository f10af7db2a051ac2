//! Waiting for facts instead of time: a process to be gone, a file to be there.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Says how many times longer than usual waits go on, where the processor is emulated or has other work: a whole number.
pub const SLOW_VARIABLE: &str = "XIOFLOW_TEST_SLOW";

/// The duration times what [`SLOW_VARIABLE`] says. Nothing is waited for longer that comes: only failing takes longer.
///
/// # Panics
/// When the variable is no whole number above 0.
#[must_use]
pub fn patience(duration: Duration) -> Duration {
    static FACTOR: OnceLock<u32> = OnceLock::new();
    let factor = FACTOR.get_or_init(|| {
        let said = std::env::var(SLOW_VARIABLE).unwrap_or_else(|_| "1".to_owned());
        let number = said.parse().ok().filter(|factor| *factor > 0);
        number.unwrap_or_else(|| panic!("{SLOW_VARIABLE} is no whole number above 0: {said:?}"))
    });
    duration * *factor
}

/// The moment after which a wait has failed.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// Far beyond what anything takes on an idle machine, so that only a hang reaches it.
    pub const USUAL: Duration = Duration::from_secs(30);

    /// A deadline this long from now, or longer by [`patience`].
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self(Instant::now() + patience(duration))
    }

    /// A deadline [`Deadline::USUAL`] from now.
    #[must_use]
    pub fn usual() -> Self {
        Self::after(Self::USUAL)
    }

    /// How long it is until then; zero once it has passed.
    #[must_use]
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    #[must_use]
    pub fn passed(self) -> bool {
        self.left().is_zero()
    }

    /// Polls until something is ready; false when the deadline passes first.
    pub(crate) fn poll(self, fds: &mut [PollFd<'_>]) -> bool {
        loop {
            let left = Timespec::try_from(self.left()).expect("deadlines are short");
            match poll(fds, Some(&left)) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(error) => panic!("poll: {error}"),
            }
        }
    }
}

/// Waits until the process has ended; false when the deadline passes first.
///
/// A zombie has ended: not every init reaps what it is given.
///
/// # Panics
/// When the system refuses to look.
#[must_use]
pub fn pid_gone(pid: u32, deadline: Deadline) -> bool {
    match pidfd_open(to_pid(pid), PidfdFlags::empty()) {
        Ok(pidfd) => deadline.poll(&mut [PollFd::new(&pidfd, PollFlags::IN)]),
        Err(Errno::SRCH) => true,
        Err(error) => panic!("pidfd for {pid}: {error}"),
    }
}

/// Whether the process lives now; a zombie does not.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    !pid_gone(pid, Deadline::after(Duration::ZERO))
}

/// The letter of the process's state in proc(5), such as `T` for stopped; `None` if it is gone.
#[must_use]
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}

/// Stops a process (SIGSTOP) and returns when none of its threads runs any more, or it is gone.
///
/// kill(2) tells one of the threads. Until that one has run, the others go on.
///
/// # Panics
/// When the system refuses the signal, or it still runs after the usual time.
pub fn halt(pid: u32) {
    signal(pid, Signal::STOP);
    until("the halt of a process", Deadline::usual(), || {
        stands_still(pid)
    });
}

fn stands_still(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let states = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    });
    states
        .into_iter()
        .all(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
}

/// The process's parent; `None` if it is gone.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Waits until the file is there.
///
/// # Panics
/// When the deadline passes first.
pub fn file(path: &Path, deadline: Deadline) {
    let folder = path.parent().expect("a file to wait for is in a folder");
    in_folder(folder, deadline, || path.exists().then_some(()))
        .unwrap_or_else(|| panic!("{} did not appear in time", path.display()));
}

/// Waits until something holds that nothing announces, such as a state in this process's own
/// memory; gives the processor away between two looks.
///
/// # Panics
/// When the deadline passes first.
pub fn until(what: &str, deadline: Deadline, mut holds: impl FnMut() -> bool) {
    while !holds() {
        assert!(!deadline.passed(), "{what} did not come in time");
        std::thread::yield_now();
    }
}

/// Waits until `found` answers, asking again after each change in the folder.
///
/// Returns `None` when the deadline passes first.
///
/// # Panics
/// When the folder cannot be watched.
pub fn in_folder<T>(
    folder: &Path,
    deadline: Deadline,
    mut found: impl FnMut() -> Option<T>,
) -> Option<T> {
    use inotify::{CreateFlags, WatchFlags};
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
    let changes = WatchFlags::CREATE
        | WatchFlags::MOVED_TO
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE;
    inotify::add_watch(&watch, folder, changes)
        .unwrap_or_else(|error| panic!("watch {}: {error}", folder.display()));
    let mut events = [0; 4096];
    loop {
        // The watch stands before the question, so no change falls between them.
        if let Some(answer) = found() {
            return Some(answer);
        }
        if !deadline.poll(&mut [PollFd::new(&watch, PollFlags::IN)]) {
            return None;
        }
        while rustix::io::read(&watch, &mut events).is_ok_and(|len| len > 0) {}
    }
}

/// Sends a signal; whoever is gone by now needs none.
pub(crate) fn signal(pid: u32, signal: Signal) {
    match kill_process(to_pid(pid), signal) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => panic!("signal {signal:?} to {pid}: {error}"),
    }
}

pub(crate) fn to_pid(pid: u32) -> Pid {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a pid is a positive i32")
}
