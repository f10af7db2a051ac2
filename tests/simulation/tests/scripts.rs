//! Scripts by chance: the helper keeps its promises in all of them.
//!
//! `XIOFLOW_TEST_SEED` is the first script of another run, which has printed it; `XIOFLOW_TEST_ROUNDS` how many are tried.

use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use xioflow_simulation::{check, finding, script_of};

/// Scripts for each run of the tests, some seconds.
const ROUNDS: u64 = 1500;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let by_clock = || since.map_or(0, |since| since.as_secs());
    variable("XIOFLOW_TEST_SEED").unwrap_or_else(by_clock)
}

#[test]
fn promises_are_kept_whatever_happens() {
    let seed = seed();
    println!("XIOFLOW_TEST_SEED={seed}");
    for number in seed..seed + variable("XIOFLOW_TEST_ROUNDS").unwrap_or(ROUNDS) {
        if let Some(finding) = finding(&script_of(number), None) {
            panic!("script {number}: {finding}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scripts that get smaller when they find something.
    #[test]
    fn promises_are_kept_in_short_scripts(script in proptest::collection::vec(any::<u8>(), 4..120)) {
        check(&script);
    }
}
