//! The loop of one operation: the helper's socket, two pipes, the mailbox, and a deadline or none.
//!
//! It only observes and asks; what the observations mean is decided in `settle`.

mod lost;
mod pausing;
mod ready;
mod watching;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xioflow_journal::{Change, Stream, TerminationReason};
use xioflow_protocol::{Exit, LaunchFailure, Request, StopPlan, TreeEnd};

use super::DescendantPolicy;
use super::gate::Gated;
use super::group::HeldGroup;
use super::launch::{Admitted, SETTLE_MS};
use super::limits::{Used, Watch};
use super::namespace::HeldNamespace;
use super::told::{News, Told};
use crate::clock::Gaps;
use crate::control::{Control, Wish};
use crate::deadline::{Patience, bell, earlier};
use crate::delegation::{Seen, look_at_tree};
use crate::domain::Inner;
use crate::helper::{HelperLink, HelperLost, Received};
use crate::output::{Drain, Feeds, OutputOrder};
use crate::stop::{SURVIVOR_GRACE, StopManner, StopRequest};
use pausing::Stand;

pub(super) use lost::Net;

/// How long an operation runs before the command's own end is watched for beside its helper's
/// report. It only matters when the helper has been stopped; for a short command it would be one
/// more time to wake up on its way.
const WATCH_ROOT_AFTER: Duration = Duration::from_secs(1);

/// How long a helper may say nothing of a command's end that the system reports, before it is
/// continued: a command can stop its own holder (`kill -STOP $PPID`). A helper that runs takes
/// no notice.
const WAKE_AFTER: Duration = Duration::from_millis(500);

/// How long the pipes may stay open after the tree of a command is gone that was stopped: what it
/// printed is in them already, and whoever stopped it waits.
const DRAIN_AFTER_STOP_MAX: Duration = Duration::from_millis(1000);

/// How long the pipes may stay open at least: a process that this one starts, a helper or a child of the
/// host, has a copy of everything that is open here until its exec.
const DRAIN_MIN: Duration = Duration::from_millis(200);

/// Replies that are taken before the pipes, the wishes and the clock get their turn.
const REPLIES_PER_TURN: usize = 64;

/// Everything that was seen of one operation.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) link: HelperLink,
    /// Its control group, where it has one, with whoever could not be ended.
    pub(super) group: Option<HeldGroup>,
    pub(super) drains: [Drain; 2],
    /// Whether the program was executed, as far as the helper said.
    pub(super) running: bool,
    pub(super) exit: Option<Exit>,
    pub(super) ending: Ending,
    /// The first wish to stop that was passed on.
    pub(super) stop: Option<StopRequest>,
    /// The last signal of a ladder that the helper reported.
    pub(super) signalled: Option<i32>,
    /// Whether the helper has ended the command although nobody here asked for that.
    pub(super) ended_unasked: bool,
    /// Streams that were still open when the drain gave up.
    pub(super) undrained: Vec<Stream>,
    pub(super) gaps: Gaps,
    /// In which order the streams were read.
    pub(super) order: OutputOrder,
    /// What was seen of work that the tree may have given to others, if anybody looked.
    pub(super) delegated: Seen,
    /// What it has used, and of which limit that was too much.
    pub(super) used: Used,
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
    /// Its helper was gone before it could be told to open the gate; nothing of it ran.
    NeverReleased {
        /// What happened to the helper.
        lost: HelperLost,
        /// Whether the process that stood at the gate was seen to have ended.
        gone: bool,
    },
    /// Its helper is gone, or can no longer be trusted.
    Lost(HelperLost),
    /// Its helper is gone, and this process has ended what it held.
    Ended {
        /// What happened to the helper.
        lost: HelperLost,
        /// In what it was found.
        by: Net,
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
    /// Whether it is the stop action of that operation: it is stopped by its own time, or by whoever will not
    /// wait for it.
    is_stop_action: bool,
    link: HelperLink,
    root: u32,
    root_pidfd: Option<OwnedFd>,
    namespace: Option<HeldNamespace>,
    group: Option<HeldGroup>,
    drains: [Drain; 2],
    control: &'a Control,
    feeds: &'a Feeds,
    timeout_at: Option<Instant>,
    /// Rings at the same time, also if this process was stopped meanwhile.
    timeout_bell: Option<OwnedFd>,
    timeout_grace: Duration,
    descendants: DescendantPolicy,
    told: Told,
    /// Whether more of what the helper said may be there to be taken.
    more_replies: bool,
    /// Whether the end of the command is to be looked for in its pidfd.
    root_watched: bool,
    /// When that begins.
    watch_root_at: Option<Instant>,
    ending: Option<Ending>,
    stop: Option<StopRequest>,
    /// How long the helper may be silent; none while it owes no answer.
    silence: Option<Patience>,
    /// When a helper that is silent after the command's end is continued.
    wake_at: Option<Instant>,
    drain_timeout: Duration,
    drain_until: Option<Instant>,
    gaps: Gaps,
    order: OutputOrder,
    delegated: Seen,
    watch: Watch,
    stand: Stand,
}

