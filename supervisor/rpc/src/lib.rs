//! What clients and the arbiter of a domain say to each other: JSON-RPC 2.0 over a Unix socket, one
//! message a line. Types and rules only; nothing here opens, reads or writes anything.
//!
//! - `envelope` is the outermost shape of a message, the same for every method;
//! - `text` carries strings of the system, which need not be UTF-8;
//! - `kernel`, `domain`, `operation`, `limits`, `upkeep` and `journal` have the methods, each with the types of its
//!   parameters and its result;
//! - `piece` is output in frames, the one thing that is no line;
//! - `refusal` is why a request was not carried out;
//! - `start` is what an arbiter says to whoever started it;
//! - `schema`, with the feature of that name, describes all of it for machines;
//! - `codec` makes lines of messages, and of received bytes lines and messages, within bounds.
//!
//! [`kernel::Hello`], [`kernel::Welcome`], [`kernel::Shutdown`] and [`kernel::ShutdownBegun`] never
//! change their shape: that is how programs of different releases find out about each other.

#![forbid(unsafe_code)]

pub mod codec;
pub mod domain;
pub mod envelope;
pub mod journal;
pub mod kernel;
pub mod limits;
pub mod method;
pub mod operation;
pub mod piece;
pub mod refusal;
#[cfg(any(test, feature = "schema"))]
pub mod schema;
pub mod start;
pub mod text;
pub mod upkeep;

/// Version of the protocol. Another one is a named refusal of `kernel.hello`.
pub const PROTOCOL_VERSION: u32 = 1;

/// Name of the socket in the domain's folder.
pub const SOCKET_NAME: &str = "kernel.sock";

/// Longest line of a client, in bytes, its end included. Arguments and environment of a command can be
/// 6 MiB (execve(2)), and JSON writes some bytes in six.
pub const REQUEST_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Longest line of the arbiter, in bytes, its end included.
pub const REPLY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Descriptors that travel with one request at most.
pub const DESCRIPTORS_MAX: usize = 3;
