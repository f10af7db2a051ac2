//! The crash matrix. `docs/testing.md` says what it does and how it is asked for less.

use std::process::ExitCode;

fn main() -> ExitCode {
    xioflow_matrix::run()
}
