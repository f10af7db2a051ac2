//! What a command prints: drained from its pipes, stored, hashed, bounded, and passed on.
//!
//! The drain waits for nobody but the disk: subscribers that are slow get a note of what they missed,
//! and can read it from the stored file. Only where nothing is stored any more, and a subscriber
//! has asked not to lose anything, the command waits for that one, as for the reader of its pipe.

mod budget;
mod check;
mod digest;
mod drain;
mod feed;
mod feeds;
mod folder;
mod head_tail;
mod lines;
mod order;
mod room;
mod seek;
mod spool;
mod store;
mod stored;
mod subscription;
mod tail;
mod verify;

pub use budget::{ArtifactBytes, DEFAULT_MAX_ARTIFACT_BYTES};
pub use check::OutputCheck;
pub use feed::Piece;
pub use order::OutputOrder;
pub use room::DEFAULT_MAX_STORED_BYTES;
pub use spool::artifact_name;
pub use stored::{Extent, OutputError, OutputReader};
pub use subscription::Subscription;
pub use verify::{StoredFileState, check_stored_file};

pub(crate) use digest::hex;
pub(crate) use drain::{Drain, Drained, StreamLimits};
pub(crate) use feed::{Feed, Owed};
pub(crate) use feeds::Feeds;
pub(crate) use folder::{Artifacts, FileId, Found};
pub(crate) use spool::{artifact_stem, spooled};
pub(crate) use stored::read_back;
pub(crate) use subscription::subscribe;
