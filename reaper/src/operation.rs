//! One operation from its launch to its end: which stage it is in, and what each event means there.
//!
//! Joins the parts: `spawn` and `gate` before the command runs, `ladder` and `tree` after, and
//! `last_word` when nobody is left to be told.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use xioflow_protocol::{
    Exit, HELPER_EXIT_OK, HELPER_EXIT_SYSTEM, Identity, LAST_WORD_FORMAT, LastWord, LaunchFailure,
    Reply, Stage as Step, StopPlan, TreeEnd,
};
use xioflow_sys::{
    AsFd, BorrowedFd, Clock, Errno, OwnedFd, Pid, Signal, SingleThread, duplicate_above, kill, now,
};

use crate::channel::Channel;
use crate::gate::{Keeper, Word};
use crate::ladder::{Effect, Event, Ladder, Millis};
use crate::last_word;
use crate::launch::{Command, Descriptors, Terms};
use crate::reap::{Left, harvest};
use crate::serve::now_ms;
use crate::setup::Ground;
use crate::spawn::{Spawned, spawn};
use crate::tree::{Tree, identify, never_executed};

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

/// How the tree ended.
#[derive(Debug, Clone)]
struct Account {
    end: TreeEnd,
    empty: bool,
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
pub(crate) struct Operation {
    terms: Terms,
    holders: OwnedFd,
    helper: Identity,
    child: Pid,
    /// Travels to the supervisor with the news of the child.
    pidfd: Option<OwnedFd>,
    stage: Stage,
    ladder: Ladder,
    tree: Tree,
    launch_failure: Option<LaunchFailure>,
    released: bool,
    host_lost: bool,
    stopped_for_loss: bool,
    /// The supervisor will say when the account is durable.
    waits_for_record: bool,
    /// The supervisor wants to hear that nothing is left of a command that was not let run.
    discarded: bool,
    /// More children have ended than one round waits for.
    more_to_collect: bool,
}

impl Operation {
    /// Makes the child.
    ///
    /// # Errors
    /// A [`LaunchFailure`] of the fork itself; what fails in the child is heard at the gate.
    pub(crate) fn start(
        ground: &Ground,
        proof: &SingleThread,
        command: &Command,
        terms: Terms,
        descriptors: Descriptors,
        waits_for_record: bool,
    ) -> Result<Self, LaunchFailure> {
        let Spawned {
            child,
            pidfd,
            keeper,
        } = spawn(proof, command, &descriptors.standard)
            .map_err(|errno| failure(Step::Fork, errno, String::new()))?;
        let Some(root) = identify(child, &ground.identity, pidfd.as_ref()) else {
            // The gate closes with `keeper`: a child that cannot be named must not run.
            let subject = format!("/proc/{child}/stat");
            return Err(failure(Step::Fork, Errno::ENOENT, subject));
        };
        let ours = pidfd
            .as_ref()
            .and_then(|pidfd| duplicate_above(pidfd.as_fd(), 3).ok());
        Ok(Self {
            ladder: Ladder::new(terms.descendants.clone(), terms.settle_ms),
            terms,
            holders: descriptors.holders,
            helper: ground.identity.clone(),
            child,
            pidfd,
            stage: Stage::Preparing(keeper),
            tree: Tree::new(ground.helper, child, root, ours),
            launch_failure: None,
            released: false,
            host_lost: false,
            stopped_for_loss: false,
            waits_for_record,
            discarded: false,
            more_to_collect: false,
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

    /// When the operation wants to be told the time.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        if self.more_to_collect {
            return Some(0);
        }
        match self.stage {
            Stage::Preparing(_) | Stage::Waiting(_) | Stage::Told(_) | Stage::Over => None,
            Stage::Opened(_) | Stage::Vanished | Stage::Running => self.ladder.deadline(),
            Stage::Closed { until } => Some(until),
        }
    }

    /// Time has passed. Also how the rest of a long round of waiting is taken up, and that must not
    /// keep the ladder from its time: a tree that forks and exits without pause never runs dry.
    pub(crate) fn tick(&mut self, channel: &mut Channel) -> After {
        let collected = match self.more_to_collect {
            true => self.collect(channel),
            false => After::Stay,
        };
        collected.and(|| match self.stage {
            Stage::Opened(_) | Stage::Vanished | Stage::Running => self.step(channel, Event::Tick),
            Stage::Closed { until } if now_ms() >= until => self.leave_closed(channel, false),
            Stage::Preparing(_)
            | Stage::Waiting(_)
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over => After::Stay,
        })
    }

    /// The supervisor lets the command run. `None`: not now.
    pub(crate) fn release(&mut self, _channel: &mut Channel) -> Option<After> {
        match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting(keeper) => {
                keeper.open();
                self.released = true;
                self.stage = Stage::Opened(keeper);
                Some(After::Stay)
            }
            // The request has crossed the news that the child is gone.
            crossed @ (Stage::Vanished | Stage::Closed { .. }) => {
                self.stage = crossed;
                Some(After::Stay)
            }
            early @ (Stage::Preparing(_)
            | Stage::Opened(_)
            | Stage::Running
            | Stage::Told(_)
            | Stage::Over) => {
                self.stage = early;
                None
            }
        }
    }

