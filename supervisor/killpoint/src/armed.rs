//! Points of a program that is armed: counted, traced, and deadly where the environment says so.

use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal, waitid,
};

const AT: &str = "XIOFLOW_TEST_KILL_AT";
const WHOM: &str = "XIOFLOW_TEST_KILL_WHOM";
const TRACE: &str = "XIOFLOW_TEST_KILL_TRACE";

/// Who dies at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    Owner,
    Helper,
    /// The helper first.
    Both,
    /// The owner first; the helper is stopped meanwhile, and killed by whoever reads the trace.
    OwnerFirst,
}

/// What the environment says.
#[derive(Debug)]
struct Plan {
    at: Option<String>,
    whom: Whom,
    trace: Option<File>,
}

static PLAN: OnceLock<Plan> = OnceLock::new();

/// How often each point was passed, and which helpers hold an operation.
static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Seen {
    passed: HashMap<String, u64>,
    /// In the order in which they were given work, each with the descriptor that cannot mean another process.
    holding: Vec<(u32, OwnedFd)>,
}

thread_local! {
    /// The helper of the operation that this thread sees to.
    static OURS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Passes a point: counts it, notes it in the trace, and kills whom the environment names if it is
/// the one.
///
/// # Panics
/// If the environment makes no sense, or the trace cannot be written: a test would prove nothing then.
pub fn pass<L: Into<String>>(label: impl FnOnce() -> L) {
    let plan = PLAN.get_or_init(Plan::read);
    if plan.at.is_none() && plan.trace.is_none() {
        return;
    }
    // Held to the end, so that nothing passes another point while somebody is being killed.
    let mut guard = seen();
    let seen = guard.get_or_insert_default();
    let label: String = label().into();
    let count = seen.passed.entry(label.clone()).or_default();
    *count += 1;
    let point = format!("{label}#{count}");
    let helper = seen.helper();
    plan.note(&point, helper.map(|(pid, _)| *pid));
    if plan.at.as_deref() == Some(&point) {
        plan.whom.kill(helper);
    }
}

/// Says that this thread has given an operation to the helper with this id, a child of this process.
///
/// # Panics
/// If the system has no pidfd for it.
pub fn hold(pid: u32) {
    let pidfd = pidfd_open(to_pid(pid), PidfdFlags::empty()).expect("a child of this process");
    seen().get_or_insert_default().holding.push((pid, pidfd));
    OURS.set(Some(pid));
}

/// Says that this helper holds nothing any more; one that was never given work never did.
pub fn let_go(pid: u32) {
    seen()
        .get_or_insert_default()
        .holding
        .retain(|(holding, _)| *holding != pid);
    if OURS.get() == Some(pid) {
        OURS.set(None);
    }
}

impl Seen {
    /// The helper of this thread's operation; elsewhere, the last that was given one.
    fn helper(&self) -> Option<&(u32, OwnedFd)> {
        let ours = OURS.get();
        let of_this_thread = self.holding.iter().find(|(pid, _)| Some(*pid) == ours);
        of_this_thread.or(self.holding.last())
    }
}

impl Plan {
    fn read() -> Self {
        let whom = match env::var(WHOM).as_deref() {
            Err(_) | Ok("owner") => Whom::Owner,
            Ok("helper") => Whom::Helper,
            Ok("both") => Whom::Both,
            Ok("owner-first") => Whom::OwnerFirst,
            Ok(other) => panic!("{WHOM}: nobody is called {other:?}"),
        };
        let append = |path: &Path| File::options().append(true).create(true).open(path);
        let trace = env::var_os(TRACE).map(|path| {
            append(Path::new(&path)).unwrap_or_else(|error| panic!("{TRACE}: {error}"))
        });
        let at = env::var(AT).ok();
        Self { at, whom, trace }
    }

    /// One write for one line, so that the lines of several processes do not mix.
    fn note(&self, point: &str, helper: Option<u32>) {
        let Some(mut trace) = self.trace.as_ref() else {
            return;
        };
        let helper = helper.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let line = format!("{point} {helper}\n");
        trace
            .write_all(line.as_bytes())
            .expect("a trace can be written");
    }
}

impl Whom {
    fn kill(self, helper: Option<&(u32, OwnedFd)>) {
        match self {
            Self::Owner => die(),
            Self::Helper => end(helper),
            Self::Both => {
                end(helper);
                die();
            }
            Self::OwnerFirst => {
                stop(helper);
                die();
            }
        }
    }
}

/// Kills the helper and waits until it is dead, so that what follows finds it so.
fn end(helper: Option<&(u32, OwnedFd)>) {
    let Some((_, pidfd)) = helper else {
        return;
    };
    // ESRCH: it has ended by itself, which is as good.
    pidfd_send_signal(pidfd, Signal::KILL).ok();
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    while poll(&mut polled, None) == Err(rustix::io::Errno::INTR) {}
}

/// Stops the helper and waits until it stands: it must not notice the end of this process.
fn stop(helper: Option<&(u32, OwnedFd)>) {
    let Some((pid, pidfd)) = helper else {
        return;
    };
    if pidfd_send_signal(pidfd, Signal::STOP).is_ok() {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // An error means that it has ended and was waited for.
        waitid(WaitId::Pid(to_pid(*pid)), options).ok();
    }
}

/// Ends this process where it stands: SIGKILL to oneself is taken before kill(2) returns.
fn die() -> ! {
    kill_process(getpid(), Signal::KILL).expect("nothing refuses that");
    unreachable!("this process is dead");
}

fn to_pid(pid: u32) -> Pid {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    raw.expect("a process id is a positive i32")
}

fn seen() -> MutexGuard<'static, Option<Seen>> {
    // Whoever panics here has made the test fail already.
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}
