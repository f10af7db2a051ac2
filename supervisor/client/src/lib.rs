//! The way to the arbiter of a domain: looked at before it is trusted, connected to, and started
//! where there is none.
//!
//! - `endpoint` is the domain's folder and the socket in it, with what is checked about both;
//! - `greeting` is the first word on a connection, `connection` all that follow, `transfer` how bytes
//!   and descriptors get through the socket;
//! - `negotiate` and `release` say what to do with an arbiter of another release;
//! - `starter` attaches or starts, `gate` keeps starters apart, `launch` starts the program, `log` is
//!   where that writes, and `daemon` is the other side of it.
//!
//! # Use
//!
//! ```no_run
//! use std::time::Duration;
//! use xioflow_client::Starter;
//! use xioflow_rpc::domain::{Status, StatusOf};
//! use xioflow_rpc::{PROTOCOL_VERSION, kernel::Hello, method::Method};
//!
//! let hello = Hello { protocol: PROTOCOL_VERSION, release: "0.1.0".into(), client: "example".into() };
//! let starter = Starter::new("/usr/bin/xioflow");
//! let mut arbiter = starter.attach_or_start("domain".as_ref(), &hello, Duration::from_secs(20))?.connection;
//! let status: Status = arbiter.call(Method::Status, StatusOf {}, &[])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! - A connection is for one thread. A program that has several operations in flight has as many
//!   connections.
//! - An arbiter that was started is a child of this process until either ends; a thread waits for it.
//!   It has a session of its own, so signals of a terminal do not reach it.
//! - A wait for the lock that is given up leaves a thread asleep until its holder is gone: flock(2)
//!   has no time limit. The thread then drops the lock at once.

#![forbid(unsafe_code)]

mod connection;
mod daemon;
mod endpoint;
mod gate;
mod greeting;
mod launch;
mod log;
mod negotiate;
mod release;
mod starter;
mod transfer;

pub use connection::{CallError, Connection, ConnectionError, Received};
pub use daemon::{Daemon, DaemonError};
pub use endpoint::{Endpoint, EndpointError};
pub use greeting::ConnectError;
pub use negotiate::{Decision, Mismatch, Theirs, negotiate};
pub use starter::{StartError, Started, Starter};
