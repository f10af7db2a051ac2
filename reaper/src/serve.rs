//! The loop: waits for something to happen, and does what follows from it.
//!
//! There is one place that waits, with a deadline or for ever. Nothing here decides how a tree
//! is ended (`ladder`) or who is signalled (`targets`); nothing here blocks.

use core::time::Duration;

use xioflow_protocol::{
    FEATURE_ARMOUR, FEATURE_CAP_KILL, FEATURE_CONTROL_GROUP, FEATURE_NICE, FEATURE_PID_NAMESPACE,
    FEATURE_RECORDED, FEATURE_SUSPEND, FrameError, HELPER_EXIT_OK, HELPER_EXIT_PROTOCOL, Hello,
    Launch, LaunchDescriptor, PROTOCOL_VERSION, ProtocolFault, Reply, Request,
};
use xioflow_sys::{AsFd, Clock, Errno, POLLIN, POLLOUT, POLLPRI, PollFd, Signal, getuid};

use crate::channel::{Channel, Input};
use crate::ladder::Millis;
use crate::launch::{Descriptors, Rejection, check_stop_plan, prepare};
use crate::operation::{After, Operation, Wishes};
use crate::setup::{Ground, RELEASE};
use crate::system::System;

/// What the loop can wake up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The child has said something, or its end of the gate is closed.
    Gate,
    /// The init of a namespace has said something.
    Init,
    /// A signal is pending.
    Signal,
    /// About half of those who were killed are dead.
    Harbinger,
    /// The control group has become empty, or is so no more.
    Group,
    /// The supervisor has said something, or is gone.
    Host,
    /// There is room for what waits to be said.
    Room,
    /// A deadline has passed.
    Deadline,
}

/// How far the conversation has come.
#[derive(Debug)]
enum Phase<S> {
    /// Nothing was said.
    Greeting,
    /// Both have said who they are.
    Idle,
    /// An operation is held.
    Holding(alloc::boxed::Box<Operation<S>>),
}

/// The helper at work.
#[derive(Debug)]
pub(crate) struct Server<'fd, S: System> {
    ground: Ground<'fd>,
    proof: S::Proof,
    channel: Channel<'fd>,
    phase: Phase<S>,
    /// The exit status, once nothing is left to do but to say what waits to be said.
    leaving: Option<i32>,
    /// What the supervisor's features ask for.
    wishes: Wishes,
    /// Whether the peer was refused, which decides the exit status.
    refused: bool,
    /// Whether the loss of the supervisor was dealt with.
    lost: bool,
}

impl<'fd, S: System> Server<'fd, S> {
    /// A helper that has not heard anything yet.
    pub(crate) fn new(ground: Ground<'fd>, proof: S::Proof) -> Self {
        let channel = Channel::new(ground.control);
        Self {
            ground,
            proof,
            channel,
            phase: Phase::Greeting,
            leaving: None,
            wishes: Wishes::default(),
            refused: false,
            lost: false,
        }
    }

    /// Serves to the end, and says the exit status.
    pub(crate) fn run(mut self) -> i32 {
        if let Some(theirs) = self.ground.stranger {
            let ours = getuid();
            self.refuse(ProtocolFault::Stranger { ours, theirs });
        }
        loop {
            match self.leaving {
                Some(status) if self.channel.is_flushed() => {
                    self.channel.finish();
                    return status;
                }
                Some(_) | None => {}
            }
            for event in self.wait().into_iter().flatten() {
                self.handle(event);
                // An answer may be what finds out that nobody is there.
                if self.channel.is_gone() {
                    self.host_lost();
                }
            }
        }
    }

    /// Waits until something happens. The gate comes before signals, because a child's last word
    /// there explains its end; the supervisor comes last, because it may be answered with either.
    fn wait(&self) -> [Option<Event>; 8] {
        let gate = self.operation().and_then(Operation::gate);
        let init = self.operation().and_then(Operation::init);
        let (control, awaited) = self
            .channel
            .interest()
            .map_or((None, 0), |(fd, events)| (Some(fd), events));
        let harbinger = self.operation().and_then(Operation::harbinger);
        let group = self.operation().and_then(Operation::group);
        let signals = match harbinger {
            Some(_) => None,
            None => Some(self.ground.signals.as_fd()),
        };
        let mut fds = [
            PollFd::new(gate, POLLIN),
            PollFd::new(signals, POLLIN),
            PollFd::new(control, awaited),
            PollFd::new(init, POLLIN),
            PollFd::new(harbinger, POLLIN),
            PollFd::new(group, POLLPRI),
        ];
        let deadline = self.operation().and_then(Operation::deadline);
        let timeout = deadline.map(|at| Duration::from_millis(at.saturating_sub(now_ms::<S>())));
        match S::wait(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            // ENOMEM is the only other one for valid arguments; it may pass, the tree stays held.
            Err(_) => return [None; 8],
        }
        let host = fds[2].happened();
        let is_due = deadline.is_some_and(|at| now_ms::<S>() >= at);
        [
            (fds[0].happened() != 0).then_some(Event::Gate),
            (fds[3].happened() != 0).then_some(Event::Init),
            (fds[1].happened() != 0).then_some(Event::Signal),
            (fds[4].happened() != 0).then_some(Event::Harbinger),
            (fds[5].happened() != 0).then_some(Event::Group),
            (host & !POLLOUT != 0).then_some(Event::Host),
            (host & POLLOUT != 0).then_some(Event::Room),
            is_due.then_some(Event::Deadline),
        ]
    }

