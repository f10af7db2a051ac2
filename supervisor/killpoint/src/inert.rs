//! Points of a program that is not armed: none.

/// Passes a point. This program is not armed, so nothing happens, and `label` is not called.
#[inline(always)]
pub fn pass<L: Into<String>>(_label: impl FnOnce() -> L) {}

/// Says that this thread has given an operation to a helper. This program is not armed.
#[inline(always)]
pub const fn hold(_pid: u32) {}

/// Says that a helper holds nothing any more. This program is not armed.
#[inline(always)]
pub const fn let_go(_pid: u32) {}
