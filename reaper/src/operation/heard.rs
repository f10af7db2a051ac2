//! What the child says at the gate, and what its silence means.

use alloc::format;

use xioflow_protocol::{LaunchFailure, Reply, Stage as Step};
use xioflow_sys::{AsFd, Errno};

use super::{After, CLOSED_WAIT_MS, Operation, Stage, failure};
use crate::channel::Channel;
use crate::gate::{Keeper, Word};
use crate::namespace::Heard;
use crate::serve::now_ms;
use crate::system::System;
use crate::tree::{identify, never_executed};

impl<S: System> Operation<S> {
    /// Hears what the child says at the gate.
    pub(crate) fn hear_gate(&mut self, channel: &mut Channel<'_>) -> After {
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

    fn hear_preparing(&mut self, channel: &mut Channel<'_>, keeper: Keeper) {
        match keeper.listen() {
            None => self.stage = Stage::Preparing(keeper),
            Some(Word::Ready) => {
                self.at_gate = true;
                self.announce(channel, keeper);
            }
            Some(Word::Failed(failure)) => self.fail(channel, failure),
            Some(Word::End) => self.stage = Stage::Vanished,
        }
    }

    /// Hears what the init of a namespace says of itself.
    pub(crate) fn hear_init(&mut self, channel: &mut Channel<'_>) -> After {
        match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Preparing(keeper) => match self.tree.hear_init() {
                Heard::Failed(failure) => self.fail(channel, failure),
                Heard::Ready if self.at_gate => self.announce(channel, keeper),
                Heard::Ready | Heard::Nothing => self.stage = Stage::Preparing(keeper),
            },
            other @ (Stage::Waiting(_)
            | Stage::Opened(_)
            | Stage::Vanished
            | Stage::Running
            | Stage::Closed { .. }
            | Stage::Told(_)
            | Stage::Over) => self.stage = other,
        }
        After::Stay
    }

    /// Says who waits at the gate. Only now can that be seen everywhere: up to its first step the child
    /// is as little dumpable as the helper, and a `/proc` that hides others shows neither (`hidepid`).
    ///
    /// Whoever is let run has an init that ends with the helper.
    fn announce(&mut self, channel: &mut Channel<'_>, keeper: Keeper) {
        match self.tree.hear_init() {
            Heard::Ready => {}
            Heard::Nothing => {
                self.stage = Stage::Preparing(keeper);
                return;
            }
            Heard::Failed(failure) => return self.fail(channel, failure),
        }
        let Some(root) = identify::<S>(self.child, &self.helper, self.pidfd.as_ref()) else {
            // The gate closes with `keeper`: a child that cannot be named must not run.
            let subject = format!("/proc/{}/stat", self.child);
            return self.fail(channel, failure(Step::Gate, Errno::ENOENT, subject));
        };
        self.tree.identified(root.clone());
        let namespace = self.tree.described_namespace(&self.helper);
        let group = self.entry;
        let spawned = Reply::Spawned {
            root,
            namespace,
            group,
        };
        channel.say_with(&spawned, self.pidfd.take());
        self.announced = true;
        self.arm(channel);
        self.stage = Stage::Waiting(keeper);
    }

    /// The child is made, and nothing of the command runs yet: from now on the helper needs little.
    fn arm(&self, channel: &mut Channel<'_>) {
        let armour = S::put_on_armour(self.holders.as_fd());
        if self.wishes.hears_armour {
            channel.say(&Reply::Armour(armour));
        }
    }

    fn hear_waiting(&mut self, keeper: Keeper) {
        match keeper.listen() {
            // A child that waits has nothing to say.
            None | Some(Word::Ready | Word::Failed(_)) => self.stage = Stage::Waiting(keeper),
            Some(Word::End) => self.stage = Stage::Vanished,
        }
    }

    fn hear_opened(&mut self, channel: &mut Channel<'_>, keeper: Keeper) {
        match keeper.listen() {
            None | Some(Word::Ready) => self.stage = Stage::Opened(keeper),
            Some(Word::Failed(failure)) => self.fail(channel, failure),
            // The socket ends by exec, and by death. The system marks which.
            Some(Word::End) => match never_executed::<S>(self.child) {
                Some(true) => {
                    self.stage = Stage::Vanished;
                    if self.ladder.is_ending() {
                        self.hurry_vanished();
                    }
                }
                Some(false) | None => {
                    self.stage = Stage::Running;
                    channel.say(&Reply::Running);
                }
            },
        }
    }

    /// The command did not start, and will not.
    pub(super) fn fail(&mut self, channel: &mut Channel<'_>, failure: LaunchFailure) {
        channel.say(&Reply::LaunchFailed(failure.clone()));
        self.launch_failure = Some(failure);
        self.stage = Stage::Closed {
            until: now_ms::<S>() + CLOSED_WAIT_MS,
        };
    }
}
