//! Which stored output goes: pure. Files are shown to it one after the other, the oldest result first, so it
//! remembers two numbers and no file.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use xioflow_journal::PruneReason;

/// What is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneOptions {
    /// Output whose operation ended longer ago than this goes; none goes for its age by default.
    pub max_age: Option<Duration>,
    /// The oldest goes until what is left takes no more than so many bytes; none goes for its size by default.
    pub max_bytes: Option<u64>,
    /// Nothing is removed; what would be is told.
    pub dry_run: bool,
}

/// What still needs a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Its operation has no result yet, or is being recorded.
    Unfinished,
    /// The end of its operation cannot be proven, and nobody has decided about it: it is evidence.
    Indeterminate,
    /// The Run of its operation is open.
    OpenRun,
}

/// A stored file of an operation that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) bytes: u64,
    pub(super) finished_at_ms: i64,
    pub(super) need: Option<Need>,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    Remove(PruneReason),
    Keep,
}

/// The limits, and how far what is stored is above them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// What ended before goes.
    cutoff_ms: Option<i64>,
    /// How many bytes are too many.
    excess: u64,
    /// What they go for.
    for_size: PruneReason,
}

impl Plan {
    /// Plans for files that take `stored_bytes` together, at the instant `now_ms`.
    pub(super) fn new(options: &PruneOptions, stored_bytes: u64, now_ms: i64) -> Self {
        let cutoff = options.max_age.map(|age| {
            let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            now_ms.saturating_sub(age_ms)
        });
        Self {
            cutoff_ms: cutoff,
            excess: options
                .max_bytes
                .map_or(0, |max| stored_bytes.saturating_sub(max)),
            for_size: PruneReason::Size,
        }
    }

    /// Plans to make room for `wanted` bytes, whatever the age of what goes for it.
    pub(super) fn for_room(wanted: u64) -> Self {
        Self {
            cutoff_ms: None,
            excess: wanted,
            for_size: PruneReason::Quota,
        }
    }

    /// Whether nothing can go any more, however many files come.
    pub(super) fn is_done(&self) -> bool {
        self.cutoff_ms.is_none() && self.excess == 0
    }

    /// Decides about the next file; the caller shows the oldest first. What goes for its age makes room
    /// as well.
    pub(super) fn rule(&mut self, file: &Stored) -> Ruling {
        if file.need.is_some() {
            return Ruling::Keep;
        }
        let reason = match self.cutoff_ms {
            Some(cutoff_ms) if file.finished_at_ms < cutoff_ms => PruneReason::Age,
            _ if self.excess > 0 => self.for_size,
            _ => return Ruling::Keep,
        };
        self.excess = self.excess.saturating_sub(file.bytes);
        Ruling::Remove(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: i64 = 1_000_000;

    fn stored(bytes: u64, age_ms: i64) -> Stored {
        Stored {
            bytes,
            finished_at_ms: NOW_MS - age_ms,
            need: None,
        }
    }

    fn options(max_age_ms: Option<u64>, max_bytes: Option<u64>) -> PruneOptions {
        PruneOptions {
            max_age: max_age_ms.map(Duration::from_millis),
            max_bytes,
            dry_run: false,
        }
    }

    fn removed(options: &PruneOptions, files: &[Stored]) -> Vec<Option<PruneReason>> {
        let total = files.iter().map(|file| file.bytes).sum();
        let mut plan = Plan::new(options, total, NOW_MS);
        let ruling = |file| match plan.rule(file) {
            Ruling::Remove(reason) => Some(reason),
            Ruling::Keep => None,
        };
        files.iter().map(ruling).collect()
    }

    #[test]
    fn age_takes_what_is_older_and_size_the_oldest_of_the_rest() {
        use PruneReason::{Age, Size};
        let files = [
            stored(10, 900),
            stored(10, 500),
            stored(10, 100),
            stored(10, 0),
        ];
        assert_eq!(removed(&options(None, None), &files), [None; 4]);
        assert_eq!(
            removed(&options(Some(500), None), &files),
            [Some(Age), None, None, None],
            "of exactly the age it stays"
        );
        assert_eq!(
            removed(&options(None, Some(25)), &files),
            [Some(Size), Some(Size), None, None],
            "too much is removed rather than too little"
        );
        assert_eq!(
            removed(&options(Some(500), Some(25)), &files),
            [Some(Age), Some(Size), None, None]
        );
        assert_eq!(removed(&options(None, Some(40)), &files), [None; 4]);
        assert_eq!(removed(&options(None, Some(0)), &files), [Some(Size); 4]);
    }

    #[test]
    fn what_is_needed_stays_and_the_next_go_for_it() {
        let mut files = [stored(10, 900), stored(10, 500), stored(10, 100)];
        for need in [Need::Indeterminate, Need::OpenRun, Need::Unfinished] {
            files[0].need = Some(need);
            let all = [None, Some(PruneReason::Age), Some(PruneReason::Age)];
            assert_eq!(removed(&options(Some(0), Some(0)), &files), all, "{need:?}");
            let one = [None, Some(PruneReason::Size), None];
            assert_eq!(removed(&options(None, Some(20)), &files), one, "{need:?}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_old() {
        let from_the_future = stored(10, -5000);
        let hour = Some(3_600_000);
        assert_eq!(removed(&options(hour, None), &[from_the_future]), [None]);
        let for_ever = PruneOptions {
            max_age: Some(Duration::MAX),
            ..options(None, None)
        };
        assert_eq!(removed(&for_ever, &[stored(10, 900)]), [None]);
    }

    #[test]
    fn room_is_made_and_no_more() {
        let mut plan = Plan::for_room(15);
        assert!(!plan.is_done());
        let quota = Ruling::Remove(PruneReason::Quota);
        assert_eq!(plan.rule(&stored(10, 0)), quota);
        assert_eq!(plan.rule(&stored(10, 0)), quota);
        assert!(plan.is_done());
        assert_eq!(plan.rule(&stored(10, 900)), Ruling::Keep);
    }

    proptest! {
        /// Whatever is stored: what is needed stays, the limit is kept if it can be, and no younger file
        /// goes for its size while an older one that may go is left.
        #[test]
        fn limits_are_kept_and_the_oldest_go_first(
            mut files in prop::collection::vec(
                (0u64..100, 0i64..1000, prop::option::weighted(0.3, Just(Need::OpenRun))),
                0..40,
            ),
            max_age in prop::option::of(0u64..1000),
            max_bytes in prop::option::of(0u64..2000),
        ) {
            files.sort_by_key(|(_, age_ms, _)| -age_ms);
            let files: Vec<Stored> = files
                .into_iter()
                .map(|(bytes, age_ms, need)| Stored { need, ..stored(bytes, age_ms) })
                .collect();
            let removed = removed(&options(max_age, max_bytes), &files);
            let both = || files.iter().zip(&removed);
            prop_assert!(both().all(|(file, gone)| file.need.is_none() || gone.is_none()));
            let left: u64 = both().filter(|(_, gone)| gone.is_none()).map(|(file, _)| file.bytes).sum();
            let needed: u64 = files.iter().filter(|it| it.need.is_some()).map(|it| it.bytes).sum();
            if let Some(max) = max_bytes {
                prop_assert!(left <= max || left == needed);
            }
            let free: Vec<_> = both().filter(|(file, _)| file.need.is_none()).map(|(_, gone)| gone).collect();
            let kept_from = free.iter().position(|gone| gone.is_none()).unwrap_or(free.len());
            prop_assert!(free[kept_from..].iter().all(|gone| gone.is_none()));
        }
    }
}
