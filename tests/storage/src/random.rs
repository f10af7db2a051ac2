//! Chance, from a seed that is printed, so that a run can be had again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Gives a run the seed of another one.
pub const SEED_VARIABLE: &str = "XIOFLOW_TEST_SEED";

/// Random numbers by SplitMix64, which is enough to choose by.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The chance that belongs to a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed: that of the environment, or a new one.
    ///
    /// # Panics
    /// When the variable holds no number.
    #[must_use]
    pub fn seed() -> u64 {
        match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().expect("a seed is a number"),
            Err(_) => RandomState::new().build_hasher().finish(),
        }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Heads or tails.
    pub fn flip(&mut self) -> bool {
        self.draw() & 1 == 1
    }

    /// `count` of these in their order, chosen at random; all of them if there are fewer.
    pub fn pick<T: Copy>(&mut self, from: &[T], count: usize) -> Vec<T> {
        let mut left = count.min(from.len());
        let mut picked = Vec::with_capacity(left);
        for (index, one) in from.iter().enumerate() {
            let remaining = (from.len() - index) as u64;
            if self.draw() % remaining < left as u64 {
                picked.push(*one);
                left -= 1;
            }
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_choice_again() {
        let all: Vec<u32> = (0..100).collect();
        let picked = Chance::of(7).pick(&all, 10);
        assert_eq!(picked.len(), 10);
        assert!(picked.is_sorted(), "{picked:?}");
        assert_eq!(Chance::of(7).pick(&all, 10), picked);
        assert_ne!(Chance::of(8).pick(&all, 10), picked);
        assert_eq!(Chance::of(7).pick(&all, 1000), all);
    }
}
