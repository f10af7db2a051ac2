//! What a command prints: drained from its pipes, stored, hashed, bounded, and passed on.
//!
//! The drain never waits for anybody but the disk: subscribers that are slow get a note of what
//! they missed, and can read it from the stored file.

mod digest;
mod drain;
mod feed;
mod feeds;
mod head_tail;
mod spool;

pub use feed::{Piece, Subscription};
pub use spool::artifact_name;

pub(crate) use digest::hex;
pub(crate) use drain::{Drain, Drained};
pub(crate) use feed::{Feed, feed};
pub(crate) use feeds::Feeds;
pub(crate) use head_tail::{HeadTail, Kept};
pub(crate) use spool::{Artifacts, artifact_stem, spooled};
