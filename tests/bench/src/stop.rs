//! What it costs to end a tree: from the request to the proof that nothing is left, against `cgroup.kill` of the same
//! tree in the same round, which is as fast as the system can.
//!
//! `cargo xtask bench stop [ROUNDS [CASE]]`, as root for the control group. `trees` ends one tree in each of the ways; this
//! file holds the cases and the table.

mod trees;

use std::error::Error;

use crate::sample::Rounds;
use trees::{Ended, Way};

/// Rounds of a measurement.
const DEFAULT_ROUNDS: usize = 15;

/// One tree that is ended again and again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    shape: &'static str,
    members: usize,
    /// Whether its members ignore SIGTERM.
    deaf: bool,
}

/// The trees that the promise is about.
const CASES: [Case; 13] = [
    case("flat", 10),
    case("flat", 100),
    case("flat", 1000),
    case("flat", 5000),
    case("flat", 10_000),
    case("chain", 200),
    case("mixed", 10),
    case("mixed", 100),
    case("mixed", 1000),
    case("mixed", 5000),
    case("mixed", 10_000),
    deaf("flat", 1000),
    deaf("mixed", 1000),
];

const fn case(shape: &'static str, members: usize) -> Case {
    Case {
        shape,
        members,
        deaf: false,
    }
}

const fn deaf(shape: &'static str, members: usize) -> Case {
    Case {
        deaf: true,
        ..case(shape, members)
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let deaf = if self.deaf { ", TERM ignored" } else { "" };
        write!(f, "{} {}{deaf}", self.shape, self.members)
    }
}

/// The figures of one case.
struct Figures {
    case: Case,
    times: Rounds,
    alive_max: usize,
}

pub(crate) fn measure(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let rounds = match arguments.first() {
        Some(text) => text.parse().map_err(|_| format!("{text} is no number"))?,
        None => DEFAULT_ROUNDS,
    };
    let wanted = arguments.get(1).map_or("", String::as_str);
    let ways = trees::ways()?;
    let cases = CASES.into_iter();
    let mut all: Vec<Figures> = cases
        .filter(|case| case.to_string().contains(wanted))
        .map(|case| Figures {
            case,
            times: Rounds::new(ways.len()),
            alive_max: 0,
        })
        .collect();
    for _ in 0..rounds {
        for figures in &mut all {
            figures.round(&ways)?;
        }
    }
    print(rounds, &ways, &all);
    Ok(())
}

impl Figures {
    /// Ends the tree once in each way.
    fn round(&mut self, ways: &[Way]) -> Result<(), Box<dyn Error>> {
        for (at, way) in ways.iter().enumerate() {
            let Ended { took, alive } = way.end(self.case)?;
            self.times.add(at, took.as_secs_f64() * 1e6);
            self.alive_max = self.alive_max.max(alive);
        }
        Ok(())
    }
}

fn print(rounds: usize, ways: &[Way], all: &[Figures]) {
    crate::say(&format!(
        "stop request to proof, {rounds} rounds; x {}",
        ways[0]
    ));
    crate::say(&format!(
        "{:28} {:18} {:>10} {:>7} {:>7} {:>7} {:>6}",
        "tree", "ended by", "median ms", "x min", "x med", "x max", "alive"
    ));
    for figures in all {
        for (at, way) in ways.iter().enumerate() {
            let ratios = figures.times.ratios(at, 0);
            crate::say(&format!(
                "{:28} {:18} {:>10.2} {:>7.2} {:>7.2} {:>7.2} {:>6}",
                figures.case.to_string(),
                way.to_string(),
                figures.times.median_us(at) / 1e3,
                ratios.min,
                ratios.median,
                ratios.max,
                figures.alive_max
            ));
        }
    }
    for shape in ["flat", "mixed"] {
        print_growth(shape, ways, all);
    }
}

/// What twice as many cost.
fn print_growth(shape: &str, ways: &[Way], all: &[Figures]) {
    let of = |members| {
        all.iter()
            .find(|it| it.case.shape == shape && it.case.members == members)
    };
    let (Some(half), Some(whole)) = (of(5000), of(10_000)) else {
        return;
    };
    for (at, way) in ways.iter().enumerate() {
        let growth = whole.times.ratios_to(at, &half.times).median;
        crate::say(&format!(
            "{shape} 10000 takes {growth:.2} times as long as {shape} 5000 ({way})"
        ));
    }
}
