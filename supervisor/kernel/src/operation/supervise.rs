//! The loop of one operation: the helper's socket, two pipes, the mailbox, and a deadline or none.
//!
//! It only observes and asks; what the observations mean is decided in `settle`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};
use xioflow_journal::{Change, Stream, TerminationReason};
use xioflow_protocol::{Exit, LaunchFailure, Reply, Request, TreeEnd};

use super::adopt::end_orphans;
use super::launch::{Admitted, Gated};
use crate::control::{Control, Wish};
use crate::deadline::{earlier, timespec_until};
use crate::domain::Inner;
use crate::helper::{HelperLink, HelperLost, Received};
use crate::output::{Drain, Feed};
use crate::stop::{StopManner, StopRequest};

/// How long the pipes may stay open after the tree is gone.
const DRAIN_PATIENCE: Duration = Duration::from_millis(2000);

/// How long the helper may be silent beyond what its ladder takes before it counts as lost.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// How long executing the program may take to be reported. Loading one from a slow network file
/// system counts, so this is generous.
const EXEC_PATIENCE: Duration = Duration::from_secs(60);

/// Everything that was seen of one operation.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) link: HelperLink,
    pub(super) drains: [Drain; 2],
    /// Whether the program was executed, as far as the helper said.
    pub(super) running: bool,
    pub(super) exit: Option<Exit>,
    pub(super) ending: Ending,
    /// The first wish to stop that was passed on.
    pub(super) stop: Option<StopRequest>,
    /// Streams that were still open when the drain gave up.
    pub(super) undrained: Vec<Stream>,
}

/// How the tree came to its end.
#[derive(Debug)]
pub(super) enum Ending {
    /// Nothing is left of it.
    Empty(TreeEnd),
    /// Some of it could not be ended.
    Remains(TreeEnd),
    /// The program could not be executed; nothing of it ran.
    NotExecuted(LaunchFailure),
    /// Its helper is gone, or can no longer be trusted.
    Lost(HelperLost),
    /// Its helper is gone; what it held came to this process and was ended here.
    Adopted {
        /// What happened to the helper.
        lost: HelperLost,
        /// What became of the tree.
        end: TreeEnd,
        /// Whether nothing of it is left.
        empty: bool,
    },
}

/// A running operation.
pub(super) struct Supervision<'a> {
    inner: &'a Inner,
    operation_id: &'a str,
    link: HelperLink,
    root: u32,
    root_pidfd: Option<OwnedFd>,
    drains: [Drain; 2],
    control: &'a Control,
    feed: Option<Feed>,
    timeout_at: Option<Instant>,
    timeout_grace: Duration,
    running: bool,
    exit: Option<Exit>,
    ending: Option<Ending>,
    stop: Option<StopRequest>,
    /// When silence of the helper means that it is lost.
    silence_at: Option<Instant>,
    drain_until: Option<Instant>,
}

impl<'a> Supervision<'a> {
    pub(super) fn new(
        inner: &'a Inner,
        gated: Gated,
        admitted: &'a Admitted,
        control: &'a Arc<Control>,
        feed: Option<Feed>,
        released: Result<(), HelperLost>,
    ) -> Self {
        let now = Instant::now();
        let mut supervision = Self {
            inner,
            operation_id: &admitted.id,
            link: gated.link,
            root: gated.root.pid,
            root_pidfd: gated.root_pidfd,
            drains: gated.drains,
            control,
            feed,
            timeout_at: admitted
                .spec
                .timeout
                .and_then(|timeout| now.checked_add(timeout)),
            timeout_grace: admitted.spec.timeout_grace,
            running: false,
            exit: None,
            ending: None,
            stop: None,
            silence_at: now.checked_add(EXEC_PATIENCE),
            drain_until: None,
        };
        if let Err(lost) = released {
            supervision.lose(lost);
        }
        supervision
    }

    fn finished(&self) -> bool {
        self.ending.is_some() && self.drains.iter().all(|drain| drain.pipe().is_none())
    }

    fn deadline(&self) -> Option<Instant> {
        match self.ending {
            Some(_) => self.drain_until,
            None => earlier(self.timeout_at, self.silence_at),
        }
    }

    /// Sleeps until something happens; false when the drain's patience is over.
    fn turn(&mut self) -> bool {
        let ready = self.wait();
        if ready.control {
            self.read_wishes();
        }
        for (at, readable) in ready.pipes.into_iter().enumerate() {
            if readable {
                self.drains[at].read_turn(self.feed.as_ref());
            }
        }
        if ready.link {
            self.read_replies();
        }
        self.check_clock()
    }

