//! Time as a contract bounds it: without the moments in which the machine ran nobody.
//!
//! A thread that wakes at short intervals sees when it was not woken. What it has missed says
//! nothing about who is examined, so it is taken off; a machine that works loses nothing.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it wakes.
const BEAT: Duration = Duration::from_millis(10);
/// A delay up to here is that of a machine at work.
const USUAL_DELAY: Duration = Duration::from_millis(50);

/// A clock that stands still while the machine does.
pub(crate) struct Pulse {
    begun: Instant,
    stop: Sender<()>,
    thread: JoinHandle<Duration>,
}

impl Pulse {
    pub(crate) fn start() -> Self {
        let (stop, stopped) = channel::<()>();
        let thread = thread::spawn(move || {
            let mut missed = Duration::ZERO;
            loop {
                let at = Instant::now();
                if stopped.recv_timeout(BEAT) != Err(RecvTimeoutError::Timeout) {
                    return missed;
                }
                let late = at.elapsed().saturating_sub(BEAT);
                if late > USUAL_DELAY {
                    missed += late;
                }
            }
        });
        Self {
            begun: Instant::now(),
            stop,
            thread,
        }
    }

    /// How long it took so far, without what was missed.
    pub(crate) fn stop(self) -> Duration {
        let took = self.begun.elapsed();
        drop(self.stop);
        let missed = self.thread.join().expect("it does nothing that panics");
        took.saturating_sub(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_at_work_misses_no_more_than_passed() {
        let (pulse, begun) = (Pulse::start(), Instant::now());
        thread::park_timeout(Duration::from_millis(30));
        assert!(pulse.stop() <= begun.elapsed());
    }
}
