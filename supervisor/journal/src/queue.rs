//! Group commit without a thread of its own: who comes first does the work of all who wait.
//! Knows nothing of databases; `writer` is the work.
//!
//! A caller that finds nobody at work works at once, where it stands. Others take a seat. When
//! the worker is done it hands over to the first seat, whose owner takes everything that has
//! queued up meanwhile as one batch. So arrival order is kept and nobody starves: a request
//! waits for the batch in progress and, within [`BATCH_LEN_MAX`], is part of the next.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many requests share one commit. It bounds how long the first of them waits for the
/// last; with some 20 us of work each, it stays near the cost of one slow fdatasync.
pub(crate) const BATCH_LEN_MAX: usize = 256;

/// Callers that take turns. `T` is a request, `R` its answer.
#[derive(Debug)]
pub(crate) struct Queue<T, R> {
    line: Mutex<Line<T, R>>,
}

#[derive(Debug)]
struct Line<T, R> {
    /// Somebody works, or has been woken to.
    is_led: bool,
    seats: VecDeque<Arc<Seat<T, R>>>,
}

#[derive(Debug)]
struct Seat<T, R> {
    turn: Mutex<Turn<T, R>>,
    changed: Condvar,
}

#[derive(Debug)]
enum Turn<T, R> {
    /// In line.
    Waiting(T),
    /// In line, at its head, and asked to work for all.
    Leads(T),
    /// In somebody's batch.
    Taken,
    Answered(R),
    /// Its worker panicked.
    Abandoned,
}

impl<T, R> Queue<T, R> {
    pub(crate) fn new() -> Self {
        Self {
            line: Mutex::new(Line {
                is_led: false,
                seats: VecDeque::new(),
            }),
        }
    }

    /// How many requests are in line.
    pub(crate) fn waiting(&self) -> usize {
        locked(&self.line).seats.len()
    }

    /// Gets `request` answered: by `work` on this thread, called with a batch in order of
    /// arrival for as many answers in the same order, or by another caller's `work`.
    /// `None` if that caller panicked.
    pub(crate) fn submit(&self, request: T, work: impl FnOnce(Vec<T>) -> Vec<R>) -> Option<R> {
        match self.enter(request) {
            Ok(request) => {
                let lead = Lead(self);
                let mut answers = work(vec![request]);
                drop(lead);
                answers.pop()
            }
            Err(seat) => match seat.wait() {
                Outcome::Answer(answer) => answer,
                Outcome::Lead => self.work_for_all(work),
            },
        }
    }

    /// Gives the request back if nobody works, and a seat otherwise.
    fn enter(&self, request: T) -> Result<T, Arc<Seat<T, R>>> {
        let mut line = locked(&self.line);
        if !line.is_led {
            line.is_led = true;
            return Ok(request);
        }
        let seat = Arc::new(Seat {
            turn: Mutex::new(Turn::Waiting(request)),
            changed: Condvar::new(),
        });
        line.seats.push_back(Arc::clone(&seat));
        Err(seat)
    }

    /// Works for the head of the line, which is the caller, and those behind it.
    fn work_for_all(&self, work: impl FnOnce(Vec<T>) -> Vec<R>) -> Option<R> {
        let lead = Lead(self);
        let (batch, requests) = self.take_batch();
        let answers = work(requests);
        // Those who wait behind start at once, before the answered ones are woken.
        drop(lead);
        batch.answer(answers)
    }

    fn take_batch(&self) -> (Batch<T, R>, Vec<T>) {
        let mut line = locked(&self.line);
        let len = line.seats.len().min(BATCH_LEN_MAX);
        let seats: Vec<_> = line.seats.drain(..len).collect();
        let requests = seats.iter().filter_map(|seat| seat.take()).collect();
        (Batch { seats }, requests)
    }
}

/// Being at work. Dropping it, in a panic as well, hands over to the head of the line.
struct Lead<'a, T, R>(&'a Queue<T, R>);

impl<T, R> Drop for Lead<'_, T, R> {
    fn drop(&mut self) {
        let mut line = locked(&self.0.line);
        match line.seats.front() {
            Some(seat) => seat.lead(),
            None => line.is_led = false,
        }
    }
}

/// Seats whose requests are being worked on. Those not answered in the end are abandoned.
struct Batch<T, R> {
    seats: Vec<Arc<Seat<T, R>>>,
}

