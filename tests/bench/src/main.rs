//! What a supervised command costs, as ratios against a bare one in the same run.
//!
//! Every round measures each way once, one after the other, so that whatever the machine is
//! doing meets all of them; a ratio is the median over the rounds of the ratios within a round.
//! Absolute times of a shared machine mean little.
//!
//! `cargo xtask bench` builds the programs in release mode and runs this. `cargo xtask bench recovery` measures
//! the opening of a domain whose owner died instead, `cargo xtask bench stop` the end of trees.

mod recovery;
mod sample;
mod stop;
mod ways;

use std::env;
use std::error::Error;
use std::process::ExitCode;

use sample::Rounds;
use ways::{Attached, Bare, CommandLine, Embedded, Way};

/// Rounds of a measurement; a smoke test of the bench itself needs fewer.
const DEFAULT_ROUNDS: usize = 25;

/// Commands of one way in one round.
const COMMANDS_PER_ROUND: usize = 20;

/// The ways that all others are compared with, by their places among them.
const BARE: usize = 0;
const EMBEDDED: usize = 1;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("recovery") => return recovery::measure(&arguments[1..]),
        Some("stop") => return stop::measure(&arguments[1..]),
        Some("recovery-open") => return recovery::open(&arguments[1]),
        _ => {}
    }
    let rounds = match arguments.first() {
        Some(text) => text
            .parse()
            .map_err(|_| format!("{text} is not a number of rounds"))?,
        None => DEFAULT_ROUNDS,
    };
    let bare = Bare;
    let warm = Embedded::new("embedded, helpers ahead", 2)?;
    let cold = Embedded::new("embedded, helper on demand", 0)?;
    let attached = Attached::new()?;
    let served = CommandLine::through_an_arbiter()?;
    let alone = CommandLine::alone()?;
    let ways: [&dyn Way; 6] = [&bare, &warm, &cold, &attached, &served, &alone];
    let mut measured = Rounds::new(ways.len());
    for _ in 0..rounds {
        for (at, way) in ways.iter().enumerate() {
            measured.add(
                at,
                sample::median_of(COMMANDS_PER_ROUND, || way.run_true())?,
            );
        }
    }
    say(&format!(
        "spawn to exit of /bin/true, {rounds} rounds of {COMMANDS_PER_ROUND}, durable"
    ));
    say(&format!(
        "{:28} {:>10} {:>8} {:>8} {:>8} {:>11}",
        "way", "median us", "x min", "x med", "x max", "x embedded"
    ));
    for (at, way) in ways.iter().enumerate() {
        let ratios = measured.ratios(at, BARE);
        say(&format!(
            "{:28} {:>10.0} {:>8.2} {:>8.2} {:>8.2} {:>11.2}",
            way.name(),
            measured.median_us(at),
            ratios.min,
            ratios.median,
            ratios.max,
            measured.ratios(at, EMBEDDED).median
        ));
    }
    Ok(())
}

#[expect(
    clippy::print_stdout,
    reason = "the figures are what this program is for"
)]
fn say(line: &str) {
    println!("{line}");
}
