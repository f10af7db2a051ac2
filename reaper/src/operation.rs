//! One operation from its launch to its end: which stage it is in, and what each event means there.
//!
//! Joins the parts: `spawn` and `gate` before the command runs, `ladder` and `tree` after. What the
//! supervisor asks is in `asked`, what the child says in `heard`, what is left behind in `account`.

mod account;
mod asked;
mod heard;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use xioflow_protocol::{Exit, GroupEntry, Identity, LaunchFailure, Reply, Stage as Step};
use xioflow_sys::{AsFd, BorrowedFd, Errno, OwnedFd, Pid, Signal};

use self::account::Account;
use crate::channel::Channel;
use crate::gate::Keeper;
use crate::group::Group;
use crate::ladder::{Effect, Event, Ladder, Millis};
use crate::launch::{Command, Descriptors, Terms};
use crate::namespace::Namespace;
use crate::reap::Left;
use crate::serve::now_ms;
use crate::setup::Ground;
use crate::spawn::Spawned;
use crate::system::System;
use crate::tree::{Collected, Tree};

/// How long a child that will not run is waited for. It was killed, so only the kernel can hold it;
/// that the gate is closed does not depend on it.
const CLOSED_WAIT_MS: Millis = 5_000;

/// Where the operation is.
#[derive(Debug)]
enum Stage {
    /// The child prepares itself.
    Preparing(Keeper),
    /// It waits at the gate.
    Waiting(Keeper),
    /// The gate is open, and the program not yet known to be executed.
    Opened(Keeper),
    /// The child died before it executed anything; how is not yet known.
    Vanished,
    /// The program was executed.
    Running,
    /// Nothing of the command will run any more; the child is still to be waited for.
    Closed { until: Millis },
    /// Everything was told, and the supervisor makes it durable.
    Told(Account),
    /// Nothing is left to do.
    Over,
}

/// What a supervisor asks for by the features it names.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes {
    /// It will say when the account is durable.
    pub(crate) waits_for_record: bool,
    /// It wants to hear what the helper has taken from itself.
    pub(crate) hears_armour: bool,
}

/// What the loop does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Goes on.
    Stay,
    /// Ends with this exit status, once everything was said.
    Leave { status: i32 },
}

/// The operation that the helper holds.
#[derive(Debug)]
pub(crate) struct Operation<S> {
    terms: Terms,
    holders: OwnedFd,
    helper: Identity,
    child: Pid,
    /// Travels to the supervisor with the news of the child.
    pidfd: Option<OwnedFd>,
    stage: Stage,
    ladder: Ladder,
    tree: Tree<S>,
    launch_failure: Option<LaunchFailure>,
    /// How long a child that died before it executed anything is waited for, once somebody wants the end.
    vanished_until: Option<Millis>,
    /// The child has said that it waits at the gate.
    at_gate: bool,
    /// The supervisor was told that the child waits at the gate. Before that it records nothing that
    /// a last word could settle.
    announced: bool,
    released: bool,
    host_lost: bool,
    stopped_for_loss: bool,
    wishes: Wishes,
    /// The supervisor wants to hear that nothing is left of a command that was not let run.
    discarded: bool,
    /// How the child came into its control group.
    entry: Option<GroupEntry>,
    /// More children have ended than one round waits for.
    more_to_collect: bool,
    /// There is no child any more, and somebody in the control group, who came from outside.
    is_childless: bool,
    /// What is waited for instead of the end of each child, while thousands are killed.
    pace: Option<Pace>,
}

/// While many die, each of them would wake the helper up, and keep it from dying.
#[derive(Debug)]
struct Pace {
    /// When this one is dead, about half of them are.
    harbinger: OwnedFd,
    /// Then everything is listened to again.
    until: Millis,
}

/// How long signals wait at most while a tree is killed.
const PACE_MS: Millis = 10;

impl<S: System> Operation<S> {
    /// Makes the child.
    ///
    /// # Errors
    /// A [`LaunchFailure`] of the fork itself; what fails in the child is heard at the gate.
    pub(crate) fn start(
        ground: &Ground<'_>,
        proof: &S::Proof,
        mut command: Command,
        terms: Terms,
        descriptors: Descriptors,
        wishes: Wishes,
    ) -> Result<Self, LaunchFailure> {
        command.group = descriptors.group.map(Group::open).transpose()?;
        let Spawned {
            entry,
            namespace,
            child,
            pidfd,
            keeper,
        } = S::spawn(proof, &command, &descriptors.standard)?;
        if let Some(namespace) = &namespace {
            namespace.settle::<S>()?;
        }
        let ours = pidfd
            .as_ref()
            .and_then(|pidfd| S::pidfd_copy(pidfd.as_fd()).ok());
        Ok(Self {
            ladder: Ladder::new(terms.descendants.clone(), terms.settle_ms),
            terms,
            holders: descriptors.holders,
            helper: ground.identity.clone(),
            child,
            pidfd,
            stage: Stage::Preparing(keeper),
            tree: Tree::new(ground.helper, child, ours, namespace, command.group),
            entry,
            at_gate: false,
            launch_failure: None,
            vanished_until: None,
            announced: false,
            released: false,
            host_lost: false,
            stopped_for_loss: false,
            wishes,
            discarded: false,
            more_to_collect: false,
            is_childless: false,
            pace: None,
        })
    }

