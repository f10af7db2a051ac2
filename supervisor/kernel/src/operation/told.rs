//! What a helper may say once it was told to open the gate, and in which order. Pure.
//!
//! A helper that contradicts itself cannot be believed in anything, so the first contradiction ends
//! the conversation: an end that is made up must not become a result.

use xioflow_protocol::{Exit, Reply, TreeEnd};

use super::supervise::Ending;
use crate::helper::HelperLost;

/// How many replies one operation takes between two wishes to stop it. A helper sends fewer than
/// twenty; one that goes on for ever would keep its supervisor busy for ever.
const REPLIES_MAX: u32 = 4096;

/// What the helper of one operation has said so far.
#[derive(Debug)]
pub(super) struct Told {
    running: bool,
    exit: Option<Exit>,
    signalled: Option<i32>,
    /// Whether it had sent one before the command ended.
    signalled_command: bool,
    replies_left: u32,
}

/// What a reply says that was not known.
#[derive(Debug)]
pub(super) enum News {
    /// Nothing that matters now.
    None,
    /// The program was executed.
    Running,
    /// The command itself has ended.
    Exited,
    /// The whole of it is over.
    Over(Ending),
}

impl Told {
    pub(super) fn nothing() -> Self {
        Self {
            running: false,
            exit: None,
            signalled: None,
            signalled_command: false,
            replies_left: REPLIES_MAX,
        }
    }

    /// Whether the program was executed, as far as the helper said.
    pub(super) fn running(&self) -> bool {
        self.running
    }

    /// How the command ended, if that was said.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// The last signal that it has sent to the tree, as far as it said.
    pub(super) fn signalled(&self) -> Option<i32> {
        self.signalled
    }

    /// Whether it has sent a signal to the tree before the command had ended, as far as it said.
    pub(super) fn signalled_command(&self) -> bool {
        self.signalled_command
    }

    /// Something was asked, and may be answered at some length.
    pub(super) fn expect_more(&mut self) {
        self.replies_left = REPLIES_MAX;
    }

    /// Takes the next reply.
    ///
    /// # Errors
    /// [`HelperLost`] if no helper says this after what was said.
    pub(super) fn take(&mut self, reply: Reply) -> Result<News, HelperLost> {
        self.replies_left = self
            .replies_left
            .checked_sub(1)
            .ok_or(HelperLost::Excess("replies without end"))?;
        match reply {
            Reply::Running if self.running => contradiction("it runs, again"),
            Reply::Running => {
                self.running = true;
                Ok(News::Running)
            }
            Reply::RootExited { .. } if self.exit.is_some() => {
                contradiction("a second exit of the command")
            }
            // Of one that ended at once there may be no other sign that it was executed.
            Reply::RootExited { exit } => {
                self.running = true;
                self.exit = Some(exit);
                Ok(News::Exited)
            }
            Reply::LaunchFailed(_) if self.running => {
                contradiction("a failed launch of a command that runs")
            }
            Reply::LaunchFailed(failure) => Ok(News::Over(Ending::NotExecuted(failure))),
            Reply::TreeEmpty(end) => self.over(end, Ending::Empty),
            Reply::TreeRemains(end) => self.over(end, Ending::Remains),
            Reply::Signalled { signal, .. } => {
                self.signalled = Some(signal);
                self.signalled_command |= self.exit.is_none();
                Ok(News::None)
            }
            // They come again, complete, with the end of the tree.
            Reply::Survivors { .. } => Ok(News::None),
            Reply::Hello(_) | Reply::Spawned { .. } => contradiction("a launch report again"),
            Reply::Armour(_) => contradiction("what nobody had asked for"),
            Reply::Refused(_) | Reply::Panicked { .. } => contradiction("a refusal"),
        }
    }

    fn over(&self, end: TreeEnd, ending: fn(TreeEnd) -> Ending) -> Result<News, HelperLost> {
        if end.exit != self.exit {
            return contradiction("another exit of the command than it had reported");
        }
        Ok(News::Over(ending(end)))
    }
}

fn contradiction(what: &'static str) -> Result<News, HelperLost> {
    Err(HelperLost::OutOfOrder(what))
}

/// The same, as a model drives it.
#[cfg(feature = "rules")]
#[derive(Debug)]
pub struct Talk(Told);

/// What a reply says, as a model takes it.
#[cfg(feature = "rules")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that matters now.
    Nothing,
    /// The program was executed.
    Running,
    /// The command itself has ended.
    Exited,
    /// The program could not be executed.
    NotExecuted,
    /// Nothing is left of the tree.
    Empty(TreeEnd),
    /// Some of it could not be ended.
    Remains(TreeEnd),
}

#[cfg(feature = "rules")]
impl Talk {
    /// Nothing was said yet.
    #[must_use]
    pub fn begin() -> Self {
        Self(Told::nothing())
    }

