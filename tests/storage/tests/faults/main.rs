//! Storage fails under the real programs: every call on the domain's files, one at a time, and disks
//! that are full, limited or taken away. What is told must be true, and nothing may happen twice.
//!
//! [`injected`] has strace make calls fail, [`real`] needs nothing but the system.

#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for whoever looks into a test"
)]

mod arbiter;
mod injected;
mod last_word;
mod real;
mod world;