    /// The supervisor does not let the command run. `None`: it is too late for that.
    pub(crate) fn discard(&mut self, _channel: &mut Channel) -> Option<After> {
        match self.stage {
            Stage::Preparing(_) | Stage::Waiting(_) => Some(self.close_for_host()),
            Stage::Vanished if !self.released => Some(self.close_for_host()),
            Stage::Closed { .. } => Some(After::Stay),
            Stage::Vanished | Stage::Opened(_) | Stage::Running | Stage::Told(_) | Stage::Over => {
                None
            }
        }
    }

    /// The supervisor wants the tree to end. `None`: it was not told of any yet.
    pub(crate) fn stop(&mut self, channel: &mut Channel, plan: StopPlan) -> Option<After> {
        match self.stage {
            Stage::Opened(_) | Stage::Running => Some(self.step(channel, Event::Stop(plan))),
            Stage::Waiting(_) => Some(self.close_for_host()),
            // The request has crossed the news of the end.
            Stage::Vanished | Stage::Closed { .. } | Stage::Told(_) | Stage::Over => {
                Some(After::Stay)
            }
            Stage::Preparing(_) => None,
        }
    }

    /// The supervisor has made the account durable. `None`: it has none yet.
    pub(crate) fn recorded(&mut self, _channel: &mut Channel) -> Option<After> {
        matches!(self.stage, Stage::Told(_)).then(|| {
            self.stage = Stage::Over;
            leave(HELPER_EXIT_OK)
        })
    }

    /// From now on there is nobody to tell.
    pub(crate) fn note_host_lost(&mut self) {
        self.host_lost = true;
    }

    /// Ends what is held, because the supervisor is gone or the helper itself was told to end.
    pub(crate) fn abandon(&mut self, channel: &mut Channel, told: Option<Signal>) -> After {
        match self.stage {
            Stage::Preparing(_) | Stage::Waiting(_) | Stage::Vanished if !self.released => {
                let after = self.close();
                if let Some(signal) = told {
                    let subject = format!("helper was told to end by signal {}", signal.number());
                    self.fail(channel, failure(Step::Gate, Errno::EINTR, subject));
                }
                after
            }
            Stage::Opened(_) | Stage::Running => {
                self.stopped_for_loss |= self.host_lost;
                let plan = self.terms.on_host_loss.clone();
                self.step(channel, Event::Stop(plan))
            }
            Stage::Told(ref account) => {
                let account = account.clone();
                self.stage = Stage::Over;
                self.leave_last_word(account)
            }
            Stage::Preparing(_)
            | Stage::Waiting(_)
            | Stage::Vanished
            | Stage::Closed { .. }
            | Stage::Over => After::Stay,
        }
    }

    fn close_for_host(&mut self) -> After {
        self.discarded = true;
        self.close()
    }

