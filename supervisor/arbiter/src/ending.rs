//! When an arbiter that was told to end does so: when nothing is executed or asked any more, and everybody
//! had a moment to read what was left to be said. Pure.

use std::time::Instant;

use crate::limits::FAREWELL_PATIENCE;

/// How far the end has come.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    begun: bool,
    farewell: Option<Instant>,
}

impl Ending {
    /// Begins it.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Whether it has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Says whether something `works` and whether something is still to be said; whether all is over.
    pub(crate) fn is_over(&mut self, works: bool, says: bool, now: Instant) -> bool {
        if !self.begun || works {
            return false;
        }
        let until = *self.farewell.get_or_insert(now + FAREWELL_PATIENCE);
        !says || until <= now
    }

    /// When it is over whatever is still to be said.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.farewell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_work_without_end_and_for_readers_a_moment() {
        let begin = Instant::now();
        let mut ending = Ending::default();
        assert!(!ending.is_over(false, false, begin), "nobody has said so");
        ending.begin();
        assert!(!ending.is_over(true, true, begin));
        assert!(!ending.is_over(true, false, begin + FAREWELL_PATIENCE * 9));
        assert_eq!(ending.until(), None);
        let done = begin + FAREWELL_PATIENCE * 10;
        assert!(!ending.is_over(false, true, done));
        assert_eq!(ending.until(), Some(done + FAREWELL_PATIENCE));
        assert!(ending.is_over(false, true, done + FAREWELL_PATIENCE));
    }

    #[test]
    fn with_nothing_left_to_be_said_it_is_over_at_once() {
        let now = Instant::now();
        let mut ending = Ending::default();
        ending.begin();
        assert!(ending.is_over(false, false, now));
    }
}
