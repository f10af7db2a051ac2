//! The one door for the project's own commands: `cargo xtask <verb>`.
//!
//! `verbs` holds what builds and runs, `fuzz` what is tried with any bytes, `harvest` reads what tests print, `tidy` holds the house
//! rules, `vm` what runs in a guest, `tool` the way to other programs.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to people"
)]

mod elf;
mod fuzz;
mod harvest;
mod tidy;
mod tool;
mod verbs;
mod vm;

use std::process::ExitCode;
use std::time::Instant;

use tool::Failure;

const HELP: &str = "\
Usage: cargo xtask <verb> [argument...]

  check            formatting, lints and documentation, all without a warning
  test [ARG...]    build the programs, then run every test of the workspace, and name what was
                   skipped; arguments go to `cargo test`, for example:
                   cargo xtask test -p xioflow-suite --test command
  matrix [ARG...]  kill everything everywhere and examine what is then on record; arguments go to
                   the crash matrix, whose --help lists them
  tidy [--bless]   the house rules; --bless takes over the present source of the helper's protocol
                   once docs/protocol.md describes it, and writes the tables of what clients and
                   arbiter say
  bench [ARG...]   measure against a bare spawn, in release; arguments go to the benchmark, for example:
                   cargo xtask bench stop [ROUNDS [CASE]] ends trees, against cgroup.kill of the same
  fuzz [TARGET...] [--seconds N]
                   any bytes against the decoders, N seconds (60) for each target: frames, last_word,
                   rpc, artifacts; what is found is in fuzz/artifacts
  soak [--minutes N] [--seed N] [--clients N]
                   many clients at work while everything is killed at random, 10 minutes unless
                   said otherwise; it prints its seed, and its figures at the end
  vm [OPTION...] [-- ARG...]
                   suites in a virtual machine, with real systemd and control groups that were really
                   delegated, on older and newer kernels; its --help lists guests, places and suites

Each verb says what it does and closes with one line. The exit status is 0 when all went well,
1 when something failed, 64 for words that it does not know.
docs/testing.md says what the suites are.";

/// As sysexits.h.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, arguments)) = words.split_first() else {
        println!("{HELP}");
        return ExitCode::from(EXIT_USAGE);
    };
    let begun = Instant::now();
    let result = match verb.as_str() {
        "check" => verbs::check(),
        "test" => verbs::test(arguments),
        "bench" => verbs::bench(arguments),
        "matrix" => verbs::matrix(arguments),
        "fuzz" => fuzz::fuzz(arguments),
        "soak" => verbs::soak(arguments),
        "vm" => vm::vm(arguments),
        "tidy" => tidy::run(arguments.iter().any(|word| word == "--bless")),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: no verb {other:?}\n\n{HELP}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    close(verb, begun, result)
}

fn close(verb: &str, begun: Instant, result: Result<String, Failure>) -> ExitCode {
    let seconds = begun.elapsed().as_secs();
    match result {
        Ok(summary) => {
            println!("xtask {verb}: {summary}, in {seconds} s");
            ExitCode::SUCCESS
        }
        Err(Failure::Usage(what)) => {
            eprintln!("xtask {verb}: {what}");
            ExitCode::from(EXIT_USAGE)
        }
        Err(failure) => {
            eprintln!("xtask {verb}: failed after {seconds} s: {failure}");
            ExitCode::FAILURE
        }
    }
}
