//! What the supervisor asks of an operation, and what its loss asks. `None` is a request out of its
//! order; one that has merely crossed news on its way is taken without effect.

use alloc::format;

use xioflow_protocol::{HELPER_EXIT_OK, Stage as Step, StopPlan};
use xioflow_sys::{Errno, Signal};

use super::{After, CLOSED_WAIT_MS, Operation, Stage, failure};
use crate::channel::Channel;
use crate::ladder::Event;
use crate::serve::now_ms;
use crate::system::System;

impl<S: System> Operation<S> {
    /// The supervisor lets the command run. `None`: not now.
    pub(crate) fn release(&mut self, _channel: &mut Channel<'_>) -> Option<After> {
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
    pub(crate) fn discard(&mut self, _channel: &mut Channel<'_>) -> Option<After> {
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
    pub(crate) fn stop(&mut self, channel: &mut Channel<'_>, plan: StopPlan) -> Option<After> {
        match self.stage {
            Stage::Opened(_) | Stage::Running => Some(self.step(channel, Event::Stop(plan))),
            Stage::Waiting(_) => Some(self.close_for_host()),
            Stage::Vanished => Some(self.hurry_vanished()),
            // The request has crossed the news of the end.
            Stage::Closed { .. } | Stage::Told(_) | Stage::Over => Some(After::Stay),
            Stage::Preparing(_) => None,
        }
    }

    /// The supervisor wants the tree to stand still, as at a terminal. `None`: it was not told of any
    /// yet. A tree that is being ended has to run for that.
    pub(crate) fn suspend(&mut self, _channel: &mut Channel<'_>) -> Option<After> {
        if self.holds_a_tree()? && !self.ladder.is_ending() {
            self.tree.job_control(Signal::STOP);
        }
        Some(After::Stay)
    }

    /// The supervisor wants the tree to go on. `None` as above.
    pub(crate) fn resume(&mut self, _channel: &mut Channel<'_>) -> Option<After> {
        if self.holds_a_tree()? {
            self.tree.job_control(Signal::CONT);
        }
        Some(After::Stay)
    }

    /// Whether there is a tree that was let run; `None` before the supervisor could know of one.
    fn holds_a_tree(&self) -> Option<bool> {
        match self.stage {
            Stage::Opened(_) | Stage::Running => Some(true),
            // The request has crossed the news of the end, or the gate is still closed.
            Stage::Waiting(_)
            | Stage::Vanished
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over => Some(false),
            Stage::Preparing(_) => None,
        }
    }

    /// The supervisor has made the account durable. `None`: it has none yet.
    pub(crate) fn recorded(&mut self, _channel: &mut Channel<'_>) -> Option<After> {
        matches!(self.stage, Stage::Told(_)).then(|| {
            self.stage = Stage::Over;
            After::Leave {
                status: HELPER_EXIT_OK,
            }
        })
    }

    /// From now on there is nobody to tell.
    pub(crate) fn note_host_lost(&mut self) {
        self.host_lost = true;
    }

    /// Ends what is held, because the supervisor is gone or the helper itself was told to end.
    pub(crate) fn abandon(&mut self, channel: &mut Channel<'_>, told: Option<Signal>) -> After {
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
            Stage::Vanished => self.hurry_vanished(),
            Stage::Preparing(_) | Stage::Waiting(_) | Stage::Closed { .. } | Stage::Over => {
                After::Stay
            }
        }
    }

    /// How the child died is known when it is waited for, and a tracer from outside may keep it from that.
    pub(super) fn hurry_vanished(&mut self) -> After {
        self.vanished_until
            .get_or_insert(now_ms::<S>() + CLOSED_WAIT_MS);
        After::Stay
    }

    /// Tells of a child that died before it executed anything, once it was waited for long enough.
    pub(super) fn give_vanished_up(&mut self, channel: &mut Channel<'_>) -> After {
        if self
            .vanished_until
            .is_some_and(|until| now_ms::<S>() >= until)
        {
            let subject = "child died before the command was executed, and cannot be waited for";
            self.fail(channel, failure(Step::Gate, Errno::ESRCH, subject.into()));
        }
        After::Stay
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
            let _sent = S::kill(self.child, Signal::KILL);
        }
        self.stage = Stage::Closed {
            until: now_ms::<S>() + CLOSED_WAIT_MS,
        };
        After::Stay
    }
}