    /// The helper's end of the gate, while something can be heard there.
    pub(crate) fn gate(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Preparing(keeper) | Stage::Waiting(keeper) | Stage::Opened(keeper) => {
                Some(keeper.as_fd())
            }
            Stage::Vanished
            | Stage::Running
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over => None,
        }
    }

    /// The end of an init's lifeline, while its word is awaited.
    pub(crate) fn init(&self) -> Option<BorrowedFd<'_>> {
        match self.stage {
            Stage::Preparing(_) => self.tree.namespace().and_then(Namespace::awaited),
            Stage::Waiting(_)
            | Stage::Opened(_)
            | Stage::Vanished
            | Stage::Running
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over => None,
        }
    }

    /// When the operation wants to be told the time.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        if self.more_to_collect {
            return Some(0);
        }
        let until = match self.stage {
            Stage::Preparing(_) | Stage::Waiting(_) | Stage::Told(_) | Stage::Over => None,
            Stage::Opened(_) | Stage::Running => self.ladder.deadline(),
            Stage::Vanished => self.vanished_until,
            Stage::Closed { until } => Some(until),
        };
        let pace = self.pace.as_ref().map(|pace| pace.until);
        until.into_iter().chain(pace).min()
    }

    /// What tells that nobody is in the control group any more, while only that is awaited.
    pub(crate) fn group(&self) -> Option<BorrowedFd<'_>> {
        match self.stage {
            Stage::Opened(_) | Stage::Running if self.is_childless => {
                self.tree.group().map(Group::events)
            }
            // Once it is over nobody reads what has happened, and it would be told again and again.
            Stage::Preparing(_)
            | Stage::Waiting(_)
            | Stage::Opened(_)
            | Stage::Vanished
            | Stage::Running
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over => None,
        }
    }

    /// Somebody has come into the control group, or the last one has left it.
    pub(crate) fn hear_group(&mut self, channel: &mut Channel<'_>) -> After {
        match self.is_childless {
            true => self.nothing_left(channel),
            false => After::Stay,
        }
    }

    /// What is to be waited for instead of signals.
    pub(crate) fn harbinger(&self) -> Option<BorrowedFd<'_>> {
        self.pace.as_ref().map(|pace| pace.harbinger.as_fd())
    }

    /// Time has passed. Also how the rest of a long round of waiting is taken up, and that must not
    /// keep the ladder from its time: a tree that forks and exits without pause never runs dry.
    pub(crate) fn tick(&mut self, channel: &mut Channel<'_>) -> After {
        // In the killing part the dead are counted first: whether anything moves depends on it.
        let collected = match self.more_to_collect || self.is_killing() {
            true => self.collect(channel),
            false => After::Stay,
        };
        collected.and(|| match self.stage {
            Stage::Opened(_) | Stage::Running => self.step(channel, Event::Tick),
            Stage::Vanished => self.give_vanished_up(channel),
            Stage::Closed { until } if now_ms::<S>() >= until => self.leave_closed(channel, false),
            Stage::Preparing(_)
            | Stage::Waiting(_)
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over => After::Stay,
        })
    }

    /// Waits for those who have ended.
    pub(crate) fn collect(&mut self, channel: &mut Channel<'_>) -> After {
        // Its end may have come between two looks; only before it is waited for can be told
        // whether it had executed anything.
        self.hear_gate(channel);
        let Collected { root, others, left } = match self.is_killing() {
            true => self.tree.collect_killed(),
            false => self.tree.collect(),
        };
        self.more_to_collect = left == Left::More;
        if left == Left::Living {
            self.tree.let_init_leave();
        }
        self.pace = None;
        let mut after = root.map_or(After::Stay, |exit| self.root_ended(channel, exit));
        if others && left != Left::Nothing {
            after = after.and(|| self.step_if_running(channel, Event::OthersExited));
        }
        if left == Left::Nothing {
            after = after.and(|| self.nothing_left(channel));
        }
        if root.is_some() || others {
            self.set_pace();
        }
        after
    }

    /// Whether a tree that was let run is being killed.
    fn is_killing(&self) -> bool {
        matches!(self.stage, Stage::Opened(_) | Stage::Running) && self.ladder.is_killing()
    }

    /// As long as this finds the dead, it goes on at its own pace. When it does not, somebody is held
    /// by a tracer or by the system, and only signals tell more.
    fn set_pace(&mut self) {
        let harbinger = match self.is_killing() {
            true => self.tree.harbinger(),
            false => None,
        };
        self.pace = harbinger.map(|harbinger| Pace {
            harbinger,
            until: now_ms::<S>() + PACE_MS,
        });
    }

    fn root_ended(&mut self, channel: &mut Channel<'_>, exit: Exit) -> After {
        match self.stage {
            Stage::Opened(_) | Stage::Running => {
                channel.say(&Reply::RootExited { exit });
                self.step(channel, Event::RootExited)
            }
            Stage::Preparing(_) | Stage::Waiting(_) | Stage::Vanished => {
                self.fail(channel, self.why_ended(exit));
                After::Stay
            }
            Stage::Closed { .. } | Stage::Told(_) | Stage::Over => After::Stay,
        }
    }

    /// Why a child is gone that has not executed its command.
    fn why_ended(&self, exit: Exit) -> LaunchFailure {
        let how = match exit {
            Exit::Exited { code } => format!("exited with status {code}"),
            // Linux 6.14 and later take a newborn of a group that was ended as a whole for one that was meant, also where it
            // is made in another group.
            Exit::Signaled { signal, .. }
                if self.is_of_group() && signal == Signal::KILL.number() =>
            {
                let subject = "clone3: the command was killed at its birth, as the system does where the group \
                               that xioflow is in was ended by cgroup.kill before";
                return failure(Step::Group, Errno::ESRCH, subject.into());
            }
            Exit::Signaled { signal, .. } => format!("was ended by signal {signal}"),
        };
        let subject = format!("child {how} before the command was executed");
        failure(Step::Gate, Errno::ESRCH, subject)
    }

    /// Whether the child was made in a group and has not said a word since.
    fn is_of_group(&self) -> bool {
        self.entry == Some(GroupEntry::Cloned) && !self.at_gate
    }

    fn step_if_running(&mut self, channel: &mut Channel<'_>, event: Event) -> After {
        match self.stage {
            Stage::Opened(_) | Stage::Running => self.step(channel, event),
            Stage::Preparing(_)
            | Stage::Waiting(_)
            | Stage::Vanished
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over => After::Stay,
        }
    }

    fn nothing_left(&mut self, channel: &mut Channel<'_>) -> After {
        match self.stage {
            Stage::Closed { .. } => self.leave_closed(channel, true),
            Stage::Opened(_) | Stage::Running => {
                self.is_childless = self.tree.has_guests();
                match self.is_childless {
                    true => After::Stay,
                    false => self.step(channel, Event::Empty),
                }
            }
            Stage::Preparing(_)
            | Stage::Waiting(_)
            | Stage::Vanished
            | Stage::Told(_)
            | Stage::Over => After::Stay,
        }
    }

    fn step(&mut self, channel: &mut Channel<'_>, event: Event) -> After {
        let effects = self.ladder.step(event.clone(), now_ms::<S>());
        let effects = effects.unwrap_or_else(|illegal| {
            panic!("{illegal:?}: {event:?} does not fit {:?}", self.ladder)
        });
        effects.into_iter().fold(After::Stay, |after, effect| {
            after.and(|| self.carry_out(channel, effect))
        })
    }

    fn carry_out(&mut self, channel: &mut Channel<'_>, effect: Effect) -> After {
        match effect {
            Effect::NameSurvivors => {
                let (processes, total) = self.tree.name_survivors();
                // All of them may be ending at this very moment.
                if total > 0 {
                    channel.say(&Reply::Survivors { processes, total });
                }
            }
            Effect::Signal(number) => {
                // Thousands that run must not keep their end from coming.
                let _raised = S::set_real_time();
                // Plans were checked when they came, so the number is one.
                if let Some(signal) = Signal::new(number) {
                    let targets = self.tree.signal(signal);
                    channel.say(&Reply::Signalled {
                        signal: number,
                        targets,
                    });
                }
            }
            Effect::Kill => {
                // Whoever dies needs the processor for that, until it comes to a fight.
                let _lowered = S::set_ordinary();
                let targets = self.tree.kill();
                channel.say(&Reply::Signalled {
                    signal: Signal::KILL.number(),
                    targets,
                });
                self.set_pace();
            }
            Effect::Sweep => self.tree.sweep(),
            Effect::SweepDeep => {
                if self.tree.sweep_deep() {
                    return self.step(channel, Event::AllRefused);
                }
            }
            Effect::FinishEmpty => {
                let end = self.tree.end_empty();
                channel.say(&Reply::TreeEmpty(end.clone()));
                return self.account(channel, Account { end, empty: true });
            }
            Effect::FinishRemains => {
                if let Some(exit) = self.tree.give_up() {
                    channel.say(&Reply::RootExited { exit });
                }
                let end = self.tree.end_remaining();
                channel.say(&Reply::TreeRemains(end.clone()));
                return self.account(channel, Account { end, empty: false });
            }
        }
        After::Stay
    }
}

impl After {
    /// Goes on with the next thing, unless this was the end.
    fn and(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Stay => next(),
            Self::Leave { .. } => self,
        }
    }
}

fn failure(stage: Step, errno: Errno, subject: String) -> LaunchFailure {
    let subject: Vec<u8> = subject.into_bytes();
    LaunchFailure {
        stage,
        errno: errno.raw(),
        subject: subject.into(),
    }
}