    fn operation(&self) -> Option<&Operation<S>> {
        match &self.phase {
            Phase::Holding(operation) => Some(operation),
            Phase::Greeting | Phase::Idle => None,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Gate => self.operate(Operation::hear_gate),
            Event::Init => self.operate(Operation::hear_init),
            Event::Signal => self.take_signals(),
            Event::Harbinger => self.operate(Operation::collect),
            Event::Group => self.operate(Operation::hear_group),
            Event::Host => self.hear_host(),
            Event::Room => {
                self.channel.flush();
            }
            Event::Deadline => self.operate(Operation::tick),
        }
    }

    /// Lets the operation act, if there is one, and draws the consequence.
    fn operate(&mut self, act: impl FnOnce(&mut Operation<S>, &mut Channel<'_>) -> After) {
        let Phase::Holding(operation) = &mut self.phase else {
            return;
        };
        match act(operation, &mut self.channel) {
            After::Stay => {}
            After::Leave { status } => self.leave(status),
        }
    }

    fn leave(&mut self, status: i32) {
        let status = if self.refused {
            HELPER_EXIT_PROTOCOL
        } else {
            status
        };
        self.leaving.get_or_insert(status);
    }

    fn take_signals(&mut self) {
        while let Some(signal) = S::next_signal(&self.ground.signals) {
            if signal != Signal::CHLD {
                self.told_to_end(signal);
            }
        }
        self.operate(Operation::collect);
    }

    /// Someone wants the helper itself to end. It takes its tree along first.
    fn told_to_end(&mut self, signal: Signal) {
        match &self.phase {
            Phase::Greeting | Phase::Idle => self.leave(HELPER_EXIT_OK),
            Phase::Holding(_) => {
                self.operate(|operation, channel| operation.abandon(channel, Some(signal)))
            }
        }
    }

    /// Nobody is left to be told. Only the first time matters.
    fn host_lost(&mut self) {
        if core::mem::replace(&mut self.lost, true) {
            return;
        }
        match &self.phase {
            Phase::Greeting | Phase::Idle => self.leave(HELPER_EXIT_OK),
            Phase::Holding(_) => self.operate(|operation, channel| {
                operation.note_host_lost();
                operation.abandon(channel, None)
            }),
        }
    }

    fn hear_host(&mut self) {
        let input = self.channel.receive();
        self.take_requests();
        if input == Input::End {
            self.end_of_host();
        }
    }

    fn end_of_host(&mut self) {
        match &self.phase {
            // Before a launch somebody may still listen, and be told that half of a message is none.
            Phase::Greeting | Phase::Idle if !self.channel.is_between_messages() => {
                self.refuse(ProtocolFault::Malformed);
            }
            Phase::Greeting | Phase::Idle | Phase::Holding(_) => self.host_lost(),
        }
    }

    fn take_requests(&mut self) {
        // Whatever crosses the end on its way has no meaning any more.
        while self.leaving.is_none() {
            match self.channel.next() {
                Ok(Some(request)) => self.take(request),
                Ok(None) => return self.refuse_stray_descriptors(),
                Err(FrameError::TooLong { claimed }) => {
                    return self.refuse(ProtocolFault::TooLong { claimed });
                }
                Err(FrameError::Malformed { .. } | FrameError::Truncated { .. }) => {
                    return self.refuse(ProtocolFault::Malformed);
                }
            }
        }
    }

    /// Says why the peer is not worth listening to, and ends what is held.
    fn refuse(&mut self, fault: ProtocolFault) {
        self.channel.say(&Reply::Refused(fault));
        self.channel.stop_listening();
        self.refused = true;
        match &self.phase {
            Phase::Greeting | Phase::Idle => self.leave(HELPER_EXIT_PROTOCOL),
            Phase::Holding(_) => self.operate(|operation, channel| {
                operation.note_host_lost();
                operation.abandon(channel, None)
            }),
        }
    }

    /// Only a launch brings descriptors, and exactly its own.
    fn refuse_stray_descriptors(&mut self) {
        let waiting = self.channel.waiting_descriptors();
        let expected = match self.phase {
            // They may have come before the rest of their message.
            Phase::Greeting | Phase::Idle => LaunchDescriptor::COUNT,
            Phase::Holding(_) => 0,
        };
        if waiting > expected {
            let received = u32::try_from(waiting).unwrap_or(u32::MAX);
            self.refuse(ProtocolFault::Descriptors { received });
        }
    }

    fn take(&mut self, request: Request) {
        match (&self.phase, request) {
            (Phase::Greeting, Request::Hello(hello)) => self.greet(&hello),
            (Phase::Idle, Request::Launch(launch)) => self.launch(launch),
            (Phase::Holding(_), Request::Release) => self.ask(Operation::release),
            (Phase::Holding(_), Request::Discard) => self.ask(Operation::discard),
            (Phase::Holding(_), Request::Recorded) => self.ask(Operation::recorded),
            (Phase::Holding(_), Request::Suspend) => self.ask(Operation::suspend),
            (Phase::Holding(_), Request::Resume) => self.ask(Operation::resume),
            (Phase::Holding(_), Request::Stop(plan)) => match check_stop_plan("stop", &plan) {
                Ok(()) => self.ask(|operation, channel| operation.stop(channel, plan)),
                Err(Rejection::Fault(fault)) => self.refuse(fault),
                Err(Rejection::Failure(_)) => self.refuse(ProtocolFault::Malformed),
            },
            (
                Phase::Greeting,
                Request::Launch(_)
                | Request::Release
                | Request::Discard
                | Request::Stop(_)
                | Request::Suspend
                | Request::Resume
                | Request::Recorded,
            )
            | (
                Phase::Idle,
                Request::Hello(_)
                | Request::Release
                | Request::Discard
                | Request::Stop(_)
                | Request::Suspend
                | Request::Resume
                | Request::Recorded,
            )
            | (Phase::Holding(_), Request::Hello(_) | Request::Launch(_)) => {
                self.refuse(ProtocolFault::OutOfOrder);
            }
        }
    }

    /// Passes a request on that the operation may find out of its order.
    fn ask(&mut self, act: impl FnOnce(&mut Operation<S>, &mut Channel<'_>) -> Option<After>) {
        let mut in_order = true;
        self.operate(|operation, channel| {
            act(operation, channel).unwrap_or_else(|| {
                in_order = false;
                After::Stay
            })
        });
        if !in_order {
            self.refuse(ProtocolFault::OutOfOrder);
        }
    }

    fn greet(&mut self, theirs: &Hello) {
        if theirs.protocol != PROTOCOL_VERSION {
            let fault = ProtocolFault::Version {
                ours: PROTOCOL_VERSION,
                theirs: theirs.protocol,
            };
            return self.refuse(fault);
        }
        let hello = Hello {
            protocol: PROTOCOL_VERSION,
            release: RELEASE.into(),
            identity: Some(self.ground.identity.clone()),
            features: [
                FEATURE_RECORDED,
                FEATURE_SUSPEND,
                FEATURE_NICE,
                FEATURE_PID_NAMESPACE,
                FEATURE_CONTROL_GROUP,
                FEATURE_ARMOUR,
            ]
            .into_iter()
            .chain(S::has_authority().then_some(FEATURE_CAP_KILL))
            .map(Into::into)
            .collect(),
        };
        let names = |feature: &str| theirs.features.iter().any(|name| name == feature);
        self.wishes = Wishes {
            waits_for_record: names(FEATURE_RECORDED),
            hears_armour: names(FEATURE_ARMOUR),
        };
        self.phase = Phase::Idle;
        self.channel.say(&Reply::Hello(hello));
        // Here and not in the child, where it would be on the way to the command.
        S::reset_dispositions();
    }

    fn launch(&mut self, launch: Launch) {
        let arrived = self.channel.take_descriptors();
        let received = arrived.descriptors.len() + usize::from(arrived.lost);
        let received = u32::try_from(received).unwrap_or(u32::MAX);
        let placed = Descriptors::place(arrived.descriptors, launch.stdin_closed, launch.group);
        let (Some(descriptors), false) = (placed, arrived.lost) else {
            return self.refuse(ProtocolFault::Descriptors { received });
        };
        let prepared = prepare(launch, self.ground.page_size);
        let started = prepared.and_then(|(command, terms)| {
            Operation::start(
                &self.ground,
                &self.proof,
                command,
                terms,
                descriptors,
                self.wishes,
            )
            .map_err(Rejection::Failure)
        });
        match started {
            Ok(operation) => {
                self.phase = Phase::Holding(alloc::boxed::Box::new(operation));
            }
            Err(Rejection::Fault(fault)) => self.refuse(fault),
            Err(Rejection::Failure(failure)) => {
                self.channel.say(&Reply::LaunchFailed(failure));
                self.leave(HELPER_EXIT_OK);
            }
        }
    }
}

/// The clock of every deadline.
pub(crate) fn now_ms<S: System>() -> Millis {
    Millis::try_from(S::now(Clock::Monotonic).as_millis()).unwrap_or(Millis::MAX)
}