    fn wait(&mut self) -> Ready {
        let mut polled = Vec::with_capacity(4);
        polled.push(PollFd::from_borrowed_fd(
            self.control.as_fd(),
            PollFlags::IN,
        ));
        if self.ending.is_none() {
            let writing = self.link.wants_to_write();
            let wanted = if writing {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            polled.push(PollFd::from_borrowed_fd(self.link.as_fd(), wanted));
        }
        let open: Vec<usize> = (0..2)
            .filter(|at| self.drains[*at].pipe().is_some())
            .collect();
        for at in &open {
            if let Some(pipe) = self.drains[*at].pipe() {
                polled.push(PollFd::from_borrowed_fd(pipe, PollFlags::IN));
            }
        }
        // Interrupted, or refused for lack of memory: every descriptor is looked at, none blocks.
        let failed = poll(&mut polled, timespec_until(self.deadline()).as_ref()).is_err();
        let fired: Vec<bool> = polled
            .iter()
            .map(|polled| failed || !polled.revents().is_empty())
            .collect();
        let mut ready = Ready {
            control: fired[0],
            link: false,
            pipes: [false; 2],
        };
        let pipes_from = if self.ending.is_none() {
            ready.link = fired[1];
            2
        } else {
            1
        };
        for (at, fired) in open.into_iter().zip(&fired[pipes_from..]) {
            ready.pipes[at] = *fired;
        }
        ready
    }

    fn read_wishes(&mut self) {
        for wish in self.control.take() {
            match wish {
                Wish::Stop(request) => self.ask_stop(request),
                Wish::CloseStream(stream) => {
                    let drain = self
                        .drains
                        .iter_mut()
                        .find(|drain| drain.stream() == stream);
                    if let Some(drain) = drain {
                        drain.close();
                    }
                }
            }
        }
    }

    fn ask_stop(&mut self, request: StopRequest) {
        if self.ending.is_some() {
            return;
        }
        let patience = request.longest() + STOP_PATIENCE;
        self.silence_at = Instant::now().checked_add(patience);
        if self.stop.is_none() {
            // Before the helper acts. If it cannot be recorded the command is stopped all the
            // same; the commit of the result meets the same fault and reports it.
            drop(self.inner.journal.commit(vec![Change::StopOperation {
                operation_id: self.operation_id.to_owned(),
                reason: request.reason,
            }]));
        }
        let sent = self.link.send(&Request::Stop(request.plan()));
        self.stop.get_or_insert(request);
        if let Err(lost) = sent {
            self.lose(lost);
        }
    }

    fn read_replies(&mut self) {
        while self.ending.is_none() {
            let received = self.link.flush().and_then(|()| self.link.receive());
            match received {
                Ok(Received::Nothing) => return,
                Ok(Received::Reply(reply)) => self.take_reply(reply),
                Err(lost) => self.lose(lost),
            }
        }
    }

    fn take_reply(&mut self, reply: Reply) {
        match reply {
            Reply::Running => self.set_running(),
            Reply::RootExited { exit } => {
                self.set_running();
                self.exit = Some(exit);
            }
            Reply::TreeEmpty(end) => self.end(Ending::Empty(end)),
            Reply::TreeRemains(end) => self.end(Ending::Remains(end)),
            Reply::LaunchFailed(failure) => self.end(Ending::NotExecuted(failure)),
            // Their content comes again, complete, with the end of the tree.
            Reply::Survivors { .. } | Reply::Signalled { .. } => {}
            Reply::Hello(_) | Reply::Spawned { .. } => {
                self.lose(HelperLost::OutOfOrder("a launch report again"));
            }
            Reply::Refused(_) | Reply::Panicked { .. } => {
                self.lose(HelperLost::OutOfOrder("a refusal"));
            }
        }
    }

    fn set_running(&mut self) {
        if !self.running {
            self.running = true;
            if self.stop.is_none() {
                self.silence_at = None;
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        self.ending = Some(ending);
        self.drain_until = Instant::now().checked_add(DRAIN_PATIENCE);
    }

    /// The helper is gone. The command itself is killed through its pidfd, which cannot mean
    /// another process. The rest of the tree comes to this process if it adopts orphans; else
    /// nothing can be said of it.
    fn lose(&mut self, lost: HelperLost) {
        if let Some(pidfd) = &self.root_pidfd {
            // It may have ended already (ESRCH), which is as good.
            pidfd_send_signal(pidfd, Signal::KILL).ok();
        }
        let ending = if self.inner.adopts_orphans {
            self.link.make_sure_it_is_gone();
            match end_orphans(self.root, self.exit) {
                Some((end, empty)) => Ending::Adopted { lost, end, empty },
                None => Ending::Lost(lost),
            }
        } else {
            Ending::Lost(lost)
        };
        self.end(ending);
    }

    /// False when there is nothing more to wait for.
    fn check_clock(&mut self) -> bool {
        let now = Instant::now();
        let over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.ending.is_some() {
            return !over(self.drain_until);
        }
        if over(self.timeout_at) {
            self.timeout_at = None;
            if self.stop.is_none() {
                self.ask_stop(StopRequest {
                    reason: TerminationReason::TimedOut,
                    manner: StopManner::Terminate,
                    grace: self.timeout_grace,
                });
            }
        } else if over(self.silence_at) {
            let waited_ms = super::admit::millis(STOP_PATIENCE);
            self.lose(HelperLost::Silent { waited_ms });
        }
        true
    }
}

struct Ready {
    control: bool,
    link: bool,
    pipes: [bool; 2],
}

/// Supervises a released command to its end.
pub(super) fn supervise(mut supervision: Supervision<'_>) -> Observed {
    // A wish may have come before its descriptor was watched.
    supervision.read_wishes();
    while !supervision.finished() {
        if !supervision.turn() {
            break;
        }
    }
    let mut undrained = Vec::new();
    for drain in &mut supervision.drains {
        if drain.pipe().is_some() {
            undrained.push(drain.stream());
        }
    }
    Observed {
        link: supervision.link,
        drains: supervision.drains,
        running: supervision.running,
        exit: supervision.exit,
        ending: supervision.ending.unwrap_or(Ending::Lost(HelperLost::Gone)),
        stop: supervision.stop,
        undrained,
    }
}
