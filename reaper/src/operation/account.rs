//! The account of an operation: told, recorded, or left as a last word.

use xioflow_protocol::{
    HELPER_EXIT_OK, HELPER_EXIT_SYSTEM, LAST_WORD_FORMAT, LastWord, Reply, TreeEnd,
};
use xioflow_sys::{AsFd, Clock};

use super::{After, Operation, Stage};
use crate::channel::Channel;
use crate::last_word;
use crate::system::System;

/// How the tree ended.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) end: TreeEnd,
    pub(super) empty: bool,
}

impl<S: System> Operation<S> {
    /// Ends an operation whose command never ran. That it did not is worth a last word too: the
    /// supervisor may have been lost between its record of the launch and the release.
    pub(super) fn leave_closed(&mut self, channel: &mut Channel<'_>, empty: bool) -> After {
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

    /// Makes sure that the account is heard: by the supervisor, or by whoever recovers after it.
    pub(super) fn account(&mut self, channel: &Channel<'_>, account: Account) -> After {
        self.stage = Stage::Over;
        // Nobody is killed any more, so nothing is due: a time that has passed would be waited for again and again.
        self.pace = None;
        if !self.announced {
            return leave(HELPER_EXIT_OK);
        }
        if self.host_lost || channel.is_gone() {
            return self.leave_last_word(account);
        }
        // Before the release nothing was recorded that an account could be missing from.
        if self.wishes.waits_for_record && self.released {
            self.stage = Stage::Told(account);
            return After::Stay;
        }
        leave(HELPER_EXIT_OK)
    }

    pub(super) fn leave_last_word(&self, account: Account) -> After {
        let word = LastWord {
            format: LAST_WORD_FORMAT,
            operation_id: self.terms.operation_id.clone(),
            holder: self.helper.clone(),
            root: self.tree.root().cloned(),
            released: self.released,
            launch_failure: self.launch_failure.clone(),
            end: account.end,
            empty: account.empty,
            written_at_ms: u64::try_from(S::now(Clock::Wall).as_millis()).unwrap_or(u64::MAX),
            stopped: self.stopped_for_loss,
            namespace: self.tree.described_namespace(&self.helper),
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
