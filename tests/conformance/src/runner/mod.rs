//! Runs the cases, each in a process of its own, and says what came of them.
//!
//! The runner executes itself: `args` reads what it is to do, `case` is the process of one case,
//! `process` starts such a process and sees to its end, `report` talks to people and programs.

mod args;
mod case;
mod process;
mod report;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xioflow_kit::{Deadline, Place, orphans, running_as_root};

use crate::contract::Contract;
use crate::contracts;
use crate::ways::Way;
use args::{Order, Selection};
use report::Report;

/// How long what is ending may take after its case.
const ENDING_LONGEST: Duration = Duration::from_secs(5);

/// As sysexits.h.
const EXIT_USAGE: u8 = 64;

/// Runs the contracts against these ways, as the arguments of this process say; the `main` of a
/// test without a harness.
///
/// The arguments are those of libtest as far as they make sense, and `--help` lists the others.
/// The exit status is 0 when no contract is broken.
///
/// # Panics
/// When the system refuses what running processes needs.
#[must_use]
pub fn run_suite(ways: &[&dyn Way]) -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Order::Help) => {
            report::print(args::HELP);
            ExitCode::SUCCESS
        }
        Ok(Order::List(selection)) => {
            report::list(&select(ways, &selection).0);
            ExitCode::SUCCESS
        }
        Ok(Order::Run(selection)) => run(ways, &selection),
        Ok(Order::Case { number, way }) => case::run(ways, number, &way),
        Err(complaint) => {
            report::complain(&complaint);
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// One contract against one way.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) contract: Contract,
    pub(crate) way: &'a dyn Way,
}

impl Case<'_> {
    /// Its name: what filters look at and what a failure is called.
    pub(crate) fn name(&self) -> String {
        format!("contract-{:02}/{}", self.contract.number, self.way.name())
    }
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The contract holds.
    Passed,
    /// It cannot be examined here, or not all of it.
    Unsupported(String),
    /// It is broken; with everything that the case said.
    Failed(String),
}

impl Verdict {
    /// The worse of two; two failures are told together.
    fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(one), Self::Failed(other)) => Self::Failed(one + &other),
            (failed @ Self::Failed(_), _) | (_, failed @ Self::Failed(_)) => failed,
            (unsupported @ Self::Unsupported(_), _) | (_, unsupported) => unsupported,
        }
    }
}

/// A case that was run.
pub(crate) struct Ran<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
}

fn run(ways: &[&dyn Way], selection: &Selection) -> ExitCode {
    orphans::adopt();
    let (cases, filtered_out) = select(ways, selection);
    // Root's privileges hide mistakes and ordinary rights hide others, so root looks with both.
    let places = Place::of_each_user(folder);
    let mut report = Report::begin(selection.json, &cases, running_as_root(), filtered_out);
    for case in cases {
        let begun = Instant::now();
        let verdict = examine(&case, &places);
        report.add(Ran {
            case,
            verdict,
            took: begun.elapsed(),
        });
    }
    report.close(selection.show_output)
}

/// Where the programs and the cases' files lie.
fn folder() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("xioflow-conformance-")
        .permissions(Permissions::from_mode(0o755));
    builder.tempdir().expect("a folder")
}

/// Runs a case for the user of each place, at the same time; the worst verdict counts.
fn examine(case: &Case<'_>, places: &[Place]) -> Verdict {
    let begun: Vec<_> = places
        .iter()
        .map(|place| process::begin(case, place))
        .collect();
    let ended: Vec<_> = begun.into_iter().map(process::finish).collect();
    let left = orphans::end_all(Deadline::after(ENDING_LONGEST));
    let behind = (!left.is_empty())
        .then(|| Verdict::Failed(format!("processes were left behind: {}\n", left.join(", "))));
    let verdicts = ended.into_iter().chain(behind);
    verdicts.fold(Verdict::Passed, Verdict::worse)
}

/// The cases that are asked for, and how many are not.
fn select<'a>(ways: &[&'a dyn Way], selection: &Selection) -> (Vec<Case<'a>>, usize) {
    let all = contracts().into_iter().flat_map(|contract| {
        ways.iter().map(move |way| Case {
            contract,
            way: *way,
        })
    });
    let (chosen, others): (Vec<_>, Vec<_>) = all.partition(|case| selection.wants(case));
    (chosen, others.len())
}
