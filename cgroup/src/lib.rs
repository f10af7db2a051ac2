//! Control groups v2: the root that was delegated to us, and a leaf in it for each operation.
//!
//! A group holds a tree whatever its processes do, ends it by one write, and is the only thing that
//! enforces a limit on memory, processes or processor time. It takes a root that xioflow may make
//! groups in: a *delegated* one.
//!
//! - [`Root::find`] finds it, or says what is missing and with which command to get it. It only reads,
//!   and believes `/proc/self/cgroup` and `/proc/self/mountinfo`, never a fixed layout:
//!   distributions nest their slices differently. [`delegation`] has the facts behind the answer.
//! - [`Root::prepare`] makes it hand controllers down. That may move processes, ours among them,
//!   and is needed for limits only.
//! - [`Root::domain`] is the group of a domain, and [`DomainGroup::leaf`] that of an operation.
//! - A [`Leaf`] takes [`Limits`], tells [`Events`], [`Counters`] and [`Usage`], and is frozen, killed
//!   and removed. Its [`LeafPlace`] is what to record; [`Leaf::open`] finds it again after a crash.
//! - [`prove_leaf`] makes an empty child group and removes it. It moves no process.
//!
//! ```no_run
//! use std::time::Duration;
//! use xioflow_cgroup::{GroupName, Limits, Root};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let root = Root::find()?;
//! let limits = Limits { pids_max: Some(64), ..Limits::default() };
//! root.prepare(limits.controllers())?;
//! let leaf = root.domain(GroupName::from_digest(&[7; 8]))?.leaf(&limits)?;
//! // A child is cloned into `leaf.directory_fd()`, and works.
//! leaf.kill()?;
//! if leaf.wait_empty(Duration::from_secs(5))? {
//!     leaf.remove()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Inherited from the kernel:
//!
//! - A group that hands controllers to its children may hold no process itself, save the real
//!   root ("no internal processes").
//! - A controller belongs to one hierarchy. What version 1 holds, version 2 cannot offer.
//! - Moving a process takes write access to `cgroup.procs` of the common ancestor too.
//! - `cgroup.kill` exists since Linux 5.14, and never in the root; openat2(2), without which there
//!   are no leaves, since 5.6.
//! - A process may move itself to any group that its user can write to: a leaf holds who stays in it.
//!
//! Every question has three answers: see [`Answer`]. Neighbours: the kernel crate decides what to
//! do about a limit; this one knows neither frames nor policy. Parsers and verdicts are tested with
//! trees of plain files; `tests/real` makes real groups where it may, and what needs a controller is
//! skipped where version 2 has none.
//!
//! Source: kernel admin guide, "Control Group v2"; cgroups(7); proc_pid_mountinfo(5).

#![forbid(unsafe_code)]

// The tests in here that need real groups share their place with those in `tests/real`.
#[cfg(test)]
extern crate self as xioflow_cgroup;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

mod answer;
mod controller;
mod counters;
mod cursor;
mod delegation;
mod device;
mod directory;
mod domain;
mod error;
mod events;
mod explain;
mod find_leaf;
mod flat;
mod hand_down;
mod hierarchy;
mod host;
mod kill;
mod leaf;
mod limits;
mod membership;
mod mountinfo;
mod name;
mod nested;
mod own_group;
mod place;
mod prepare;
mod proof;
mod remedy;
mod removal;
mod root;
mod state;
mod unit;
mod usage;
mod verdict;
mod view;
mod wait;

pub use answer::Answer;
pub use controller::{Controller, Controllers};
pub use counters::{Counters, MemoryCounters, OutOfMemory, PidsCounters};
pub use delegation::{Delegation, delegation};
pub use device::disk_of;
pub use domain::DomainGroup;
pub use error::GroupError;
pub use events::{Changes, Events};
pub use find_leaf::Found;
pub use hierarchy::Hierarchy;
pub use host::Host;
pub use leaf::Leaf;
pub use limits::{CpuMax, IoMax, LimitError, Limits};
pub use mountinfo::MountOptions;
pub use name::{GroupName, HOST as HOST_GROUP};
pub use own_group::{GroupType, OwnGroup};
pub use place::LeafPlace;
pub use prepare::{PrepareError, Prepared};
pub use proof::{Proof, ProofError, prove_leaf};
pub use removal::{RemoveError, Removed};
pub use root::{Root, Unavailable};
pub use state::GroupState;
pub use unit::Delegated;
pub use usage::{Pressure, Pressures, Usage};
pub use verdict::{Reason, Shortfall, Verdict};
