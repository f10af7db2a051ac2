//! Chance, from a seed that is printed, so that a plan can be had again. What falls when is the scheduler's as
//! well: the same seed gives the same plan, and not the same run.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Gives a run the seed of another one.
const SEED_VARIABLE: &str = "XIOFLOW_TEST_SEED";

/// Random numbers by SplitMix64, which is enough to choose by.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// That of the environment's seed, or of a new one; it is printed.
    ///
    /// # Panics
    /// When the variable holds no number.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Self::seed())
    }

    /// The chance that belongs to a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed: that of the environment, or a new one; it is printed.
    ///
    /// # Panics
    /// When the variable holds no number.
    #[expect(clippy::print_stderr, reason = "whoever looks into a test needs it")]
    #[must_use]
    pub fn seed() -> u64 {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().expect("a seed is a number"),
            Err(_) => RandomState::new().build_hasher().finish(),
        };
        eprintln!("{SEED_VARIABLE}={seed}");
        seed
    }

    /// One of its own, for a thread.
    #[must_use]
    pub fn another(&mut self) -> Self {
        Self(self.draw())
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`.
    ///
    /// # Panics
    /// When there are no sides.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.draw() % sides
    }

    /// Heads or tails.
    pub fn flip(&mut self) -> bool {
        self.draw() & 1 == 1
    }

    /// Whether it falls so, in `of` cases out of a hundred.
    pub fn percent(&mut self, of: u64) -> bool {
        self.below(100) < of
    }

    /// A time below `most`.
    ///
    /// # Panics
    /// When that is no moment but ages.
    pub fn within(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).expect("moments are short");
        Duration::from_micros(self.below(most.max(1)))
    }

    /// One of several, each as often as its weight says.
    ///
    /// # Panics
    /// When nothing has a weight.
    pub fn one_of<T: Copy>(&mut self, weighted: &[(u64, T)]) -> T {
        let mut left = self.below(weighted.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in weighted {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *one,
            }
        }
        unreachable!("the weights were added up before")
    }

    /// `count` of these in their order, chosen at random; all of them if there are fewer.
    pub fn pick<T: Copy>(&mut self, from: &[T], count: usize) -> Vec<T> {
        let mut left = count.min(from.len());
        let mut picked = Vec::with_capacity(left);
        for (index, one) in from.iter().enumerate() {
            let remaining = (from.len() - index) as u64;
            if self.below(remaining) < left as u64 {
                picked.push(*one);
                left -= 1;
            }
        }
        picked
    }
}

impl Default for Chance {
    fn default() -> Self {
        Self::new()
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

    #[test]
    fn what_has_weight_falls_and_nothing_else() {
        let mut chance = Chance::of(7);
        let fallen: Vec<char> = (0..1000)
            .map(|_| chance.one_of(&[(1, 'a'), (0, 'b'), (9, 'c')]))
            .collect();
        let times = |of| fallen.iter().filter(|it| **it == of).count();
        assert_eq!(times('b'), 0);
        assert!((1..300).contains(&times('a')), "{}", times('a'));
        assert_eq!(times('a') + times('c'), 1000);
        assert!(chance.within(Duration::from_millis(5)) < Duration::from_millis(5));
        assert_eq!(chance.within(Duration::ZERO), Duration::ZERO);
        assert!((0..100).all(|_| chance.percent(100) && !chance.percent(0)));
    }
}
