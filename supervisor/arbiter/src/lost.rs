//! When an operation is stopped because its client is gone. Pure: who waits comes as calls, time as a value.
//!
//! An operation goes on for as long as somebody with a connection waits for it, whoever submitted it,
//! and without anybody where one of them has detached it. Else it has a grace: a client may come back
//! with the same submission, or another one attach.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Who waits for which operation.
#[derive(Debug)]
pub(crate) struct Waiting {
    grace: Duration,
    operations: HashMap<String, Waited>,
    /// When the next one is due. The loop asks each time that it wakes, and most have no grace to look for.
    next: Option<Instant>,
}

#[derive(Debug, Default)]
struct Waited {
    /// Submissions and attachments that are not over, lost ones included.
    all: usize,
    /// Those whose client is there.
    present: usize,
    /// One of them has said that it goes on without anybody.
    detached: bool,
    lost_since: Option<Instant>,
    /// It was said to be due.
    told: bool,
}

impl Waiting {
    /// With a grace for operations that nobody waits for.
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            grace,
            operations: HashMap::new(),
            next: None,
        }
    }

    /// One more client waits for it.
    pub(crate) fn enter(&mut self, operation_id: &str, detached: bool) {
        let waited = self.operations.entry(operation_id.to_owned()).or_default();
        waited.all += 1;
        waited.present += 1;
        waited.detached |= detached;
        if waited.lost_since.take().is_some() {
            self.look_for_next();
        }
    }

    /// A client that waited for it is gone; what it submitted is not over.
    pub(crate) fn lose(&mut self, operation_id: &str, now: Instant) {
        if let Some(waited) = self.operations.get_mut(operation_id) {
            waited.present -= 1;
            waited.begin_grace(now);
            self.look_for_next();
        }
    }

    /// A submission or attachment is over, by its result or otherwise. Whether its client was `present`
    /// is what was said last.
    pub(crate) fn end(&mut self, operation_id: &str, present: bool, now: Instant) {
        let Some(waited) = self.operations.get_mut(operation_id) else {
            return;
        };
        waited.all -= 1;
        waited.present -= usize::from(present);
        let had_grace = waited.lost_since.is_some();
        if waited.all == 0 {
            self.operations.remove(operation_id);
        } else {
            waited.begin_grace(now);
        }
        if had_grace || self.operations.contains_key(operation_id) {
            self.look_for_next();
        }
    }

    /// How many clients wait for it, and whether it goes on without any.
    pub(crate) fn of(&self, operation_id: &str) -> Option<(usize, bool)> {
        let waited = self.operations.get(operation_id)?;
        Some((waited.present, waited.detached))
    }

    /// When the next operation is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    fn look_for_next(&mut self) {
        let grace = self.grace;
        let due = |waited: &Waited| waited.due(grace);
        self.next = self.operations.values().filter_map(due).min();
    }

    /// Those whose grace is over, each once.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<String> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let grace = self.grace;
        let mut due = Vec::new();
        for (operation_id, waited) in &mut self.operations {
            if waited.due(grace).is_some_and(|at| at <= now) {
                waited.told = true;
                due.push(operation_id.clone());
            }
        }
        self.look_for_next();
        due
    }
}

impl Waited {
    fn begin_grace(&mut self, now: Instant) {
        if self.present == 0 {
            self.lost_since.get_or_insert(now);
        }
    }

    /// A grace beyond the end of the clock has none.
    fn due(&self, grace: Duration) -> Option<Instant> {
        let lost_since = self.lost_since.filter(|_| !self.detached && !self.told)?;
        lost_since.checked_add(grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    fn after(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    #[test]
    fn one_whose_only_client_is_lost_is_due_once_its_grace_is_over() {
        let (mut waiting, begin) = (Waiting::new(GRACE), Instant::now());
        waiting.enter("a", false);
        assert_eq!(waiting.next(), None);
        waiting.lose("a", begin);
        assert_eq!(waiting.next(), Some(begin + GRACE));
        assert_eq!(waiting.due(after(begin, 1999)), Vec::<String>::new());
        assert_eq!(waiting.due(after(begin, 2000)), ["a"]);
        assert_eq!(waiting.due(after(begin, 9000)), Vec::<String>::new());
        assert_eq!(waiting.next(), None, "nothing wakes for it any more");
        waiting.end("a", false, after(begin, 9000));
        assert_eq!(waiting.of("a"), None);
    }

    /// Every order in which a submitter and another one can come and go within four steps.
    #[test]
    fn it_is_due_exactly_while_nobody_is_there_and_nobody_detached_it() {
        for detached in [false, true] {
            for first_goes in [false, true] {
                for second_comes in [false, true] {
                    for second_goes in [false, true] {
                        let (mut waiting, begin) = (Waiting::new(GRACE), Instant::now());
                        waiting.enter("a", detached);
                        let (mut present, mut since) = (1, None);
                        if first_goes {
                            waiting.lose("a", begin);
                            (present, since) = (0, Some(begin));
                        }
                        if second_comes {
                            waiting.enter("a", false);
                            (present, since) = (present + 1, None);
                            if second_goes {
                                waiting.lose("a", after(begin, 500));
                                present -= 1;
                                since = (present == 0).then_some(after(begin, 500));
                            }
                        }
                        let expected = since.filter(|_| !detached).map(|since| since + GRACE);
                        assert_eq!(waiting.next(), expected);
                        assert_eq!(waiting.of("a"), Some((present, detached)));
                    }
                }
            }
        }
    }

    #[test]
    fn whoever_comes_back_within_the_grace_keeps_it_and_the_next_loss_begins_anew() {
        let (mut waiting, begin) = (Waiting::new(GRACE), Instant::now());
        waiting.enter("a", false);
        waiting.lose("a", begin);
        waiting.enter("a", false);
        assert_eq!(waiting.due(after(begin, 5000)), Vec::<String>::new());
        waiting.lose("a", after(begin, 6000));
        assert_eq!(waiting.due(after(begin, 7999)), Vec::<String>::new());
        assert_eq!(waiting.due(after(begin, 8000)), ["a"]);
    }

    #[test]
    fn a_joiner_that_has_its_answer_leaves_the_lost_one_alone() {
        let (mut waiting, begin) = (Waiting::new(GRACE), Instant::now());
        waiting.enter("a", false);
        waiting.enter("a", false);
        waiting.lose("a", begin);
        assert_eq!(waiting.next(), None, "the joiner waits");
        waiting.end("a", true, after(begin, 100));
        assert_eq!(waiting.next(), Some(after(begin, 2100)));
    }

    #[test]
    fn one_that_a_joiner_has_detached_goes_on_when_all_are_gone() {
        let (mut waiting, begin) = (Waiting::new(GRACE), Instant::now());
        waiting.enter("a", false);
        waiting.enter("a", true);
        waiting.lose("a", begin);
        waiting.lose("a", begin);
        assert_eq!(waiting.next(), None);
        assert_eq!(waiting.of("a"), Some((0, true)));
    }

    #[test]
    fn an_endless_grace_is_none_that_ends() {
        let (mut waiting, begin) = (Waiting::new(Duration::MAX), Instant::now());
        waiting.enter("a", false);
        waiting.lose("a", begin);
        assert_eq!(waiting.next(), None);
    }
}
