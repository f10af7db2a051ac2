//! What becomes of a domain when its disk loses power, fails, fills up or is damaged.
//!
//! This library is what the suites beside it stand on. [`trace`] reads what strace(1) has recorded
//! of the real programs, [`recording`] makes changes of a disk and told facts of it, and [`disk`]
//! is a model of a disk that can lose power: what of those changes is on it for certain, and what
//! may be. [`random`] decides which of the latter, from a seed that is printed. All four are pure;
//! [`strace`] says whether there is one.
//!
//! The rules of the model are those of POSIX and not of one file system: fsync(2) of a file keeps
//! its content and its length and not its name; fsync(2) of a folder keeps the names in it; of
//! everything else any part may survive, a write in pieces of a sector, in any order.

#![forbid(unsafe_code)]

pub mod disk;
pub mod random;
pub mod recording;
pub mod strace;
pub mod trace;
