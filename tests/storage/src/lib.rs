//! What becomes of a domain when its disk loses power, fails, fills up or is damaged.
//!
//! This library is what the suites beside it stand on. [`trace`] reads what strace(1) has recorded
//! of the real programs, [`recording`] makes changes of a disk and told facts of it, and [`disk`]
//! is a model of a disk that can lose power: what of those changes is on it for certain, and what
//! may be; which of the latter is the chance of the kit. All three are pure.
//!
//! The rules of the model are those of POSIX and not of one file system: fsync(2) of a file keeps
//! its content and its length and not its name; fsync(2) of a folder keeps the names in it; of
//! everything else any part may survive, a write in pieces of a sector, in any order.

#![forbid(unsafe_code)]

pub mod disk;
pub mod recording;
pub mod trace;
