//! What is done where the helper of an operation is gone: its tree is ended from here, by whichever net
//! is below it.

use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};
use xioflow_protocol::{Exit, TreeEnd, Usage};

use super::{Ending, Supervision};
use crate::deadline::timespec_until;
use crate::helper::HelperLost;
use crate::operation::adopt::end_orphans;
use crate::operation::gate::DISCARD_PATIENCE;

/// What is below a helper that is gone, and has what it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operation) enum Net {
    /// It came to this process, which adopts.
    Adoption,
    /// The kernel has ended its pid namespace.
    PidNamespace,
    /// The kernel has ended everybody in its control group.
    ControlGroup,
}

impl Supervision<'_> {
    /// The helper is gone. The command itself is killed through its pidfd, which cannot mean
    /// another process. The rest of the tree comes to this process if it adopts orphans, or ends with
    /// its pid namespace or its control group; else nothing can be said of it.
    pub(super) fn lose(&mut self, lost: HelperLost) {
        self.kill_root();
        let mut adopted = None;
        if self.inner.adopts_orphans {
            self.link.make_sure_it_is_gone();
            adopted = end_orphans(self.root, self.told.exit());
        }
        let exit = adopted.as_ref().and_then(|(end, _)| end.exit);
        let exit = exit.or(self.told.exit());
        // What else has come up may be of others, so that the namespace is asked all the same.
        let ended_namespace = self.end_namespace();
        let ended_group = self.end_group();
        let ending = match (ended_namespace, adopted, ended_group) {
            (true, ..) => Ending::Ended {
                lost,
                by: Net::PidNamespace,
                end: unseen_end(exit, ended_group),
                empty: true,
            },
            (false, Some((end, empty)), _) => Ending::Ended {
                lost,
                by: Net::Adoption,
                end: TreeEnd {
                    group_empty: ended_group,
                    ..end
                },
                // A member of the group that is no orphan of ours is still one of the tree.
                empty: empty && ended_group != Some(false),
            },
            (false, None, Some(true)) => Ending::Ended {
                lost,
                by: Net::ControlGroup,
                end: unseen_end(exit, ended_group),
                empty: true,
            },
            (false, None, Some(false) | None) => Ending::Lost(lost),
        };
        self.end(ending);
    }

    /// Ends the tree with its pid namespace; true where it has one and that has ended. Who was in it is not seen.
    fn end_namespace(&mut self) -> bool {
        let Some(namespace) = self.namespace.as_ref() else {
            return false;
        };
        // It waits for the command, without whose end that of the namespace would not come.
        self.link.make_sure_it_is_gone();
        namespace.end()
    }

    /// Ends whoever is in the control group, where there is one; says whether that is empty now. The helper must be
    /// gone: it would take their end for news of its own.
    fn end_group(&mut self) -> Option<bool> {
        let group = self.group.as_ref()?;
        self.link.make_sure_it_is_gone();
        Some(group.end())
    }

    /// The helper was gone before it could be told to open the gate. There is one process then, the
    /// one that stands there, and it never was the command.
    pub(super) fn never_released(&mut self, lost: HelperLost) {
        self.kill_root();
        let mut gone = false;
        if let Some(pidfd) = &self.root_pidfd {
            let until = Instant::now().checked_add(DISCARD_PATIENCE);
            let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
            gone = poll(&mut polled, timespec_until(until).as_ref()) == Ok(1);
        }
        if self.inner.adopts_orphans {
            self.link.make_sure_it_is_gone();
            gone |= end_orphans(self.root, None).is_some_and(|(_, empty)| empty);
        }
        self.end(Ending::NeverReleased { lost, gone });
    }

    fn kill_root(&self) {
        if let Some(pidfd) = &self.root_pidfd {
            // It may have ended already (ESRCH), which is as good.
            pidfd_send_signal(pidfd, Signal::KILL).ok();
        }
    }
}

/// The end of a tree that was not seen, but for the exit that may be known.
fn unseen_end(exit: Option<Exit>, group_empty: Option<bool>) -> TreeEnd {
    TreeEnd {
        exit,
        survivors: Vec::new(),
        survivors_total: 0,
        usage: Usage::default(),
        last_signal: Some(Signal::KILL.as_raw()),
        group_empty,
    }
}