    /// Closes the gate for good. A child that waits there sees it and exits.
    fn close(&mut self) -> After {
        if matches!(self.stage, Stage::Preparing(_)) {
            // It may be stuck before the gate, at a folder of a server that does not answer. It
            // is our child and was not waited for.
            let _sent = kill(self.child, Signal::KILL);
        }
        self.stage = Stage::Closed {
            until: now_ms() + CLOSED_WAIT_MS,
        };
        After::Stay
    }

    /// Hears what the child says at the gate.
    pub(crate) fn hear_gate(&mut self, channel: &mut Channel) -> After {
        match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Preparing(keeper) => self.hear_preparing(channel, keeper),
            Stage::Waiting(keeper) => self.hear_waiting(keeper),
            Stage::Opened(keeper) => self.hear_opened(channel, keeper),
            other @ (Stage::Vanished
            | Stage::Running
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over) => self.stage = other,
        }
        After::Stay
    }

    fn hear_preparing(&mut self, channel: &mut Channel, keeper: Keeper) {
        match keeper.listen() {
            None => self.stage = Stage::Preparing(keeper),
            Some(Word::Ready) => {
                let root = self.tree.root().clone();
                channel.say_with(&Reply::Spawned { root }, self.pidfd.take());
                self.stage = Stage::Waiting(keeper);
            }
            Some(Word::Failed(failure)) => self.fail(channel, failure),
            Some(Word::End) => self.stage = Stage::Vanished,
        }
    }

    fn hear_waiting(&mut self, keeper: Keeper) {
        match keeper.listen() {
            // A child that waits has nothing to say.
            None | Some(Word::Ready | Word::Failed(_)) => self.stage = Stage::Waiting(keeper),
            Some(Word::End) => self.stage = Stage::Vanished,
        }
    }

    fn hear_opened(&mut self, channel: &mut Channel, keeper: Keeper) {
        match keeper.listen() {
            None | Some(Word::Ready) => self.stage = Stage::Opened(keeper),
            Some(Word::Failed(failure)) => self.fail(channel, failure),
            // The socket ends by exec, and by death. The system marks which.
            Some(Word::End) => match never_executed(self.child) {
                Some(true) => self.stage = Stage::Vanished,
                Some(false) | None => {
                    self.stage = Stage::Running;
                    channel.say(&Reply::Running);
                }
            },
        }
    }

    /// The command did not start, and will not.
    fn fail(&mut self, channel: &mut Channel, failure: LaunchFailure) {
        channel.say(&Reply::LaunchFailed(failure.clone()));
        self.launch_failure = Some(failure);
        self.stage = Stage::Closed {
            until: now_ms() + CLOSED_WAIT_MS,
        };
    }

    /// Waits for those who have ended.
    pub(crate) fn collect(&mut self, channel: &mut Channel) -> After {
        // Its end may have come between two looks; only before it is waited for can be told
        // whether it had executed anything.
        self.hear_gate(channel);
        let mut root_end = None;
        let mut others = false;
        let tree = &mut self.tree;
        let left = harvest(|pid, exit| match tree.note_end(pid, exit) {
            true => root_end = Some(exit),
            false => others = true,
        });
        self.more_to_collect = left == Left::More;
        let mut after = root_end.map_or(After::Stay, |exit| self.root_ended(channel, exit));
        if others && left != Left::Nothing {
            after = after.and(|| self.step_if_running(channel, Event::OthersExited));
        }
        if left == Left::Nothing {
            after = after.and(|| self.nothing_left(channel));
        }
        after
    }

    fn root_ended(&mut self, channel: &mut Channel, exit: Exit) -> After {
        match self.stage {
            Stage::Opened(_) | Stage::Running => {
                channel.say(&Reply::RootExited { exit });
                self.step(channel, Event::RootExited)
            }
            Stage::Preparing(_) | Stage::Waiting(_) | Stage::Vanished => {
                let how = match exit {
                    Exit::Exited { code } => format!("exited with status {code}"),
                    Exit::Signaled { signal, .. } => format!("was ended by signal {signal}"),
                };
                let subject = format!("child {how} before the command was executed");
                self.fail(channel, failure(Step::Gate, Errno::ESRCH, subject));
                After::Stay
            }
            Stage::Closed { .. } | Stage::Told(_) | Stage::Over => After::Stay,
        }
    }