impl<'a> Supervision<'a> {
    pub(super) fn new(
        inner: &'a Inner,
        gated: Gated,
        admitted: &'a Admitted,
        control: &'a Arc<Control>,
        feeds: &'a Feeds,
        released: Result<Option<LaunchFailure>, HelperLost>,
    ) -> Self {
        let now = Instant::now();
        let timeout = admitted
            .spec
            .timeout
            .map(|timeout| timeout.saturating_sub(admitted.stdin_waited));
        let leaf = gated.group.as_ref().map(HeldGroup::leaf);
        let limits = admitted.spec.limits.as_ref();
        let watch = Watch::begin(limits, watching::tree_of(&gated), leaf);
        let mut supervision = Self {
            inner,
            operation_id: &admitted.id,
            is_stop_action: admitted.is_stop_action,
            link: gated.link,
            root: gated.root.pid,
            root_pidfd: gated.root_pidfd,
            namespace: gated.namespace,
            group: gated.group,
            drains: gated.drains,
            control,
            feeds,
            timeout_at: timeout.and_then(|timeout| now.checked_add(timeout)),
            timeout_bell: timeout.and_then(bell),
            timeout_grace: admitted.spec.timeout_grace,
            descendants: admitted.spec.descendants,
            told: Told::nothing(),
            more_replies: false,
            root_watched: false,
            watch_root_at: now.checked_add(WATCH_ROOT_AFTER),
            ending: None,
            stop: None,
            silence: Some(Patience::new(inner.patience.report)),
            wake_at: None,
            drain_timeout: admitted.spec.drain_timeout,
            drain_until: None,
            gaps: Gaps::begin(),
            order: OutputOrder::default(),
            delegated: Seen::default(),
            watch,
            stand: Stand::default(),
        };
        match released {
            Ok(None) => {}
            Ok(Some(failure)) => supervision.end(Ending::NotExecuted(failure)),
            Err(lost) => supervision.never_released(lost),
        }
        supervision
    }

    fn finished(&self) -> bool {
        self.ending.is_some() && self.drains.iter().all(|drain| drain.pipe().is_none())
    }

    fn deadline(&self) -> Option<Instant> {
        match self.ending {
            Some(_) if self.waits_for_reader() => None,
            Some(_) => self.drain_until,
            None if self.more_replies => Some(Instant::now()),
            None => {
                let silence_at = self.silence.and_then(|silence| silence.until());
                let looks = earlier(self.watch_root_at, self.wake_at);
                let looks = earlier(looks, self.look_at());
                earlier(looks, earlier(self.timeout_at, silence_at))
            }
        }
    }

    /// Sleeps until something happens; false when the drain's patience is over.
    fn turn(&mut self) -> bool {
        let due = self.deadline();
        let ready = self.wait(due);
        self.gaps.note(due, Instant::now());
        if ready.control {
            self.read_wishes();
        }
        for (at, readable) in ready.pipes.into_iter().enumerate() {
            if readable {
                let drain = &mut self.drains[at];
                let before = drain.total();
                drain.read_turn(self.feeds);
                self.order.note(drain.stream(), drain.total() - before);
            }
        }
        if ready.link {
            self.read_replies();
        }
        // After the replies: its end may have been told with it.
        if ready.root {
            self.note_root_ended();
        }
        self.serve_stand();
        self.watch_limits(ready.limits);
        self.check_clock()
    }