impl<T, R> Batch<T, R> {
    /// Wakes all but the first, whose answer is returned: it belongs to the caller.
    fn answer(mut self, answers: Vec<R>) -> Option<R> {
        let mut answers = answers.into_iter();
        let mine = answers.next();
        for (seat, answer) in self.seats.drain(..).skip(1).zip(answers) {
            seat.set(Turn::Answered(answer));
        }
        mine
    }
}

impl<T, R> Drop for Batch<T, R> {
    fn drop(&mut self) {
        for seat in &self.seats {
            seat.set(Turn::Abandoned);
        }
    }
}

enum Outcome<R> {
    Answer(Option<R>),
    Lead,
}

impl<T, R> Seat<T, R> {
    fn wait(&self) -> Outcome<R> {
        let mut turn = locked(&self.turn);
        loop {
            turn = match std::mem::replace(&mut *turn, Turn::Taken) {
                Turn::Answered(answer) => return Outcome::Answer(Some(answer)),
                Turn::Abandoned => return Outcome::Answer(None),
                Turn::Leads(request) => {
                    *turn = Turn::Leads(request);
                    return Outcome::Lead;
                }
                unchanged @ (Turn::Waiting(_) | Turn::Taken) => {
                    *turn = unchanged;
                    self.changed
                        .wait(turn)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    fn take(&self) -> Option<T> {
        match std::mem::replace(&mut *locked(&self.turn), Turn::Taken) {
            Turn::Waiting(request) | Turn::Leads(request) => Some(request),
            Turn::Taken | Turn::Answered(_) | Turn::Abandoned => None,
        }
    }

    fn lead(&self) {
        if let Some(request) = self.take() {
            self.set(Turn::Leads(request));
        }
    }

    fn set(&self, turn: Turn<T, R>) {
        *locked(&self.turn) = turn;
        self.changed.notify_one();
    }
}

/// What these mutexes guard is whole between any two statements, so a panic elsewhere while one
/// was held does no harm.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    type Numbers = Queue<usize, usize>;

    /// Lets others in line behind a worker that has begun, then lets the worker go on.
    fn hold_up<'s>(scope: &'s thread::Scope<'s, '_>, queue: &'s Numbers) -> mpsc::Sender<()> {
        let begun = std::sync::Arc::new(Barrier::new(2));
        let (go, wait) = mpsc::channel();
        let theirs = Arc::clone(&begun);
        scope.spawn(move || {
            queue.submit(0, |batch| {
                theirs.wait();
                wait.recv().unwrap();
                batch
            })
        });
        begun.wait();
        go
    }

    fn until_waiting(queue: &Numbers, len: usize) {
        while queue.waiting() < len {
            thread::yield_now();
        }
    }

    #[test]
    fn a_lone_caller_works_on_its_own_thread() {
        let queue = Numbers::new();
        let here = thread::current().id();
        let answer = queue.submit(7, |batch| {
            assert_eq!(thread::current().id(), here);
            batch.iter().map(|n| n + 1).collect()
        });
        assert_eq!(answer, Some(8));
    }

    #[test]
    fn batches_are_bounded_and_keep_the_order_of_arrival() {
        const CALLERS: usize = BATCH_LEN_MAX + 3;
        let queue = Numbers::new();
        let batches = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let go = hold_up(scope, &queue);
            for n in 1..=CALLERS {
                let (queue, batches) = (&queue, &batches);
                scope.spawn(move || {
                    let answer = queue.submit(n, |batch| {
                        locked(batches).push(batch.clone());
                        batch.iter().map(|n| n * 10).collect()
                    });
                    assert_eq!(answer, Some(n * 10));
                });
                until_waiting(queue, n);
            }
            go.send(()).unwrap();
        });
        let batches = batches.into_inner().unwrap();
        let lengths: Vec<_> = batches.iter().map(Vec::len).collect();
        assert_eq!(lengths, [BATCH_LEN_MAX, CALLERS - BATCH_LEN_MAX]);
        assert_eq!(batches.concat(), (1..=CALLERS).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_is_answered_and_the_queue_goes_on() {
        let queue = Numbers::new();
        thread::scope(|scope| {
            let go = hold_up(scope, &queue);
            let queue = &queue;
            let head = scope.spawn(move || queue.submit(1, |_| panic!("on purpose")));
            until_waiting(queue, 1);
            let behind = scope.spawn(move || queue.submit(2, |batch| batch));
            until_waiting(queue, 2);
            go.send(()).unwrap();
            assert!(head.join().is_err());
            assert_eq!(behind.join().unwrap(), None);
        });
        assert_eq!(queue.submit(3, |batch| batch), Some(3));
    }
}
