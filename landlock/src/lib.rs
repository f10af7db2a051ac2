//! Landlock: what this kernel can enforce.
//!
//! Landlock lets a process give up rights for itself and everything it starts, without privilege
//! and without a helper program. xioflow uses it to limit what a command may *write*, so that a
//! claim about a rollback is true. It is not a security boundary.
//!
//! This crate asks the kernel which ABI it speaks ([`support`]) and proves that a ruleset can
//! really be opened ([`prove_ruleset`]). Neither restricts the caller.
//!
//! ```
//! match xioflow_landlock::support() {
//!     xioflow_landlock::Support::Available(abi) => {
//!         for gap in abi.gaps() {
//!             println!("not covered: {gap}");
//!         }
//!     }
//!     other => println!("no Landlock here: {other:?}"),
//! }
//! ```
//!
//! What no ABI covers: `chmod`, `chown`, time stamps and extended attributes of files outside the
//! writable tree, and writing through descriptors that were open before.
//!
//! It is part of the helper's closure, so it links no standard library. Neighbours: the helper
//! applies rulesets, `xioflow-sandbox` chooses between this and other drivers. Tests need no
//! privilege and pass on kernels with and without Landlock.
//!
//! Source: landlock(7), landlock_create_ruleset(2), kernel `userspace-api/landlock`.

#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

mod abi;
mod support;
#[cfg_attr(target_os = "linux", path = "sys.rs")]
#[cfg_attr(not(target_os = "linux"), path = "sys_absent.rs")]
mod sys;

pub use abi::{Abi, Gap};
pub use support::{RulesetError, Support, prove_ruleset, support};
