//! The one door for the project's own commands.

fn main() {}
