//! Finds the points, runs a case for each in a process of its own, and says what came of them.
//!
//! `args` reads what is asked for, `plan` makes the list of cases, `folder` is where all of it
//! lies, `process` starts one and sees to its end, `report` talks to people.

mod args;
mod folder;
mod plan;
mod process;
mod report;

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use xioflow_kit::{Deadline, Place, orphans};

use crate::case;
use crate::lies;
use crate::point::CaseName;
use crate::scenario::named;
use args::Order;
use plan::{Case, Plan};
use process::Verdict;
use report::Report;

/// The word by which a case is started; its programs' folder and name follow, or what is to be found out.
pub(crate) const CASE: &str = "--case";
/// Instead of a case's name: list a scenario's points.
const POINTS: &str = "points-of";
/// The same for the system calls of its helper.
const STEPS: &str = "steps-of";

/// As sysexits.h.
const EXIT_USAGE: u8 = 64;

/// Cases at once, for each processor: they wait for the disk and for each other more than they compute.
const CASES_PER_PROCESSOR: usize = 6;

/// How long what is ending may take after the cases.
const ENDING_LONGEST: Duration = Duration::from_secs(5);

/// How often a case is tried whose point was not passed.
const ATTEMPTS: usize = 3;

/// The process of one case, or of a discovery.
pub(crate) fn case(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let programs = Path::new(words[0]);
    match words[1..] {
        [POINTS, scenario] => report::print(&case::discover(programs, &named(scenario), false)),
        [STEPS, scenario] => report::print(&case::discover(programs, &named(scenario), true)),
        [name] => return case::run(programs, &name.parse().expect("a case"), None),
        [name, lie] => {
            let lie = lies::named(lie).expect("a lie");
            return case::run(programs, &name.parse().expect("a case"), Some(lie));
        }
        _ => panic!("no case: {words:?}"),
    }
    ExitCode::SUCCESS
}

/// Runs the matrix as the arguments say.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let selection = match args::parse(words) {
        Ok(Order::Help) => {
            report::print(args::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Order::Run(selection)) => selection,
        Err(complaint) => {
            report::print(&format!("matrix: {complaint}\n"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    orphans::adopt();
    // Root's privileges hide mistakes and ordinary rights hide others, so root looks with both.
    let places = Place::of_each_user(folder::folder);
    let plan = Plan::make(&places[0], &selection);
    if selection.lists {
        plan.cases
            .iter()
            .for_each(|case| report::print(&format!("{case}: test\n")));
        return ExitCode::SUCCESS;
    }
    let mut worst = ExitCode::SUCCESS;
    for round in 1..=selection.rounds {
        let mut report = Report::begin(&plan, places.len(), round, selection.rounds);
        run_all(&plan, &places, &mut report);
        let left = orphans::end_all(Deadline::after(ENDING_LONGEST));
        if report.close(&left, selection.shows_output) != ExitCode::SUCCESS {
            worst = ExitCode::FAILURE;
        }
    }
    worst
}

/// Runs every case for every user, some at once.
fn run_all(plan: &Plan, places: &[Place], report: &mut Report) {
    let pairs = plan
        .cases
        .iter()
        .flat_map(|case| places.iter().map(move |place| (case, place)));
    let queue: Mutex<VecDeque<_>> = Mutex::new(pairs.collect());
    let workers = thread::available_parallelism().map_or(1, usize::from) * CASES_PER_PROCESSOR;
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (queue, tell) = (&queue, tell.clone());
            scope.spawn(move || {
                let next = || {
                    queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front()
                };
                while let Some((case, place)) = next() {
                    drop(tell.send((case.clone(), place.user_name(), examine(case, place))));
                }
            });
        }
        drop(tell);
        for (case, user, verdict) in told {
            report.add(case, user, verdict);
        }
    });
}

/// Runs one case, a few times if its point is not passed.
fn examine(case: &Case, place: &Place) -> Verdict {
    let mut verdict = Verdict::Missed;
    for _ in 0..ATTEMPTS {
        verdict = process::run(case, place);
        if verdict != Verdict::Missed {
            break;
        }
    }
    case.judge(verdict)
}

/// Parses a name that a plan made.
fn parsed(name: &str) -> CaseName {
    name.parse().expect("a name that was made here")
}
