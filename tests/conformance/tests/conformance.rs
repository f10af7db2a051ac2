//! The suite against the ways of this release. `docs/conformance.md` says how to read it.

use std::process::ExitCode;

use xioflow_conformance::{Way, run_suite, ways};

fn main() -> ExitCode {
    let ways: [&dyn Way; 4] = [
        &ways::Embedded,
        &ways::ThroughArbiter,
        &ways::CommandLine::SHARED,
        &ways::CommandLine::ALONE,
    ];
    run_suite(&ways)
}