    fn read_wishes(&mut self) {
        for wish in self.control.take() {
            match wish {
                Wish::Stop(request) => self.ask_stop(request),
                Wish::Stand { still, answer } => self.ask_stand(still, answer),
                Wish::JobControl { suspend, passed_on } => {
                    self.job_control(suspend);
                    // Whoever asked may have stopped waiting.
                    passed_on.try_send(()).ok();
                }
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

    /// Whether the tree is gone, and the rest of its output waits for a subscriber who is owed it.
    fn waits_for_reader(&self) -> bool {
        self.ending.is_some() && self.drains.iter().any(|drain| drain.is_held_up(self.feeds))
    }

    fn ask_stop(&mut self, mut request: StopRequest) {
        let is_timeout = request.reason == TerminationReason::TimedOut;
        if self.is_stop_action && !is_timeout && request.manner != StopManner::Kill {
            return;
        }
        // Whoever stops it does not wait for a reader.
        self.feeds.hurry();
        if self.ending.is_some() {
            // Only the pipes are waited for, and whoever stops it does not want to wait for long.
            let soon = Instant::now().checked_add(DRAIN_AFTER_STOP_MAX);
            self.drain_until = earlier(self.drain_until, soon);
            return;
        }
        let patience = request.longest().saturating_add(self.inner.patience.stop);
        self.silence = Some(Patience::new(patience));
        self.told.expect_more();
        if self.stop.is_none() && !self.is_stop_action {
            if let Some(limit) = self.limit_reached() {
                // It was reached before anything is done about the wish.
                request.reason = limit;
            }
            self.look_at_tree();
            // Before the helper acts. If it cannot be recorded the command is stopped all the
            // same; the commit of the result meets the same fault and reports it.
            drop(self.inner.journal.commit(vec![Change::StopOperation {
                operation_id: self.operation_id.to_owned(),
                reason: request.reason,
            }]));
        }
        self.stand_no_more();
        let plan = request.plan();
        self.stop.get_or_insert(request);
        self.tell_stop(plan);
    }

    /// What the tree is about to be ended in the middle of.
    fn look_at_tree(&mut self) {
        let holder = self
            .link
            .greeting()
            .and_then(|hello| hello.identity.as_ref());
        if let Some(seen) = holder.and_then(|holder| look_at_tree(holder.pid)) {
            self.delegated.extend(seen);
        }
    }

    fn tell_stop(&mut self, plan: StopPlan) {
        let sent = self.link.send(&Request::Stop(plan));
        self.link.wake();
        if let Err(lost) = sent {
            self.lose(lost);
        }
    }

    fn note_time_over(&mut self) {
        if self.stop.is_some() {
            return;
        }
        let request = StopRequest {
            reason: TerminationReason::TimedOut,
            manner: StopManner::Terminate,
            grace: self.timeout_grace,
        };
        if self.told.exit().is_some() && self.descendants == DescendantPolicy::Stop {
            // The command has ended by itself, and in time. What outlives it is being ended already;
            // that is only to be quicker now.
            self.told.expect_more();
            self.tell_stop(request.plan());
        } else {
            self.ask_stop(request);
        }
    }

    fn job_control(&mut self, suspend: bool) {
        if self.ending.is_some() {
            return;
        }
        if let Err(lost) = self.link.job_control(suspend) {
            self.lose(lost);
        }
    }

    fn read_replies(&mut self) {
        self.more_replies = false;
        for _ in 0..REPLIES_PER_TURN {
            if self.ending.is_some() {
                return;
            }
            let received = self.link.flush().and_then(|()| self.link.receive());
            match received {
                Ok(Received::Nothing) => return,
                Ok(Received::Reply(reply)) => match self.told.take(reply) {
                    Ok(news) => self.take_news(news),
                    Err(lost) => self.lose(lost),
                },
                Err(lost) => self.lose(lost),
            }
        }
        self.more_replies = true;
    }

    fn take_news(&mut self, news: News) {
        match news {
            News::None => {}
            // While it is being stopped, that has its own time.
            News::Running | News::Exited if self.stop.is_some() => {}
            News::Running => self.silence = None,
            News::Exited => {
                self.silence = match self.descendants {
                    DescendantPolicy::Stop => Some(Patience::new(self.survivors_longest())),
                    DescendantPolicy::Wait => None,
                };
            }
            News::Over(ending) => self.end(ending),
        }
    }

    /// How long after the command's own end the helper may take to end what outlives it.
    fn survivors_longest(&self) -> Duration {
        let stop = StopRequest {
            reason: TerminationReason::Completed,
            manner: StopManner::Terminate,
            grace: SURVIVOR_GRACE,
        };
        let settle = Duration::from_millis(SETTLE_MS.into());
        settle + stop.longest() + self.inner.patience.stop
    }

    /// The system says that the command has ended, so the helper owes an account of that.
    fn note_root_ended(&mut self) {
        self.root_watched = false;
        if self.told.exit().is_none() {
            self.silence
                .get_or_insert_with(|| Patience::new(self.inner.patience.report));
            // Also when it still owes the news that the program runs: it may have been stopped
            // before it could tell.
            self.wake_at = Instant::now().checked_add(WAKE_AFTER);
        }
    }

    fn end(&mut self, ending: Ending) {
        self.ending = Some(ending);
        self.begin_drain();
    }

    fn begin_drain(&mut self) {
        let patience = match self.stop {
            None => self.drain_timeout.max(DRAIN_MIN),
            Some(_) => self.drain_timeout.clamp(DRAIN_MIN, DRAIN_AFTER_STOP_MAX),
        };
        self.drain_until = Instant::now().checked_add(patience);
    }

    /// The tree is gone, so what it printed is in the pipes: never more than one turn reads, and then
    /// their end, unless somebody else holds them. Whoever was asked not to wait has not looked yet.
    fn read_what_is_left(&mut self) {
        for drain in &mut self.drains {
            drain.read_turn(self.feeds);
        }
    }

    /// False when there is nothing more to wait for.
    fn check_clock(&mut self) -> bool {
        let now = Instant::now();
        // It may have been stopped since the look at what is ready.
        self.gaps.note(self.deadline(), now);
        let over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.ending.is_some() {
            if self.waits_for_reader() {
                self.begin_drain();
                return true;
            }
            let drained = over(self.drain_until);
            if drained {
                self.read_what_is_left();
            }
            return !drained;
        }
        if over(self.watch_root_at) {
            self.watch_root_at = None;
            self.root_watched = true;
        }
        if over(self.wake_at) {
            self.wake_at = None;
            self.link.wake();
        }
        if over(self.timeout_at) {
            self.timeout_at = None;
            self.note_time_over();
        } else if let Some(silence) = self.silence.filter(Patience::is_over) {
            self.lose(HelperLost::Silent {
                waited_ms: silence.length_ms(),
            });
        }
        true
    }
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
    supervision.gaps.end();
    // The result is still to be recorded; there will be no more output.
    supervision.feeds.end();
    let used = supervision.end_watch();
    let mut undrained = Vec::new();
    for drain in &mut supervision.drains {
        if drain.pipe().is_some() {
            undrained.push(drain.stream());
        }
    }
    Observed {
        link: supervision.link,
        group: supervision.group,
        drains: supervision.drains,
        running: supervision.told.running(),
        exit: supervision.told.exit(),
        signalled: supervision.told.signalled(),
        ended_unasked: supervision.stop.is_none() && supervision.told.signalled_command(),
        ending: supervision.ending.unwrap_or(Ending::Lost(HelperLost::Gone)),
        stop: supervision.stop,
        undrained,
        gaps: supervision.gaps,
        order: supervision.order,
        delegated: supervision.delegated,
        used,
    }
}
