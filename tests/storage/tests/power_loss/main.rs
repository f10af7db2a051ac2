//! Power fails while the real programs work: what they did to the disk is recorded, cut at a moment,
//! and put on a disk as a power failure may leave it. The real program then opens that.
//!
//! [`scenario`] says what is recorded, [`record`] records it, [`check`] opens what is left.

#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for whoever looks into a test"
)]

mod check;
mod record;
mod scenario;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use xioflow_kit::{Chance, Stage, running_as_root, strace};
use xioflow_storage::disk::{Disk, Survival, outline};
use xioflow_storage::recording::{Event, What};

use check::Facts;
use record::Recorded;
use scenario::Scenario;

/// How many moments of a scenario power fails at; `all` for each of them.
const CUTS_VARIABLE: &str = "XIOFLOW_TEST_CUTS";
/// Enough of them to meet each kind of moment, and few enough for every run of the tests.
const CUTS_USUAL: usize = 8;

#[test]
fn a_small_operation_in_a_new_domain() {
    power_fails_in(&scenario::SMALL);
}

#[test]
fn output_that_is_stored_in_a_file() {
    power_fails_in(&scenario::SPILL);
}

#[test]
fn a_domain_that_is_opened_again() {
    power_fails_in(&scenario::AGAIN);
}

#[test]
fn output_that_is_pruned() {
    power_fails_in(&scenario::PRUNE);
}

#[test]
fn a_timeout() {
    power_fails_in(&scenario::TIMEOUT);
}

#[test]
fn an_arbiter_with_clients_and_a_cancel() {
    power_fails_in(&scenario::ARBITER);
}

/// The supervisor is killed, the helper leaves its last word, the next owner settles the operation.
#[test]
fn a_crash_with_a_last_word() {
    power_fails_in(&scenario::CRASH);
}

/// Records a scenario, cuts it, and looks at what each cut may leave.
fn power_fails_in(scenario: &Scenario) {
    if !strace::is_there() {
        eprintln!("{}", strace::MISSING);
        return;
    }
    if scenario.needs_root && !running_as_root() {
        eprintln!("skipped: needs root, to see with strace what the helper does");
        return;
    }
    let stage = Stage::new();
    let recorded = record::record(&stage, scenario);
    let mut chance = Chance::new();
    let cuts = cuts(&recorded, &mut chance);
    let looked = fail_at(&stage, scenario, &recorded, &cuts, &mut chance);
    eprintln!(
        "{} moments of {}, {looked} disks",
        cuts.len(),
        recorded.events.len()
    );
}

/// The moments that power fails at, each as the number of events before it. Whenever somebody was
/// told a fact is one of them.
fn cuts(recorded: &Recorded, chance: &mut Chance) -> Vec<usize> {
    let last = recorded.events.len();
    let count = match std::env::var(CUTS_VARIABLE) {
        Ok(text) if text == "all" => usize::MAX,
        Ok(text) => text.parse().expect("a number of cuts, or all"),
        Err(_) => CUTS_USUAL,
    };
    let mut cuts = chance.pick(&(0..=last).collect::<Vec<_>>(), count);
    cuts.extend((1..=last).filter(|&at| is_told(&recorded.events, at)));
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Whether the event before this moment told something, to its end as far as one can see.
fn is_told(events: &[Event], at: usize) -> bool {
    let next = events.get(at).map(|event| &event.what);
    match (&events[at - 1].what, next) {
        (What::Changed(..), _) => false,
        (What::Told(name, _), Some(What::Told(next, _))) => name != next,
        _ => true,
    }
}

/// Looks at what a power failure may leave at each of these moments; says how many disks that were.
fn fail_at(
    stage: &Stage,
    scenario: &Scenario,
    recorded: &Recorded,
    cuts: &[usize],
    chance: &mut Chance,
) -> usize {
    let mut disk = Disk::default();
    let mut facts = Facts::default();
    let mut seen = HashSet::new();
    let mut done = 0;
    for &cut in cuts {
        for event in &recorded.events[done..cut] {
            match &event.what {
                What::Changed(path, change) => disk
                    .apply(event.at, path, change)
                    .expect("as it was recorded"),
                told => facts.learn(told),
            }
        }
        done = cut;
        for survival in survivals(chance) {
            let tree = disk.after(survival);
            let mut hasher = DefaultHasher::new();
            (outline(&tree), &facts).hash(&mut hasher);
            // Many moments leave the same, and what was told then is the same too.
            if seen.insert(hasher.finish()) {
                let title = format!("{} cut after {cut} events, {survival:?}", scenario.name);
                check::check(stage, &title, &tree, &facts, &recorded.settled);
            }
        }
    }
    seen.len()
}

fn survivals(chance: &mut Chance) -> [Survival; 6] {
    let mut torn = |piece| Survival::Torn {
        piece,
        seed: chance.draw(),
    };
    [
        Survival::Nothing,
        Survival::Everything,
        Survival::Names,
        Survival::Content,
        torn(512),
        torn(4096),
    ]
}
