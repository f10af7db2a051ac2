//! Real arbiters with real sockets, helpers and commands. One file for each thing that is promised.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod basics;
mod bounds;
mod common;
mod descriptors;
mod ending;
mod greeting;
mod lost;
mod output;
mod questions;
