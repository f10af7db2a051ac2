//! The durable record of a domain: schema, writer, fence, reader.
#![forbid(unsafe_code)]

mod apply;
mod clock;
mod connection;
mod create;
mod error;
mod events;
mod folder;
mod header;
mod journal;
mod lock;
mod main_file;
mod model;
mod open;
mod owner;
mod query;
mod queue;
mod reader;
mod rows;
mod schema;
mod watch;
mod writer;

pub use apply::Rejected;
pub use error::{Cause, DataError, DataFault, Fault, StorageError};
pub use folder::DomainDir;
pub use header::FileError;
pub use journal::{CommitReceipt, Journal, Stats};
pub use lock::{LockNote, OwnerState};
pub use model::*;
pub use open::{OpenError, OpenOptions};
pub use query::{OperationFilter, Query, ReadError};
pub use reader::Reader;
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use writer::{CommitError, FenceReason};
