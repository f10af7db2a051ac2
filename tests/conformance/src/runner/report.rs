//! What the suite says: a table with a line for each case, the failures whole, and a last line as
//! libtest writes it, so that whoever counts tests can count these.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;

use super::{Case, Ran, Verdict};

/// The report as it grows.
pub(super) struct Report<'a> {
    json: bool,
    begun: Instant,
    filtered_out: usize,
    ran: Vec<Ran<'a>>,
}

impl<'a> Report<'a> {
    /// Says what is about to be done.
    pub(super) fn begin(
        json: bool,
        cases: &[Case<'_>],
        as_root: bool,
        filtered_out: usize,
    ) -> Self {
        let users = match as_root {
            true => "as root and as an ordinary user",
            false => "as this user",
        };
        if !json {
            print(&format!("\nrunning {} tests, each {users}\n", cases.len()));
        }
        Self {
            json,
            begun: Instant::now(),
            filtered_out,
            ran: Vec::new(),
        }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, ran: Ran<'a>) {
        if !self.json {
            print(&line(&ran));
        }
        self.ran.push(ran);
    }

    /// Closes it, with the exit status of the suite.
    pub(super) fn close(self, show_output: bool) -> ExitCode {
        if self.json {
            self.document();
        } else {
            self.failures();
            if show_output {
                self.reasons();
            }
            print(&self.last_line());
        }
        match self.count(is_failed) {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }

    fn count(&self, is: fn(&Verdict) -> bool) -> usize {
        self.ran.iter().filter(|ran| is(&ran.verdict)).count()
    }

    fn failures(&self) {
        if self.count(is_failed) == 0 {
            return;
        }
        print("\nfailures:\n");
        for ran in &self.ran {
            if let Verdict::Failed(said) = &ran.verdict {
                let (name, title) = (ran.case.name(), ran.case.contract.title);
                print(&format!("\n---- {name} stdout ----\n{title}\n{said}"));
            }
        }
    }

    /// As libtest shows what passing tests have printed; `cargo xtask test` takes skips from there.
    fn reasons(&self) {
        print("\nsuccesses:\n");
        for ran in &self.ran {
            if let Verdict::Unsupported(reason) = &ran.verdict {
                let name = ran.case.name();
                print(&format!(
                    "\n---- {name} stdout ----\nskipped: unsupported: {reason}\n"
                ));
            }
        }
    }

    fn last_line(&self) -> String {
        let failed = self.count(is_failed);
        let verdict = if failed == 0 { "ok" } else { "FAILED" };
        let passed = self.count(|verdict| *verdict == Verdict::Passed);
        let unsupported = self.ran.len() - passed - failed;
        format!(
            "\ntest result: {verdict}. {passed} passed; {failed} failed; {unsupported} ignored; \
             0 measured; {} filtered out; finished in {:.2}s\n\n",
            self.filtered_out,
            self.begun.elapsed().as_secs_f64()
        )
    }

    fn document(&self) {
        let cases: Vec<_> = self.ran.iter().map(Line::from).collect();
        let document = Document {
            passed: self.count(|verdict| *verdict == Verdict::Passed),
            failed: self.count(is_failed),
            unsupported: self.count(|verdict| matches!(verdict, Verdict::Unsupported(_))),
            cases,
        };
        let text = serde_json::to_string_pretty(&document).expect("plain values");
        print(&format!("{text}\n"));
    }
}

fn is_failed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Failed(_))
}

/// `  7  conflicts are named, and waiters served in order  embedded  passed  0.21 s`
fn line(ran: &Ran<'_>) -> String {
    let contract = &ran.case.contract;
    let verdict = match &ran.verdict {
        Verdict::Passed => "passed".to_owned(),
        Verdict::Failed(_) => "FAILED".to_owned(),
        Verdict::Unsupported(reason) => format!("unsupported: {reason}"),
    };
    format!(
        "{:>3}  {:<55}  {:<12}  {:>6.2} s  {verdict}\n",
        contract.number,
        contract.title,
        ran.case.way.name(),
        ran.took.as_secs_f64(),
    )
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    passed: usize,
    failed: usize,
    unsupported: usize,
    cases: Vec<Line<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    contract: u32,
    title: &'a str,
    level: &'a str,
    way: &'a str,
    verdict: &'a str,
    /// Why it is unsupported, or what the failed case said.
    reason: Option<&'a str>,
    duration_ms: u128,
}

impl<'a> From<&'a Ran<'_>> for Line<'a> {
    fn from(ran: &'a Ran<'_>) -> Self {
        let (verdict, reason) = match &ran.verdict {
            Verdict::Passed => ("passed", None),
            Verdict::Failed(said) => ("failed", Some(said.as_str())),
            Verdict::Unsupported(reason) => ("unsupported", Some(reason.as_str())),
        };
        Self {
            contract: ran.case.contract.number,
            title: ran.case.contract.title,
            level: ran.case.contract.level.name(),
            way: ran.case.way.name(),
            verdict,
            reason,
            duration_ms: ran.took.as_millis(),
        }
    }
}

/// Names cases as libtest does.
pub(super) fn list(cases: &[Case<'_>]) {
    for case in cases {
        print(&format!("{}: test\n", case.name()));
    }
}

/// Prints to standard output; who went away does not want to know.
pub(super) fn print(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints to standard error.
pub(super) fn complain(text: &str) {
    drop(io::stderr().write_all(format!("conformance: {text}\n").as_bytes()));
}
