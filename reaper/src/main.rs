//! The helper's entry.
fn main() {}
