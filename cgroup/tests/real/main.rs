//! Real groups, below the root that this process was given. Without one every test is skipped by name.
//!
//! What needs a controller is skipped where the root has none, as on hybrid hosts.

#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

#[path = "../support/mod.rs"]
mod support;

mod controllers;
mod found;
mod life;
mod nested;
mod sharing;
