//! Dice from a seed that is printed. What falls when is the scheduler's as well, so the same seed gives the
//! same plan, and not the same run.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Gives a run the seed of another one.
const SEED_VARIABLE: &str = "XIOFLOW_TEST_SEED";

/// Random numbers by SplitMix64, which is enough for moments.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The seed of the environment, or one of its own; it is printed.
    pub(crate) fn seed() -> u64 {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().expect("a seed is a number"),
            Err(_) => RandomState::new().build_hasher().finish(),
        };
        eprintln!("{SEED_VARIABLE}={seed}");
        seed
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for a thread.
    pub(crate) fn another(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`, which is not zero.
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    /// Whether it falls so, in `of` cases out of a hundred.
    pub(crate) fn percent(&mut self, of: u64) -> bool {
        self.below(100) < of
    }

    /// A time below `most`.
    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).expect("moments are short");
        Duration::from_micros(self.below(most.max(1)))
    }

    /// One of several, each as often as its weight says.
    pub(crate) fn one_of<T: Copy>(&mut self, weighted: &[(u64, T)]) -> T {
        let mut left = self.below(weighted.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in weighted {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *one,
            }
        }
        unreachable!("the weights were added up before")
    }
}
