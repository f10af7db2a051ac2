//! The verb `fuzz`: any bytes against the decoders, for a while, with the stable toolchain.
//!
//! What the targets check is in `tests/fuzz`; the folder `fuzz/` has the programs, as cargo-fuzz wants them. That tool
//! needs no more than the flags below, but has to be installed; so this verb passes them itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tool::{Failure, cargo, line_of, read, root, run, target_dir};

/// The targets, by their names in `fuzz/Cargo.toml`.
const TARGETS: [&str; 5] = ["frames", "last_word", "rpc", "artifacts", "holder"];

/// Seconds for each target unless somebody says how many.
const SECONDS: u32 = 60;

/// What tells libFuzzer which code an input reaches and what it is compared with. Options of LLVM's pass that need no
/// sanitizer, and so no nightly toolchain.
const INSTRUMENTATION: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// Longest input, in bytes: every shape of message fits, and many are tried in a second.
const INPUT_LEN_MAX: u32 = 4096;

/// Longest time of one input, in seconds: far above what the slowest takes on a busy machine.
const INPUT_SECONDS_MAX: u32 = 20;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    targets: Vec<&'static str>,
    seconds: u32,
}

/// Builds the targets and runs each for some seconds. Without a C++ compiler it says that it is skipped.
pub(crate) fn fuzz(arguments: &[String]) -> Result<String, Failure> {
    let asked = asked(arguments).map_err(Failure::Usage)?;
    if !has_cpp() {
        println!("skipped fuzz: no C++ compiler, which libFuzzer is built with (Debian: g++)");
        return Ok("skipped, no C++ compiler".to_owned());
    }
    let folder = root().join("fuzz");
    write_seeds(&folder, &asked.targets)?;
    let programs = build()?;
    for target in &asked.targets {
        let program = programs.join(target);
        let mut session = session(&program, &folder, target, asked.seconds)?;
        run(&mut session).inspect_err(|_| explain(&program, target))?;
    }
    Ok(format!(
        "nothing found by {} in {} s each",
        asked.targets.join(", "),
        asked.seconds
    ))
}

fn asked(arguments: &[String]) -> Result<Asked, String> {
    let mut targets = Vec::new();
    let mut seconds = SECONDS;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let number = words.next().and_then(|number| number.parse().ok());
            seconds = number
                .filter(|seconds| *seconds > 0)
                .ok_or("--seconds needs a whole number of seconds, at least 1")?;
            continue;
        }
        let target = TARGETS.iter().find(|target| *target == word);
        let unknown = || format!("no target {word:?}; there are {}", TARGETS.join(", "));
        targets.push(*target.ok_or_else(unknown)?);
    }
    if targets.is_empty() {
        targets.extend(TARGETS);
    }
    Ok(Asked { targets, seconds })
}

fn has_cpp() -> bool {
    let mut compiler = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    compiler.arg("--version").stdout(Stdio::null());
    compiler.status().is_ok_and(|status| status.success())
}

fn write_seeds(folder: &Path, targets: &[&str]) -> Result<(), Failure> {
    let mut seeds = cargo(&["run", "--quiet", "--package", "xioflow-fuzz", "--"]);
    run(seeds.arg(folder.join("corpus")).args(targets))
}

/// Builds the programs with the versions of everything that the product is built with, and for this machine by name:
/// then the flags do not reach build scripts and macros.
fn build() -> Result<PathBuf, Failure> {
    let lock = root().join("fuzz/Cargo.lock");
    fs::copy(root().join("Cargo.lock"), &lock)
        .map_err(|source| Failure::File { path: lock, source })?;
    let host = host()?;
    let built = target_dir()?.join("fuzz");
    let mut build = cargo(&["build", "--quiet", "--manifest-path", "fuzz/Cargo.toml"]);
    build.args(["--target", &host]);
    run(build
        .env("CARGO_TARGET_DIR", &built)
        .env("RUSTFLAGS", INSTRUMENTATION))?;
    Ok(built.join(host).join("debug"))
}

fn host() -> Result<String, Failure> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.arg("-vV");
    let about = read(&mut rustc)?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::Output {
        line: line_of(&rustc),
        reason: "it names no host".to_owned(),
    })
}

/// One run of libFuzzer. What it finds is in `artifacts/`; what it learns, in `corpus/`.
fn session(program: &Path, folder: &Path, target: &str, seconds: u32) -> Result<Command, Failure> {
    let findings = folder.join("artifacts").join(target);
    fs::create_dir_all(&findings).map_err(|source| Failure::File {
        path: findings.clone(),
        source,
    })?;
    let mut session = Command::new(program);
    session
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_LEN_MAX}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args(["-print_final_stats=1", "-verbosity=0"])
        .arg(folder.join("corpus").join(target));
    Ok(session)
}

fn explain(program: &Path, target: &str) {
    println!(
        "see it again: {} fuzz/artifacts/{target}/FILE, with the file that is named above\n\
         and keep it as a test beside the code that it broke (docs/testing.md)",
        program.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_by(words: &[&str]) -> Result<Asked, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        asked(&words)
    }

    #[test]
    fn without_words_all_targets_have_their_time() {
        let asked = asked_by(&[]).unwrap();
        assert_eq!(
            (asked.targets.as_slice(), asked.seconds),
            (&TARGETS[..], SECONDS)
        );
    }

    #[test]
    fn a_target_and_its_seconds_come_in_any_order() {
        let expected = Asked {
            targets: vec!["rpc"],
            seconds: 5,
        };
        assert_eq!(asked_by(&["rpc", "--seconds", "5"]), Ok(expected));
        assert_eq!(
            asked_by(&["--seconds", "5", "rpc"]),
            asked_by(&["rpc", "--seconds", "5"])
        );
    }

    #[test]
    fn words_without_a_meaning_are_named() {
        assert!(
            asked_by(&["frame"])
                .unwrap_err()
                .contains("frames, last_word")
        );
        for seconds in ["0", "x", "-1"] {
            assert!(
                asked_by(&["--seconds", seconds])
                    .unwrap_err()
                    .contains("whole number")
            );
        }
        assert!(asked_by(&["--seconds"]).is_err());
    }

    /// A target that is only in the manifest would never be run by this verb.
    #[test]
    fn the_manifest_has_these_targets() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        let bins = manifest.split("[[bin]]").skip(1);
        let names: Vec<&str> = bins.filter_map(|bin| bin.split('"').nth(1)).collect();
        assert_eq!(names, TARGETS);
    }
}
