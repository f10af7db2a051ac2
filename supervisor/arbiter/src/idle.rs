//! When an arbiter that nobody needs ends. Pure.

use std::time::{Duration, Instant};

/// How long it waits at least for its first client: whoever has started it is about to come, and would start another
/// one for ever if it ended before that.
const FIRST_CLIENT_PATIENCE: Duration = Duration::from_secs(2);

/// How long nobody has needed it.
#[derive(Debug)]
pub(crate) struct Idle {
    limit: Option<Duration>,
    since: Option<Instant>,
    has_served: bool,
}

impl Idle {
    /// Ends after `limit` without work; never without one.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self {
            limit,
            since: None,
            has_served: false,
        }
    }

    /// Says whether there is work now.
    pub(crate) fn note(&mut self, has_work: bool, now: Instant) {
        match has_work {
            true => {
                self.since = None;
                self.has_served = true;
            }
            false => {
                self.since.get_or_insert(now);
            }
        }
    }

    /// When it is over, if no work comes. A limit beyond the end of the clock is none.
    pub(crate) fn until(&self) -> Option<Instant> {
        let limit = match self.has_served {
            true => self.limit?,
            false => self.limit?.max(FIRST_CLIENT_PATIENCE),
        };
        self.since?.checked_add(limit)
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_only_after_a_whole_limit_without_work() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut idle = Idle::new(Some(Duration::from_millis(100)));
        assert!(!idle.is_over(at(1000)), "nothing was said yet");
        idle.note(true, at(0));
        idle.note(false, at(0));
        idle.note(false, at(90));
        assert_eq!(idle.until(), Some(at(100)));
        assert!(!idle.is_over(at(99)));
        assert!(idle.is_over(at(100)));
        idle.note(true, at(100));
        assert_eq!(idle.until(), None);
        idle.note(false, at(150));
        assert!(!idle.is_over(at(249)));
        assert!(idle.is_over(at(250)));
    }

    #[test]
    fn its_first_client_finds_it_however_short_the_limit_is() {
        let begin = Instant::now();
        for limit_ms in [0, 100] {
            let limit = Duration::from_millis(limit_ms);
            let mut idle = Idle::new(Some(limit));
            idle.note(false, begin);
            assert_eq!(idle.until(), Some(begin + FIRST_CLIENT_PATIENCE));
            idle.note(true, begin);
            idle.note(false, begin);
            assert_eq!(idle.until(), Some(begin + limit));
        }
        let mut idle = Idle::new(Some(FIRST_CLIENT_PATIENCE * 2));
        idle.note(false, begin);
        assert_eq!(idle.until(), Some(begin + FIRST_CLIENT_PATIENCE * 2));
    }

    #[test]
    fn without_a_limit_it_is_never_over() {
        for limit in [None, Some(Duration::MAX)] {
            let mut idle = Idle::new(limit);
            idle.note(false, Instant::now());
            assert_eq!(idle.until(), None);
        }
    }
}
