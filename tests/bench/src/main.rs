//! Ratios against a bare spawn.

fn main() {}
