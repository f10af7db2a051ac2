//! What the matrix says: the failures whole, a table with a line for each scenario, and a last line as libtest
//! writes it, so that whoever counts tests can count these.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use super::plan::{Case, Plan};
use super::process::Verdict;
use crate::point::Whom;

/// Of all cases so many hundredths may miss their point; more means that the points are not what they were.
const MISSED_PERCENT_MAX: usize = 5;

/// The report as it grows.
pub(super) struct Report<'a> {
    begun: Instant,
    plan: &'a Plan,
    /// By group and way to die: how many held.
    held: BTreeMap<(String, Option<Whom>), usize>,
    missed: Vec<String>,
    failed: Vec<(String, String)>,
}

impl<'a> Report<'a> {
    /// Says what is about to be done.
    pub(super) fn begin(plan: &'a Plan, users: usize, round: u32, rounds: u32) -> Self {
        let cases = plan.cases.len();
        let users = match users {
            1 => "as this user",
            _ => "as root and as an ordinary user",
        };
        print(&format!(
            "\nrunning {cases} tests, each {users}; round {round} of {rounds}, seed {}\n",
            plan.seed
        ));
        Self {
            begun: Instant::now(),
            plan,
            held: BTreeMap::new(),
            missed: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Adds a case; a failure is told at once.
    pub(super) fn add(&mut self, case: Case, user: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => {
                let whom = case.lie.is_none().then_some(case.name.whom);
                *self
                    .held
                    .entry((case.group().to_owned(), whom))
                    .or_default() += 1;
            }
            Verdict::Missed => self.missed.push(format!("{case} as {user}")),
            Verdict::Failed(said) => {
                print(&format!("test {case} as {user} ... FAILED\n{said}"));
                self.failed.push((case.to_string(), user.to_owned()));
            }
        }
    }

    /// Closes it, with the exit status of the round.
    pub(super) fn close(self, left_behind: &[String], shows_output: bool) -> ExitCode {
        print(&self.table());
        if shows_output && !(self.missed.is_empty() && self.plan.skipped.is_empty()) {
            print("\nsuccesses:\n");
            for skip in &self.plan.skipped {
                print(&format!("\n---- matrix stdout ----\nskipped: {skip}\n"));
            }
            for name in &self.missed {
                print(&format!(
                    "\n---- {name} stdout ----\nmissed: its point was not passed\n"
                ));
            }
        }
        if !self.failed.is_empty() {
            print("\nfailures:\n");
            let lines = self
                .failed
                .iter()
                .map(|(name, user)| format!("    {name} as {user}\n"));
            print(&lines.collect::<String>());
        }
        if !left_behind.is_empty() {
            print(&format!(
                "\nprocesses were left behind: {}\n",
                left_behind.join(", ")
            ));
        }
        let is_ok = self.failed.is_empty() && left_behind.is_empty() && !self.misses_too_much();
        print(&self.last_line(is_ok));
        match is_ok {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }

    fn total(&self) -> usize {
        self.held.values().sum::<usize>() + self.missed.len() + self.failed.len()
    }

    fn misses_too_much(&self) -> bool {
        self.missed.len() * 100 > self.total() * MISSED_PERCENT_MAX
    }

    /// How many held, by scenario and way to die.
    fn table(&self) -> String {
        let mut lines = format!("\n{:<22}", "killed");
        for whom in Whom::ALL {
            lines += &format!("{:>12}", whom.as_str());
        }
        let mut groups: Vec<&str> = self.held.keys().map(|(group, _)| group.as_str()).collect();
        groups.dedup();
        for group in groups {
            let held = |whom| {
                self.held
                    .get(&(group.to_owned(), whom))
                    .copied()
                    .unwrap_or(0)
            };
            lines += &match group {
                "lie" => format!("\n{group:<22}{:>12} found", held(None)),
                _ => {
                    let counts = Whom::ALL.map(|whom| format!("{:>12}", held(Some(whom))));
                    format!("\n{group:<22}{}", counts.concat())
                }
            };
        }
        lines + "\n"
    }

    fn last_line(&self, is_ok: bool) -> String {
        let verdict = if is_ok { "ok" } else { "FAILED" };
        let (missed, failed) = (self.missed.len(), self.failed.len());
        format!(
            "\ntest result: {verdict}. {} passed; {failed} failed; {missed} ignored; 0 measured; {} filtered \
             out; finished in {:.2}s\n\n",
            self.total() - missed - failed,
            self.plan.left_out,
            self.begun.elapsed().as_secs_f64()
        )
    }
}

/// Prints to standard output; who went away does not want to know.
pub(super) fn print(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}
