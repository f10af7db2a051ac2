//! The only place that waits for children.
//!
//! A status is looked at before it is taken: until then the number of the child cannot be used
//! again, so what `/proc` says under it is still about that child.

use xioflow_protocol::Exit;
use xioflow_sys::{EndKind, Errno, Pid};

use crate::system::System;

/// How many children are waited for before the loop looks at its other events: a tree that forks
/// and exits without pause must not keep a stop request from being read.
const BATCH_MAX: usize = 512;

/// What is left after a round of waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Left {
    /// Children that live.
    #[default]
    Living,
    /// More that have ended.
    More,
    /// No child at all. For a subreaper that proves its tree empty.
    Nothing,
}

/// Waits for children that have ended; `seen` hears of each before its number is free.
pub(crate) fn harvest<S: System>(mut seen: impl FnMut(u32, Exit)) -> Left {
    for _ in 0..BATCH_MAX {
        match S::peek_any() {
            Ok(Some(ended)) => {
                seen(ended.pid, exit(ended.how));
                let taken = Pid::new(ended.pid).map(S::reap);
                debug_assert!(
                    matches!(taken, Some(Ok(Some(_)))),
                    "only we wait for children"
                );
            }
            Ok(None) => return Left::Living,
            Err(Errno::ECHILD) => return Left::Nothing,
            // EINTR: SIGCHLD stays readable, and the caller comes back.
            Err(_) => return Left::More,
        }
    }
    Left::More
}

/// Waits for one child of ours, if it has ended.
pub(crate) fn take<S: System>(child: Pid) -> Option<Exit> {
    let ended = S::reap(child).ok().flatten()?;
    Some(exit(ended.how))
}

/// The same; `seen` hears of it before its number is free.
pub(crate) fn take_seen<S: System>(child: Pid, seen: impl FnOnce(Exit)) {
    if let Ok(Some(ended)) = S::peek(child) {
        seen(exit(ended.how));
        let _taken = S::reap(child);
    }
}

/// Whether one child of ours has ended. One that somebody else traces has, and is not ours to wait
/// for until the tracer lets it go: that counts as living.
pub(crate) fn has_ended<S: System>(child: Pid) -> bool {
    matches!(S::peek(child), Ok(Some(_)))
}

/// Whether there is no child at all, which for a subreaper proves its tree empty.
pub(crate) fn childless<S: System>() -> bool {
    S::peek_any() == Err(Errno::ECHILD)
}

/// How a process ended, on the wire.
pub(crate) const fn exit(how: EndKind) -> Exit {
    match how {
        EndKind::Exited { code } => Exit::Exited { code },
        EndKind::Killed { signal, core } => Exit::Signaled { signal, core },
    }
}
