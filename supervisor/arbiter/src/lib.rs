//! The arbiter of a domain: one process that owns it and executes for many clients.
//!
//! [`serve()`] takes the domain, listens at `kernel.sock` in its folder, and speaks `xioflow-rpc` with
//! whoever has the same rights as itself. There is one loop for all sockets, a thread for each operation in
//! flight, one for each output that is passed on, and a few while questions are answered.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//! use xioflow_arbiter::{ArbiterOptions, Ended, ShutdownHandle, serve};
//!
//! let shutdown = ShutdownHandle::new()?; // for a signal handler: shutdown.stop(grace)
//! let options = ArbiterOptions {
//!     idle: Some(Duration::from_secs(600)),
//!     shutdown: Some(shutdown.clone()),
//!     ..ArbiterOptions::default()
//! };
//! let ended = serve(Path::new("/srv/builds"), options, || println!("clients can come"))?;
//! assert!(matches!(ended, Ended::Idle | Ended::Told));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds
//!
//! - **No client costs another one anything.** Whoever does not read is no longer read; what it is owed waits
//!   within a bound. Whoever says half a line, too much, or nothing, has only its own connection to lose.
//! - **A result is told once or the connection ends.** Output may be left out, and is then named.
//! - **A client that goes away leaves nothing running that nobody waits for**, unless it said so.
//! - **A descriptor of a client is never made non-blocking**, has one owner, and is closed at its end.
//! - **Nobody is lent rights.** Another user, namespace or confinement than the arbiter's is refused.
//!
//! The files: `serve` is its life, `socket` its address, `server` the loop, `connection` and `outgoing` the two
//! directions of one connection, `client` what other threads know of it; `reading` takes lines in turn, `dispatch`
//! says which act of `own`, `acts`, `answers` and `upkeep` follows, `questions` runs those that may take long; `exec` and
//! `attach` carry out what lasts, `pass_on` and `chunks` bring output, `finish` the result, `events` the journal.
//! `lost`, `idle`, `ending` and `inline` are pure rules, `limits` has the bounds and `budget` their sum.

#![forbid(unsafe_code)]

mod acts;
mod answers;
mod attach;
mod bell;
mod budget;
mod chunks;
mod client;
mod command;
mod connection;
mod convert;
mod descriptors;
mod dispatch;
mod ending;
mod events;
mod exec;
mod finish;
mod idle;
mod inline;
mod limits;
mod lost;
mod options;
mod outgoing;
mod own;
mod own_limits;
mod pass_on;
mod peer;
mod questions;
mod reading;
mod refusal;
mod serve;
mod server;
mod session;
mod shared;
mod socket;
mod upkeep;

pub use options::{
    ArbiterOptions, DEFAULT_CLIENT_GRACE, DEFAULT_IDLE, DEFAULT_WAIT, DEFAULT_WARM_HELPERS,
    ShutdownHandle,
};
pub use serve::{Ended, ServeError, serve};
pub use socket::SocketError;
