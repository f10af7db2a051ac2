//! The pid namespace of one tree, as its supervisor holds it: by a descriptor of its init. What the helper
//! does with it is the helper's; here it is what is left of the tree when the helper is gone.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};
use xioflow_protocol::PidNamespace;

use super::record::plain_identity;
use crate::deadline::timespec_until;
use crate::helper::{forget_init, note_init};
use crate::observe;
use crate::result::TreeNamespace;

/// How long the kernel may take to end everybody in a namespace. It takes milliseconds, unless somebody is
/// in uninterruptible sleep.
const PATIENCE: Duration = Duration::from_secs(5);

/// A namespace whose init is known for as long as this lives.
#[derive(Debug)]
pub(super) struct HeldNamespace {
    told: PidNamespace,
    /// None where the init was gone already, or could not be identified.
    init: Option<OwnedFd>,
}

impl HeldNamespace {
    pub(super) fn hold(told: PidNamespace) -> Self {
        note_init(told.init.pid);
        let init = observe::hold(&plain_identity(&told.init)).ok();
        Self { told, init }
    }

    /// The number of its first process.
    pub(super) fn init_pid(&self) -> u32 {
        self.told.init.pid
    }

    /// As it goes into the record.
    pub(super) fn record(&self) -> TreeNamespace {
        TreeNamespace {
            init: Box::new(plain_identity(&self.told.init)),
            inode: self.told.inode,
            user_namespace: self.told.user_namespace,
        }
    }

    /// Kills the init, and with it everybody in the namespace. True if that has ended: the kernel waits for
    /// everybody before an init ends, zombies included.
    pub(super) fn end(&self) -> bool {
        let Some(init) = &self.init else {
            return false;
        };
        // It may have ended already (ESRCH), which is as good.
        pidfd_send_signal(init, Signal::KILL).ok();
        let until = Instant::now().checked_add(PATIENCE);
        loop {
            let mut polled = [PollFd::new(init, PollFlags::IN)];
            match poll(&mut polled, timespec_until(until).as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return ready == Ok(1),
            }
        }
    }
}

impl Drop for HeldNamespace {
    fn drop(&mut self) {
        // Its number may mean another process from now on.
        forget_init(self.told.init.pid);
    }
}
