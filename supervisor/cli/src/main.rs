//! Run commands under supervision: the whole tree held, every outcome a recorded fact.

fn main() {}