    fn step_if_running(&mut self, channel: &mut Channel, event: Event) -> After {
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

    fn nothing_left(&mut self, channel: &mut Channel) -> After {
        match self.stage {
            Stage::Closed { .. } => self.leave_closed(channel, true),
            Stage::Opened(_) | Stage::Running => self.step(channel, Event::Empty),
            Stage::Preparing(_)
            | Stage::Waiting(_)
            | Stage::Vanished
            | Stage::Told(_)
            | Stage::Over => After::Stay,
        }
    }

    /// Ends an operation whose command never ran. That it did not is worth a last word too: the
    /// supervisor may have been lost between its record of the launch and the release.
    fn leave_closed(&mut self, channel: &mut Channel, empty: bool) -> After {
        let end = if empty {
            self.tree.end_empty()
        } else {
            self.tree.end_remaining()
        };
        // How the child ended says nothing of a command that it never was.
        let end = TreeEnd { exit: None, ..end };
        if self.discarded {
            channel.say(&match empty {
                true => Reply::TreeEmpty(end.clone()),
                false => Reply::TreeRemains(end.clone()),
            });
        }
        self.account(channel, Account { end, empty })
    }

    fn step(&mut self, channel: &mut Channel, event: Event) -> After {
        let effects = self.ladder.step(event.clone(), now_ms());
        let effects = effects.unwrap_or_else(|illegal| {
            panic!("{illegal:?}: {event:?} does not fit {:?}", self.ladder)
        });
        effects.into_iter().fold(After::Stay, |after, effect| {
            after.and(|| self.carry_out(channel, effect))
        })
    }

    fn carry_out(&mut self, channel: &mut Channel, effect: Effect) -> After {
        match effect {
            Effect::NameSurvivors => {
                let (processes, total) = self.tree.name_survivors();
                channel.say(&Reply::Survivors { processes, total });
            }
            Effect::Signal(number) => {
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
                let targets = self.tree.kill();
                channel.say(&Reply::Signalled {
                    signal: Signal::KILL.number(),
                    targets,
                });
            }
            Effect::Sweep => self.tree.sweep(),
            Effect::SweepDeep => self.tree.sweep_deep(),
            Effect::FinishEmpty => {
                let end = self.tree.end_empty();
                channel.say(&Reply::TreeEmpty(end.clone()));
                return self.account(channel, Account { end, empty: true });
            }
            Effect::FinishRemains => {
                let end = self.tree.end_remaining();
                channel.say(&Reply::TreeRemains(end.clone()));
                return self.account(channel, Account { end, empty: false });
            }
        }
        After::Stay
    }

    /// Makes sure that the account is heard: by the supervisor, or by whoever recovers after it.
    fn account(&mut self, channel: &Channel, account: Account) -> After {
        self.stage = Stage::Over;
        if self.host_lost || channel.is_gone() {
            return self.leave_last_word(account);
        }
        // Before the release nothing was recorded that an account could be missing from.
        if self.waits_for_record && self.released {
            self.stage = Stage::Told(account);
            return After::Stay;
        }
        leave(HELPER_EXIT_OK)
    }

    fn leave_last_word(&self, account: Account) -> After {
        let word = LastWord {
            format: LAST_WORD_FORMAT,
            operation_id: self.terms.operation_id.clone(),
            holder: self.helper.clone(),
            root: Some(self.tree.root().clone()),
            released: self.released,
            launch_failure: self.launch_failure.clone(),
            end: account.end,
            empty: account.empty,
            written_at_ms: u64::try_from(now(Clock::Wall).as_millis()).unwrap_or(u64::MAX),
            stopped: self.stopped_for_loss,
        };
        match last_word::leave(self.holders.as_fd(), &self.terms.last_word_name, &word) {
            Ok(()) => leave(HELPER_EXIT_OK),
            Err(_) => leave(HELPER_EXIT_SYSTEM),
        }
    }
}

const fn leave(status: i32) -> After {
    After::Leave { status }
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
