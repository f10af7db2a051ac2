//! The contracts against ways that lie: each lie has to be found by the contracts that are about it.
//! Without this, a contract that examines nothing would pass for ever.
//!
//! `lies` lists them, `liar` is a way that tells one. Each is examined by the suite's own runner,
//! in a process that is this program again.

mod liar;
mod lies;

use std::env;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use serde_json::Value;
use xioflow_conformance::{Way, run_suite};

use liar::Liar;

/// Set in the processes that tell lies instead of looking for them.
const LYING: &str = "XIOFLOW_CONFORMANCE_LYING";

fn main() -> ExitCode {
    let liars = lies::all();
    if env::var_os(LYING).is_some() {
        let ways: Vec<&dyn Way> = liars.iter().map(|liar| liar as &dyn Way).collect();
        return run_suite(&ways);
    }
    let words: Vec<String> = env::args().skip(1).collect();
    // Options of libtest do nothing here, so that `cargo test` can pass its own to all tests.
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let name = |liar: &Liar| format!("lie/{}", liar.name());
    let wanted = |liar: &&Liar| {
        filters.is_empty() || filters.iter().any(|filter| name(liar).contains(*filter))
    };
    let chosen: Vec<&Liar> = liars.iter().filter(wanted).collect();
    if words.iter().any(|word| word == "--list") {
        chosen
            .iter()
            .for_each(|liar| say(&format!("{}: test\n", name(liar))));
        return ExitCode::SUCCESS;
    }
    let begun = Instant::now();
    say(&format!("\nrunning {} tests\n", chosen.len()));
    let mut failed = 0;
    for some in chosen.chunks(AT_ONCE) {
        let examined: Vec<_> = some.iter().map(|liar| (liar, begin(liar))).collect();
        for (liar, process) in examined {
            let missed = missed(liar, process);
            let verdict = if missed.is_empty() { "ok" } else { "FAILED" };
            say(&format!("test {} ... {verdict}\n{missed}", name(liar)));
            failed += usize::from(!missed.is_empty());
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    say(&format!(
        "\ntest result: {verdict}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out; \
         finished in {:.2}s\n\n",
        chosen.len() - failed,
        liars.len() - chosen.len(),
        begun.elapsed().as_secs_f64()
    ));
    ExitCode::from(u8::from(failed > 0))
}

/// How many liars are examined at the same time; they wait more than they work.
const AT_ONCE: usize = 4;

/// Begins to examine a liar by the contracts that should find it.
fn begin(liar: &Liar) -> Child {
    let ourselves = env::current_exe().expect("a program");
    let name = |number: &u32| format!("contract-{number:02}/{}", liar.name());
    Command::new(ourselves)
        .args(["--json", "--exact"])
        .args(liar.breaks.iter().map(name))
        .env(LYING, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be executed again")
}

/// The contracts that should have found the lie and did not, with what they came to.
fn missed(liar: &Liar, process: Child) -> String {
    let output = process.wait_with_output().expect("a child of ours");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let cases = document["cases"].as_array().expect("a list of cases");
    assert_eq!(cases.len(), liar.breaks.len(), "{document:#}");
    let found = |case: &&Value| {
        let told = case["reason"].as_str().unwrap_or_default();
        case["verdict"] == "failed" && told.contains(liar.told_by)
    };
    cases
        .iter()
        .filter(|case| !found(case))
        .map(|case| format!("    not found: {case:#}\n"))
        .collect()
}

fn say(text: &str) {
    // Who went away does not want to know.
    drop(io::stdout().write_all(text.as_bytes()));
}
