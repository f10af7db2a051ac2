//! The contracts against ways that lie: each lie has to be found by the contracts that are about it.
//! Without this, a contract that examines nothing would pass for ever.
//!
//! `lies` lists them, `liar` is a way that tells one. Each is examined by the suite's own runner,
//! in a process that is this program again.

mod liar;
mod lies;

use std::env;
use std::io::{self, Write};
use std::process::{Command, ExitCode};
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
    for liar in &chosen {
        let at = Instant::now();
        let missed = missed(liar);
        let verdict = if missed.is_empty() { "ok" } else { "FAILED" };
        let took = at.elapsed().as_secs_f64();
        say(&format!(
            "test {} ... {verdict} <{took:.1}s>\n{missed}",
            name(liar)
        ));
        failed += usize::from(!missed.is_empty());
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

/// The contracts that should have found the lie and did not, with what they came to.
fn missed(liar: &Liar) -> String {
    let ourselves = env::current_exe().expect("a program");
    let names = liar
        .breaks
        .iter()
        .map(|number| format!("contract-{number:02}/{}", liar.name()));
    let output = Command::new(ourselves)
        .args(["--json", "--exact"])
        .args(names)
        .env(LYING, "1")
        .output()
        .expect("this program can be executed again");
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
