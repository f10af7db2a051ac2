//! Signals to this program become wishes to the operation: the first asks, the second kills.
//! Ctrl-Z has the whole tree stand still, and then this program.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use xioflow_arbiter::ShutdownHandle;
use xioflow_facts::{StatLine, read_stat};
use xioflow_kernel::{Canceller, DEFAULT_CANCEL_GRACE, StopManner};

use crate::exit::Code;
use crate::failure::Failure;

/// Which signal cancelled the operation; 0 while none has.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelledBy(Arc<AtomicI32>);

impl CancelledBy {
    /// The first signal that came.
    pub(crate) fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            signal => Some(signal),
        }
    }

    fn note(&self, signal: i32) -> bool {
        self.0
            .compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// Hands signals on for as long as the process lives. One that was ignored when this program was
/// started stays ignored, as nohup(1) and shells expect of background jobs.
pub(crate) fn forward(canceller: Canceller, grace: Duration) -> Result<CancelledBy, Failure> {
    listen(canceller, grace).map_err(failed)
}

fn listen(canceller: Canceller, grace: Duration) -> io::Result<CancelledBy> {
    let ignored = ignored_signals();
    prepare()?;
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGTSTP];
    let mut signals = Signals::new(wanted.iter().filter(|it| ignored & (1 << (**it - 1)) == 0))?;
    let cancelled_by = CancelledBy::default();
    let noted = cancelled_by.clone();
    thread::Builder::new()
        .name("xioflow-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGTSTP {
                    suspend(&canceller);
                    continue;
                }
                let manner = match (noted.note(signal), signal) {
                    (false, _) => StopManner::Kill,
                    (true, SIGINT) => StopManner::Interrupt,
                    (true, _) => StopManner::Terminate,
                };
                // Too late means that the result is being recorded: it stands as it is.
                canceller.stop(manner, grace).ok();
            }
        })?;
    Ok(cancelled_by)
}

/// Has the arbiter end at a signal: the first stops what runs, with a grace, and the next ones kill it.
/// A daemon has no shell that could have wanted a signal ignored.
pub(crate) fn end(arbiter: ShutdownHandle, is_daemon: bool) -> Result<(), Failure> {
    let ignored = if is_daemon { 0 } else { ignored_signals() };
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let wanted: Vec<i32> = wanted
        .into_iter()
        .filter(|it| ignored & (1 << (it - 1)) == 0)
        .collect();
    let listen = || -> io::Result<()> {
        prepare()?;
        let mut signals = Signals::new(&wanted)?;
        thread::Builder::new()
            .name("xioflow-signals".to_owned())
            .spawn(move || {
                let mut grace = DEFAULT_CANCEL_GRACE;
                for _ in signals.forever() {
                    arbiter.stop(grace);
                    grace = Duration::ZERO;
                }
            })
            .map(drop)
    };
    listen().map_err(failed)
}

/// That this program was told to end while it watches: it gives the terminal back first.
#[derive(Debug)]
pub(crate) struct Interruption {
    wake: UnixStream,
    by: Arc<AtomicI32>,
}

impl Interruption {
    /// Listens for as long as the process lives. One that was ignored when it was started stays ignored.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::try_listen().map_err(failed)
    }

    fn try_listen() -> io::Result<Self> {
        let ignored = ignored_signals();
        prepare()?;
        let wanted = [SIGINT, SIGTERM, SIGHUP];
        let mut signals =
            Signals::new(wanted.iter().filter(|it| ignored & (1 << (**it - 1)) == 0))?;
        let (wake, mut waker) = UnixStream::pair()?;
        let by = Arc::new(AtomicI32::new(0));
        let noted = Arc::clone(&by);
        thread::Builder::new()
            .name("xioflow-signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    noted.store(signal, Ordering::Release);
                    // Nobody sleeps any more.
                    waker.write_all(&[1]).ok();
                }
            })?;
        Ok(Self { wake, by })
    }

    /// Sleeps so long; gives the signal if one came.
    pub(crate) fn sleep(&self, time: Duration) -> Option<i32> {
        let until = Instant::now() + time;
        loop {
            match self.by.load(Ordering::Acquire) {
                0 => {}
                signal => return Some(signal),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let left = Timespec::try_from(left).ok();
            let mut polled = [PollFd::new(&self.wake, PollFlags::IN)];
            // An interrupted sleep only looks again.
            poll(&mut polled, left.as_ref()).ok();
        }
    }
}

/// What holds for every process that executes commands.
fn prepare() -> io::Result<()> {
    // Whoever started this program may have blocked them, and the mask is inherited.
    let mut listened = SigSet::empty();
    listened.extend([
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGTSTP,
    ]);
    listened.thread_unblock()?;
    Ok(())
}

/// Makes a file size limit (`ulimit -f`) an error of the write instead of this program's end; the
/// command gets the default disposition from its helper.
pub(crate) fn outlive_file_size_limit() -> Result<(), Failure> {
    let never_read = Arc::new(AtomicBool::new(false));
    flag::register(SIGXFSZ, never_read)
        .map(drop)
        .map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn failed(error: io::Error) -> Failure {
    Failure::of_act(
        "signals",
        Code::Internal,
        "failed to listen to signals",
        &error,
    )
}

/// Stands still with the tree until a shell continues this program.
fn suspend(canceller: &Canceller) {
    if is_orphaned() {
        return;
    }
    // One that ends at this moment needs neither.
    canceller.suspend().ok();
    // Not SIGTSTP, which would come back here. Everything else was left as it is.
    nix::sys::signal::raise(Signal::SIGSTOP).ok();
    canceller.resume().ok();
}

/// Whether nobody would continue this process group: its job control is in no shell's hands (POSIX,
/// "orphaned process group"). The kernel ignores SIGTSTP then, and so does this program.
fn is_orphaned() -> bool {
    let mut line = StatLine::new();
    let mut of = std::process::id();
    let ours = stat_of(of, &mut line);
    let Some((_, group, session)) = ours else {
        return true;
    };
    // The first ancestor in another group is who has to be in this session.
    loop {
        match stat_of(of, &mut line) {
            Some((parent, its, _)) if its == group => of = parent,
            Some((_, _, its_session)) => return its_session != session,
            None => return true,
        }
    }
}

/// Parent, group and session of a process.
fn stat_of(pid: u32, line: &mut StatLine) -> Option<(u32, u32, u32)> {
    let stat = read_stat(pid, line).ok().flatten()?;
    Some((stat.parent, stat.group, stat.session))
}

/// The signals that this process ignores, as a bit set; none if that cannot be read.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
