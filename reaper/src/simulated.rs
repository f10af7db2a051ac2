//! The helper on a system that is not this machine: what a test needs to be everything around it.
//!
//! Nothing here is part of the program, which is made for this machine alone. The simulation that uses it
//! is in `tests/simulation`.

use core::time::Duration;

use xioflow_protocol::Identity;
use xioflow_sys::{BorrowedFd, SignalFd};

pub use crate::gate::{Keeper, OPEN, READY};
pub use crate::launch::{Command, Standard};
pub use crate::namespace::Namespace;
pub use crate::namespace::init::{DISMISSED, READY as INIT_READY};
use crate::serve::Server;
use crate::setup::Ground;
pub use crate::spawn::Spawned;
pub use crate::system::System;
use crate::targets::Helper;

/// What [`crate::main`] has made ready by itself when the loop begins.
#[derive(Debug)]
pub struct Place<'fd> {
    /// The socket to the supervisor.
    pub control: BorrowedFd<'fd>,
    /// Handed to [`System::wait`] and [`System::next_signal`].
    pub signals: SignalFd,
    /// Who the helper is. It leads its own group and session.
    pub identity: Identity,
    /// Above every number that a process can have.
    pub pid_max: u32,
}

/// Serves one supervisor to the end, and says the exit status.
pub fn serve<S: System>(place: Place<'_>, proof: S::Proof) -> i32 {
    let pid = place.identity.pid;
    let helper = Helper {
        pid,
        group: pid,
        session: pid,
        pid_max: place.pid_max,
        // Long ago: there numbers go round at any time.
        begun: Duration::ZERO,
    };
    let ground = Ground {
        control: place.control,
        signals: place.signals,
        helper,
        identity: place.identity,
        page_size: 4096,
        stranger: None,
    };
    Server::<S>::new(ground, proof).run()
}
