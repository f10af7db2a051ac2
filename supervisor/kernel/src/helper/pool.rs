//! Helpers that are started before there is work for them, and those that are done.
//!
//! A launch then pays one fork and one exec, both in a helper that already runs. Finished helpers
//! are waited for by their process id, never by a catch-all: this library lives in programs that
//! have children of their own.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::link::{HelperLink, LinkError, Received};
use super::registry;

/// The helpers of one domain.
#[derive(Debug)]
pub(crate) struct Helpers {
    program: PathBuf,
    shared: Arc<Shared>,
    keeper: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug)]
struct State {
    /// How many should wait for work.
    target: usize,
    warm: VecDeque<HelperLink>,
    /// Those that hold nothing, and only have to be waited for.
    done: Vec<Child>,
    closing: bool,
    /// The last start of a helper failed. None is tried before the next launch.
    stalled: bool,
}

impl State {
    /// Waits for those that have exited; for a domain without a thread that does.
    fn collect_done(&mut self) {
        // An error means that somebody else has waited for it.
        self.done.retain_mut(|child| {
            let lives = matches!(child.try_wait(), Ok(None));
            if !lives {
                registry::collected(child);
            }
            lives
        });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panicking holder leaves lists of helpers, which are valid in any state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Helpers {
    /// Starts `first` helpers now and keeps `target` waiting from then on. With a target of 0 there
    /// is no thread, and helpers are started when they are asked for.
    pub(crate) fn new(program: PathBuf, first: usize, target: usize) -> Result<Self, LinkError> {
        let warm = (0..first)
            .map(|_| HelperLink::start(&program))
            .collect::<Result<_, _>>()?;
        let state = State {
            target,
            warm,
            done: Vec::new(),
            closing: false,
            stalled: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
        });
        let keeper = if target == 0 {
            None
        } else {
            let (shared, program) = (Arc::clone(&shared), program.clone());
            let keeper = thread::Builder::new()
                .name("xioflow-helpers".to_owned())
                .spawn(move || keep(&shared, &program))
                .map_err(|source| LinkError::Start {
                    path: "the thread that keeps helpers".to_owned(),
                    source,
                })?;
            Some(keeper)
        };
        Ok(Self {
            program,
            shared,
            keeper,
        })
    }

    /// Takes a helper that waits, else starts one.
    pub(crate) fn take(&self) -> Result<HelperLink, LinkError> {
        loop {
            let waiting = self.shared.lock().warm.pop_front();
            let Some(mut link) = waiting else {
                return HelperLink::start(&self.program);
            };
            // One that died while it waited has held nothing: it is only replaced.
            if matches!(link.receive(), Ok(Received::Nothing)) {
                return Ok(link);
            }
            self.retire(link);
        }
    }

    /// Lets the keeper start helpers for those that were taken. Called once a command runs: while
    /// one is being launched, starting another would only take a processor away from it.
    pub(crate) fn refill(&self) {
        self.shared.lock().stalled = false;
        self.shared.work.notify_one();
    }

    /// Ends the link to a helper that holds nothing any more; its process is waited for in the
    /// background.
    pub(crate) fn retire(&self, link: HelperLink) {
        self.wait_for(link.into_child());
    }

    /// Ends a helper that cannot be trusted, before anything was let run in it: with it goes its
    /// socket, and with that the gate at which its command may stand.
    pub(crate) fn dismiss(&self, mut link: HelperLink) {
        link.kill();
        self.wait_for(link.into_child());
    }

    /// Ends the link to a helper that may still hold a tree. It ends that and itself when it sees
    /// that its socket is closed; nobody waits for that, but it is collected when it has.
    #[expect(
        clippy::unused_self,
        reason = "all ways to part from a helper are asked here"
    )]
    pub(crate) fn abandon(&self, link: HelperLink) {
        registry::leave(link.into_child());
    }

    fn wait_for(&self, child: Child) {
        registry::collect_left();
        let mut state = self.shared.lock();
        state.done.push(child);
        if self.keeper.is_none() {
            state.collect_done();
        }
        drop(state);
        self.shared.work.notify_one();
    }

    /// Closes every link and waits for every helper that had no tree to hold.
    fn close(&mut self) {
        {
            let mut state = self.shared.lock();
            state.closing = true;
            let idle = std::mem::take(&mut state.warm);
            state
                .done
                .extend(idle.into_iter().map(HelperLink::into_child));
        }
        self.shared.work.notify_one();
        if let Some(keeper) = self.keeper.take() {
            // It only fails by a panic, which has been reported where it happened.
            drop(keeper.join());
        }
        let done = std::mem::take(&mut self.shared.lock().done);
        reap(done);
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.close();
    }
}

fn keep(shared: &Shared, program: &std::path::Path) {
    let mut state = shared.lock();
    while !state.closing {
        if !state.done.is_empty() {
            let done = std::mem::take(&mut state.done);
            drop(state);
            reap(done);
            state = shared.lock();
        } else if state.warm.len() < state.target && !state.stalled {
            drop(state);
            let started = HelperLink::start(program);
            state = shared.lock();
            match started {
                Ok(link) => state.warm.push_back(link),
                // The next launch starts its own and reports why that fails. Once one has
                // succeeded, what was missing may be there again.
                Err(_) => state.stalled = true,
            }
        } else {
            state = shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// How long a helper that holds nothing may take to exit, in seconds.
///
/// It normally takes microseconds. One that was stopped by a signal in that instant would
/// otherwise hold up whoever closes the domain, so it is killed then.
const EXIT_PATIENCE_SECS: i64 = 2;

fn reap(done: Vec<Child>) {
    for mut child in done {
        if !exits(&child) {
            // An error means that somebody else has waited for it.
            child.kill().ok();
        }
        if exits(&child) {
            // The exit status of a helper says nothing that its messages did not; a host that
            // waits for all its children may have taken it already (ECHILD).
            drop(child.wait());
            registry::collected(&child);
        } else {
            // Only the kernel itself can hold it now.
            registry::leave(child);
        }
    }
}

fn exits(child: &Child) -> bool {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // Without pidfds (before Linux 5.3) there is only the plain wait.
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let patience = Timespec {
        tv_sec: EXIT_PATIENCE_SECS,
        tv_nsec: 0,
    };
    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&patience)), Ok(1))
}
