//! Real arbiters with real sockets, helpers and commands. One file for each thing that is promised.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod basics;
mod common;
