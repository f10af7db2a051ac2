//! The verbs that build and run: check, test, matrix, bench, soak.

use std::process::Command;

use crate::harvest::Harvest;
use crate::tool::{Failure, cargo, run, run_through, target_dir};

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
    let lacking = [
        "clippy",
        "--package",
        "xioflow-fixture",
        "--features",
        "lacking",
    ];
    run(cargo(&lacking).args(&lints[2..]))?;
    // Once more with the hooks that only the crash matrix has.
    let armed = ["clippy", "--package", MATRIX, "--features", "hooks"];
    run(cargo(&armed).args(&lints[2..]))?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok("formatted, without a lint, documented".to_owned())
}

/// Every test of the workspace, against programs of this very source.
///
/// The suites run the programs as a user does, so these are built first. As root each test that
/// depends on the user runs a second time as an ordinary one, by the kit. What a test skipped is
/// named at the end, with its reason.
pub(crate) fn test(arguments: &[String]) -> Result<String, Failure> {
    build_programs(cargo)?;
    let selected = arguments
        .iter()
        .any(|word| word == "-p" || word.starts_with("--package"));
    // One program that fails must not hide what the others have to say.
    let mut test = cargo(&["test", "--no-fail-fast"]);
    if !selected {
        test.arg("--workspace");
    }
    test.args(arguments);
    if !arguments.iter().any(|word| word == "--") {
        test.arg("--");
    }
    test.arg("--show-output")
        .env("XIOFLOW_TEST_BIN_DIR", target_dir()?.join("debug"));
    let mut harvest = Harvest::default();
    let ended = run_through(&mut test, |line| harvest.take(line));
    for skip in harvest.skips() {
        println!("{skip}");
    }
    ended?;
    Ok(format!("{harvest}, nothing left behind"))
}

/// Builds every program, and the helper for kernels that lack something.
pub(crate) fn build_programs(cargo: impl Fn(&[&str]) -> Command) -> Result<(), Failure> {
    run(&mut cargo(&["build", "--workspace", "--bins"]))?;
    run(&mut cargo(&LACKING_HELPER))
}

/// Builds the helper for kernels that lack something. It is small, and nothing else is built with its feature.
const LACKING_HELPER: [&str; 7] = [
    "build",
    "--package",
    "xioflow-fixture",
    "--features",
    "lacking",
    "--bin",
    "xioflow-lacking-helper",
];

/// The package of the crash matrix.
pub(crate) const MATRIX: &str = "xioflow-matrix";

/// The crash matrix, with the helper and the fixture of this very source. Its other processes are itself: only
/// it has kill points, so it needs none of the programs that are shipped to have any.
pub(crate) fn matrix(arguments: &[String]) -> Result<String, Failure> {
    run(&mut cargo(&["build", "--workspace", "--bins"]))?;
    let armed = ["--package", MATRIX, "--features", "hooks"];
    let mut test = cargo(&["test"]);
    test.args(armed)
        .args(["--test", "matrix", "--"])
        .args(arguments)
        .env("XIOFLOW_TEST_BIN_DIR", target_dir()?.join("debug"));
    run(test.arg("--show-output"))?;
    Ok("every promise held, nothing left behind".to_owned())
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

/// How long a soak goes on unless it is told, in minutes.
const SOAK_MINUTES: u64 = 10;

/// Work under fire, for as long as asked; `cargo xtask test` has a short one.
pub(crate) fn soak(arguments: &[String]) -> Result<String, Failure> {
    let mut soak = cargo(&["test", "--package", "xioflow-soak"]);
    soak.args(["--", "--nocapture"]);
    soak.env("XIOFLOW_TEST_SECONDS", (60 * SOAK_MINUTES).to_string());
    for (name, value) in soak_options(arguments)? {
        soak.env(name, value);
    }
    run(&mut cargo(&["build", "--workspace", "--bins"]))?;
    soak.env("XIOFLOW_TEST_BIN_DIR", target_dir()?.join("debug"));
    run(&mut soak)?;
    Ok("nothing lost, nothing left behind".to_owned())
}

/// The variables that the options stand for.
fn soak_options(arguments: &[String]) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut variables = Vec::new();
    for pair in arguments.chunks(2) {
        let [option, value] = pair else {
            return Err(Failure::Usage(format!("{} needs a number", pair[0])));
        };
        let number: u64 = value
            .parse()
            .map_err(|_| Failure::Usage(format!("{option} needs a number, not {value:?}")))?;
        variables.push(match option.as_str() {
            "--minutes" => (
                "XIOFLOW_TEST_SECONDS",
                number.saturating_mul(60).to_string(),
            ),
            "--seed" => ("XIOFLOW_TEST_SEED", number.to_string()),
            "--clients" => ("XIOFLOW_TEST_CLIENTS", number.to_string()),
            other => return Err(Failure::Usage(format!("soak has no option {other}"))),
        });
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_soak_are_numbers() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let variables = soak_options(&words("--minutes 2 --seed 7")).unwrap();
        assert_eq!(
            variables,
            [
                ("XIOFLOW_TEST_SECONDS", "120".to_owned()),
                ("XIOFLOW_TEST_SEED", "7".to_owned())
            ]
        );
        for wrong in [
            "--minutes",
            "--minutes x",
            "--hours 1",
            "--seed 1 --clients",
        ] {
            assert!(soak_options(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