    /// Takes the next reply.
    ///
    /// # Errors
    /// [`HelperLost`] if no helper says this after what was said.
    pub fn hear(&mut self, reply: Reply) -> Result<Heard, HelperLost> {
        Ok(match self.0.take(reply)? {
            News::Running => Heard::Running,
            News::Exited => Heard::Exited,
            News::Over(Ending::NotExecuted(_)) => Heard::NotExecuted,
            News::Over(Ending::Empty(end)) => Heard::Empty(end),
            News::Over(Ending::Remains(end)) => Heard::Remains(end),
            // The others come of no reply.
            News::None | News::Over(_) => Heard::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xioflow_protocol::{Identity, LaunchFailure, Stage, Usage};

    const OK: Exit = Exit::Exited { code: 0 };
    const FAILED: Exit = Exit::Exited { code: 1 };

    fn exited(exit: Exit) -> Reply {
        Reply::RootExited { exit }
    }

    fn end(exit: Option<Exit>) -> TreeEnd {
        TreeEnd {
            exit,
            survivors: Vec::new(),
            survivors_total: 0,
            usage: Usage::default(),
            last_signal: None,
            group_empty: None,
        }
    }

    fn launch_failed() -> Reply {
        Reply::LaunchFailed(LaunchFailure {
            stage: Stage::Exec,
            errno: 2,
            subject: Vec::new().into(),
        })
    }

    fn spawned() -> Reply {
        let root = Identity {
            pid: 7,
            start_ticks: 1,
            boot_id: [0; 16],
            pidfd_inode: None,
        };
        Reply::Spawned {
            root,
            namespace: None,
            group: None,
        }
    }

    #[test]
    fn a_signal_before_the_exit_is_told_from_one_after_it() {
        let exit = || Reply::RootExited {
            exit: Exit::Exited { code: 0 },
        };
        for (replies, expected) in [
            (vec![Reply::Running, signalled(), exit()], true),
            (vec![Reply::Running, exit(), signalled()], false),
        ] {
            let mut told = Told::nothing();
            for reply in replies {
                told.take(reply).expect("in its order");
            }
            assert_eq!(told.signalled_command(), expected);
        }
    }

    fn signalled() -> Reply {
        Reply::Signalled {
            signal: 15,
            targets: 1,
        }
    }

    fn survivors() -> Reply {
        Reply::Survivors {
            processes: Vec::new(),
            total: 1,
        }
    }

    /// What all but the last of them are must be in order.
    fn last_of(replies: Vec<Reply>) -> Result<News, HelperLost> {
        let mut told = Told::nothing();
        let mut last = Ok(News::None);
        for reply in replies {
            last.expect("only the last may be out of order");
            last = told.take(reply);
        }
        last
    }

    #[test]
    fn every_order_of_a_true_helper_is_taken() {
        for replies in [
            vec![Reply::Running, exited(OK), Reply::TreeEmpty(end(Some(OK)))],
            vec![exited(OK), Reply::TreeEmpty(end(Some(OK)))],
            vec![Reply::Running, Reply::TreeRemains(end(None))],
            vec![signalled(), Reply::TreeRemains(end(None))],
            vec![
                Reply::Running,
                exited(FAILED),
                survivors(),
                signalled(),
                Reply::TreeRemains(end(Some(FAILED))),
            ],
            vec![launch_failed()],
        ] {
            let case = format!("{replies:?}");
            assert!(matches!(last_of(replies), Ok(News::Over(_))), "{case}");
        }
    }

    #[test]
    fn no_contradiction_is_taken() {
        for replies in [
            vec![Reply::Running, Reply::Running],
            vec![exited(OK), Reply::Running],
            vec![exited(OK), exited(OK)],
            vec![exited(OK), exited(FAILED)],
            vec![Reply::Running, launch_failed()],
            vec![exited(OK), launch_failed()],
            vec![Reply::TreeEmpty(end(Some(OK)))],
            vec![Reply::Running, Reply::TreeEmpty(end(Some(OK)))],
            vec![exited(FAILED), Reply::TreeEmpty(end(Some(OK)))],
            vec![exited(OK), Reply::TreeEmpty(end(None))],
            vec![exited(OK), Reply::TreeRemains(end(Some(FAILED)))],
            vec![spawned()],
            vec![Reply::Running, spawned()],
        ] {
            let case = format!("{replies:?}");
            let last = last_of(replies);
            assert!(
                matches!(last, Err(HelperLost::OutOfOrder(_))),
                "{case}: {last:?}"
            );
        }
    }

    #[test]
    fn talk_without_end_is_ended() {
        let mut told = Told::nothing();
        for _ in 0..REPLIES_MAX {
            assert!(matches!(told.take(signalled()), Ok(News::None)));
        }
        assert!(matches!(told.take(signalled()), Err(HelperLost::Excess(_))));
        told.expect_more();
        assert!(matches!(told.take(signalled()), Ok(News::None)));
    }
}
