//! Frames and messages between the supervisor and its helper.
//!
//! One helper holds one process tree. It is started with one end of a stream socket pair as its
//! descriptor 0 and speaks frames over it: a little-endian `u32` length, then one CBOR item.
//! This crate does no I/O and knows no clock, thread or descriptor: callers move the bytes, and
//! [`Decoder`] turns them into messages. It links no standard library, because the helper does
//! not have one.
//!
//! Order of a launch (the supervisor's messages on the left):
//!
//! ```text
//! Request::Hello   ->            <- Reply::Hello
//! Request::Launch  -> (+ descriptors)
//!                                <- Reply::Spawned (+ pidfd)   the command waits at the gate
//! Request::Release ->            <- Reply::Running | Reply::LaunchFailed
//!                                <- Reply::RootExited
//!                                <- Reply::Survivors           only when there are some
//! Request::Stop    ->            <- Reply::Signalled ...
//!                                <- Reply::TreeEmpty | Reply::TreeRemains
//! Request::Recorded ->                                            where both ends have it
//! ```
//!
//! Neighbours: `xioflow-reaper` is one end, `xioflow-kernel` the other. `docs/protocol.md`
//! describes every message.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod frame;
mod last_word;
mod message;
mod namespace;
mod plan;
mod process;

pub use frame::{Decoder, FRAME_LEN_MAX, FrameError, encode};
pub use last_word::{LAST_WORD_FORMAT, LastWord, LastWordError};
pub use message::{
    Armour, Containment, Descendants, GroupEntry, Hello, Launch, LaunchDescriptor, LaunchFailure,
    ProtocolFault, Reply, Request, ResourceLimit, Stage, TreeEnd, Usage,
};
pub use namespace::NamespaceStep;
pub use plan::{Rung, StopPlan};
pub use process::{Exit, Identity, PidNamespace, ProcessNote, Survivor, SurvivorEnd, WhyAlive};

/// The version of every message but [`Hello`], which never changes shape.
///
/// A supervisor and a helper work together only when theirs are equal; anything else is
/// [`ProtocolFault::Version`] before a command is launched.
pub const PROTOCOL_VERSION: u32 = 1;

/// The longest list of processes that one message carries; the total is always given beside it.
///
/// A tree can have tens of thousands of members. A record that names 256 of them and counts
/// the rest is still readable, and fits a frame many times over.
pub const PROCESS_NOTES_MAX: usize = 256;

/// The feature of a helper that waits, after its account of a released launch, until the supervisor
/// says [`Request::Recorded`]. It is used when both ends name it.
///
/// Without it the helper leaves with its last reply, and a supervisor that is lost before it has
/// made that durable loses the account; with it, the helper leaves a last word then.
pub const FEATURE_RECORDED: &str = "recorded";

/// Feature of a helper that takes [`Request::Suspend`] and [`Request::Resume`].
pub const FEATURE_SUSPEND: &str = "suspend";

/// Feature of a helper that sets [`Launch::nice`]. One without it would leave that unread.
pub const FEATURE_NICE: &str = "nice";

/// Feature of a helper that knows [`Launch::containment`]. One without it would leave that unread.
pub const FEATURE_PID_NAMESPACE: &str = "pid-namespace";

/// Feature of a helper that knows [`Launch::group`]. One without it would refuse the descriptor.
pub const FEATURE_CONTROL_GROUP: &str = "control-group";

/// The feature of a helper that says [`Reply::Armour`], and of a supervisor that wants to hear it.
pub const FEATURE_ARMOUR: &str = "armour";

/// The feature of a helper whose file gave it `CAP_KILL`: it ends members of its tree that belong to other
/// users.
pub const FEATURE_CAP_KILL: &str = "cap-kill";

/// Exit status of the helper after a launch it carried to the end.
pub const HELPER_EXIT_OK: i32 = 0;
/// Exit status of a helper started by hand, or with a descriptor 0 that is no socket.
pub const HELPER_EXIT_MISUSE: i32 = 100;
/// Exit status of a helper that the system refused something it cannot work without.
pub const HELPER_EXIT_SYSTEM: i32 = 111;
/// Exit status of a helper whose peer broke the protocol.
pub const HELPER_EXIT_PROTOCOL: i32 = 112;
/// Exit status of a helper that broke an invariant of its own.
pub const HELPER_EXIT_PANIC: i32 = 113;
/// Exit status of a child whose gate was closed instead of opened: nothing of the command ran.
pub const GATE_CLOSED_EXIT: i32 = 125;
