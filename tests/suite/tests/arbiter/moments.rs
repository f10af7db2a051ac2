//! Random moments, from a seed that is printed, so that a run can be had again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Gives a run the seed of another one.
const SEED_VARIABLE: &str = "XIOFLOW_TEST_SEED";

/// Random numbers by SplitMix64, which is enough for moments.
pub(crate) struct Moments(u64);

impl Moments {
    /// With the seed of the environment, or one of its own; it is printed.
    pub(crate) fn new() -> Self {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().expect("a seed is a number"),
            Err(_) => RandomState::new().build_hasher().finish(),
        };
        eprintln!("{SEED_VARIABLE}={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A time below `most`.
    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).expect("moments are short");
        Duration::from_micros(self.next() % most.max(1))
    }
}
