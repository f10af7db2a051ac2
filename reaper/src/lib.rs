//! The helper: holds one process tree and proves when it is empty.
//!
//! One helper is started for one operation, with a socket as its descriptor 0, and speaks the
//! frames of `xioflow-protocol` over it. It has one thread, one loop, no C library, and never
//! wakes up while nothing happens.
//!
//! ```text
//! main.rs    entry, sanitised descriptors, panic handler (the program; the rest is this library)
//! setup      what a process does to become a helper
//! serve      the loop: what happened, and who is concerned
//! operation  one operation: its stages, and what each event means there
//! ladder     pure: how a tree goes from running to ended
//! launch     a launch message, checked and prepared
//! spawn      the ordered script of the child between fork and exec
//! lookup     finding the program, and why it cannot be run
//! elf        the loader that a program needs
//! gate       what is said between helper and child before the command runs
//! reap       the only place that waits for children
//! targets    who is signalled, and how that is safe
//! tree       what is known of the tree: its root, its survivors, its end
//! channel    frames in and out of the control socket, which never blocks the loop
//! system     what all of these need of the system, so that tests can simulate one
//! simulated  for tests: the same on a system that is not this machine
//! last_word  what is left on disk when the supervisor is gone
//! armour     what the helper takes from itself once the command is made
//! authority  the one right that a packaged helper may have
//! emergency  what is still done in a panic
//! ```
//!
//! Neighbours: `xioflow-facts` reads the system, `xioflow-sys` calls it.

#![no_std]
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod armour;
mod authority;
mod channel;
mod elf;
mod emergency;
mod gate;
mod group;
mod ladder;
mod last_word;
mod launch;
mod lookup;
mod namespace;
mod operation;
mod reap;
mod serve;
mod setup;
pub mod simulated;
mod spawn;
mod system;
mod targets;
mod tree;

pub use emergency::report_panic;
pub use setup::main;
