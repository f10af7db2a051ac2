//! When a tree can have used up its processor time at the earliest. Pure.

use std::time::Duration;

/// Least time between two looks at a tree that works: what it may use beyond its limit is this, on each processor.
const LOOK_MIN: Duration = Duration::from_millis(10);

/// The same at one that has used nothing since the last look. It may have used nearly all, and sleep for days.
const LOOK_MIN_AT_REST: Duration = Duration::from_millis(100);

/// How long from now until a tree that has so much time left can have used it, on so many processors, given in
/// thousandths.
pub(super) fn next_look(left: Duration, milli_cpus: u32, was_at_rest: bool) -> Duration {
    let least = match was_at_rest {
        true => LOOK_MIN_AT_REST,
        false => LOOK_MIN,
    };
    let nanos = left.as_nanos().saturating_mul(1000) / u128::from(milli_cpus.max(1));
    let at_once = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    at_once.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn more_processors_use_it_up_sooner() {
        for (left, milli_cpus, expected) in [
            (10 * S, 1000, 10 * S),
            (10 * S, 500, 20 * S),
            (10 * S, 64_000, Duration::from_micros(156_250)),
            (Duration::ZERO, 1000, LOOK_MIN),
            (10 * S, 0, 10_000 * S),
        ] {
            assert_eq!(next_look(left, milli_cpus, false), expected, "{left:?}");
        }
        assert_eq!(next_look(Duration::ZERO, 1000, true), LOOK_MIN_AT_REST);
        assert!(next_look(Duration::MAX, 1, false) > 1_000_000 * S);
    }

    /// One thread on a machine with many processors: each look halves what is left at most, so there are few.
    #[test]
    fn a_limit_is_found_in_few_looks_and_never_passed_by_more_than_one() {
        for (processors, busy) in [(1, 1), (4, 1), (64, 1), (64, 64)] {
            let limit = 60 * S;
            let mut used = Duration::ZERO;
            let mut looks = 0;
            while used < limit {
                let wait = next_look(limit - used, processors * 1000, false);
                used += wait * busy;
                looks += 1;
            }
            assert!(used - limit <= LOOK_MIN * busy, "{processors} {busy}");
            let few = 1 + 10 * processors;
            assert!(looks <= few, "{processors} {busy}: {looks}");
        }
    }
}
