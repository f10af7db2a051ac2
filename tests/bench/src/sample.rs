//! Medians and ratios. Pure but for the clock.

use std::error::Error;
use std::time::Instant;

/// The figures of every way in every round, in microseconds.
#[derive(Debug)]
pub(crate) struct Rounds {
    by_way: Vec<Vec<f64>>,
}

/// Ratios against another way, over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratios {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Rounds {
    pub(crate) fn new(ways: usize) -> Self {
        Self {
            by_way: vec![Vec::new(); ways],
        }
    }

    pub(crate) fn add(&mut self, way: usize, micros: f64) {
        self.by_way[way].push(micros);
    }

    pub(crate) fn median_us(&self, way: usize) -> f64 {
        median(self.by_way[way].clone())
    }

    pub(crate) fn ratios(&self, way: usize, against: usize) -> Ratios {
        ratios(&self.by_way[way], &self.by_way[against])
    }

    /// The ratios of one way against itself in another measurement with as many rounds.
    pub(crate) fn ratios_to(&self, way: usize, other: &Self) -> Ratios {
        ratios(&self.by_way[way], &other.by_way[way])
    }
}

fn ratios(ours: &[f64], theirs: &[f64]) -> Ratios {
    let pairs = ours.iter().zip(theirs);
    let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
    let fold = |pick: fn(f64, f64) -> f64| ratios.iter().copied().reduce(pick).unwrap_or(0.0);
    Ratios {
        min: fold(f64::min),
        max: fold(f64::max),
        median: median(ratios.clone()),
    }
}

/// Runs `act` so many times and gives the median time in microseconds.
pub(crate) fn median_of(
    times: usize,
    mut act: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let mut samples = Vec::with_capacity(times);
    for _ in 0..times {
        let begun = Instant::now();
        act()?;
        samples.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(samples))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}
