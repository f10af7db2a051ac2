//! What the system says of a process: identity, descendants, who holds a pipe, what it may do. Reads only.
//!
//! Every question has the answers yes, no and *cannot tell*; a failed look is never taken for an
//! empty world. Reading (files of proc(5)) and parsing are kept apart, so that parsing is tested
//! on plain bytes.
//!
//! Both the helper and the supervisor ask here. Neighbours: `xioflow-sys` below; on systems other
//! than Linux the crate is empty so far.

#![no_std]
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod boot;
mod crowd;
mod descriptors;
mod folder;
mod hidden;
mod identity;
mod lists;
mod namespace;
mod nearest;
mod note;
mod number;
mod path;
mod pipe;
mod read;
mod scan;
mod socket;
mod standing;
mod stat;
mod tree;
mod umask;
mod usage;

pub use boot::{boot_id, boot_time_s, started_at_ms};
pub use crowd::{processors, runnable};
pub use descriptors::open_descriptors;
pub use folder::former_folder;
pub use hidden::{hides_processes, processes_folder};
pub use identity::{Identity, Verification, identity, pidfd_inode, verify};
pub use namespace::{Namespaces, own_namespaces, pid_namespace_of_children, proc_is_ours};
pub use nearest::{Nearest, nearest_descendants};
pub use note::{Note, process_note};
pub use number::{
    Numbers, PID_MAX_LIMIT, children_by_number, last_pid, may_have_gone_round, pid_max,
};
pub use path::ProcPath;
pub use pipe::{PipeHolder, PipeHolders, pipe_holders, pipe_inode};
pub use read::CannotTell;
pub use scan::{each_process, processes};
pub use socket::socket_inodes;
pub use standing::Standing;
pub use stat::{ProcessState, Stat, StatError, StatLine, read_own_stat, read_stat};
pub use tree::{
    Descendant, Hidden, Listing, Way, children, descendants, descendants_adopted,
    descendants_outside,
};
pub use umask::own_umask;
pub use usage::{TreeUsage, proportional_bytes, tree_usage};
