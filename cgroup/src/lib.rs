//! Control groups v2: whether ours is delegated, and what is missing if it is not.
//!
//! A hard limit on memory, processes or processor time needs a control group that xioflow may
//! make children in: a *delegated* one. This crate says whether the group of the calling process
//! is that, what is missing, and with which command to get it.
//!
//! - [`delegation`] only reads. It believes `/proc/self/cgroup` and `/proc/self/mountinfo`, never
//!   a fixed layout: distributions nest their slices differently.
//! - [`prove_leaf`] makes an empty child group and removes it. It moves no process.
//!
//! Inherited from the kernel:
//!
//! - A group that hands controllers to its children may hold no process itself, save the real
//!   root ("no internal processes").
//! - A controller belongs to one hierarchy. What version 1 holds, version 2 cannot offer.
//! - Moving a process takes write access to `cgroup.procs` of the common ancestor too.
//! - `cgroup.kill` exists since Linux 5.14, and never in the root.
//!
//! Every question has three answers: see [`Answer`]. Neighbours: the kernel crate decides what to
//! do about a limit; this one knows neither frames nor policy. Tests use trees made of plain
//! files, so they need no privilege; the ones that ask the real system check consistency only.
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
pub use name::GroupName;
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
