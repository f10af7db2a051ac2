//! The verbs that build and run: check, test, bench.

use crate::tool::{Failure, cargo, run, target_dir};

/// Formatting, lints, documentation.
pub(crate) fn check() -> Result<String, Failure> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ];
    run(&mut cargo(&lints))?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok("formatted, without a lint, documented".to_owned())
}

/// Every test of the workspace, against programs of this very source.
///
/// The suites run the programs as a user does, so these are built first. As root each test that
/// depends on the user runs a second time as an ordinary one, by the kit.
pub(crate) fn test(arguments: &[String]) -> Result<String, Failure> {
    run(&mut cargo(&["build", "--workspace", "--bins", "--quiet"]))?;
    let selected = arguments
        .iter()
        .any(|word| word == "-p" || word.starts_with("--package"));
    let mut test = cargo(&["test"]);
    if !selected {
        test.arg("--workspace");
    }
    test.args(arguments)
        .env("XIOFLOW_TEST_BIN_DIR", target_dir()?.join("debug"));
    run(&mut test)?;
    Ok("all tests passed, nothing left behind".to_owned())
}

/// Ratios against a bare spawn.
pub(crate) fn bench(arguments: &[String]) -> Result<String, Failure> {
    run(&mut cargo(&[
        "build",
        "--workspace",
        "--bins",
        "--release",
        "--quiet",
    ]))?;
    let mut bench = cargo(&[
        "run",
        "--release",
        "--quiet",
        "--package",
        "xioflow-bench",
        "--",
    ]);
    bench
        .args(arguments)
        .env("XIOFLOW_TEST_BIN_DIR", target_dir()?.join("release"));
    run(&mut bench)?;
    Ok("measured".to_owned())
}
