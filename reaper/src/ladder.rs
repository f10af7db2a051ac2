//! How a tree goes from running to ended: a pure machine. Time comes in as a value.
//!
//! `serve` feeds it what happened and carries out the effects it answers with. It knows no
//! process, signal call or clock, so every path through it is walked by the tests.

use alloc::vec;
use alloc::vec::Vec;

use xioflow_protocol::{Descendants, Rung, StopPlan};

/// A moment or a span, in milliseconds of a clock that never goes back.
pub(crate) type Millis = u64;

/// How long the killing part waits for progress before it looks for processes that a stuck parent
/// hides. A sweep over thousands takes less.
const STALL_MS: Millis = 50;

/// The longest pause between two such looks.
const STALL_MAX_MS: Millis = 800;

/// Where the tree is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The root runs, and nobody asked for an end.
    Running,
    /// The root has ended; the others may end by themselves until then.
    Settling { until: Millis },
    /// Others outlived the root, and may.
    Waiting,
    /// The signal of a rung was sent and may take effect until then.
    Climbing { rung: usize, until: Millis },
    /// SIGKILL, until nothing is left or the time is over.
    Killing {
        until: Millis,
        look_at: Millis,
        pause: Millis,
    },
    /// Nothing more will happen.
    Done,
}

/// What happened to the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The root was waited for.
    RootExited,
    /// Others were waited for.
    OthersExited,
    /// There is no child left, which proves the tree empty.
    Empty,
    /// Everyone who is left has refused SIGKILL (EPERM).
    AllRefused,
    /// Someone wants the tree to end.
    Stop(StopPlan),
    /// Time has passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Find and report who outlived the root.
    NameSurvivors,
    /// Send this signal to every process of the tree, and SIGCONT after it.
    Signal(i32),
    /// Begin to kill.
    Kill,
    /// Kill the children that came up since.
    Sweep,
    /// Kill everything that descends from us, also below a stuck parent, and look whether all of
    /// it refuses.
    SweepDeep,
    /// Report the end: nothing is left.
    FinishEmpty,
    /// Report the end: something could not be ended.
    FinishRemains,
}

/// An event that cannot happen where the machine is: a broken invariant of the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Illegal;

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ladder {
    stage: Stage,
    root_alive: bool,
    settle_ms: Millis,
    descendants: Descendants,
    plan: StopPlan,
}

impl Ladder {
    /// A tree whose root has just been let run.
    pub(crate) const fn new(descendants: Descendants, settle_ms: u32) -> Self {
        Self {
            stage: Stage::Running,
            root_alive: true,
            settle_ms: settle_ms as Millis,
            descendants,
            plan: StopPlan::kill(0),
        }
    }

    /// When a [`Event::Tick`] is due; `None` when only events move the machine.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        match self.stage {
            Stage::Running | Stage::Waiting | Stage::Done => None,
            Stage::Settling { until } | Stage::Climbing { until, .. } => Some(until),
            Stage::Killing { until, look_at, .. } => Some(until.min(look_at)),
        }
    }

    /// Whether the tree is on its way to its end, by whosever wish.
    pub(crate) const fn is_ending(&self) -> bool {
        match self.stage {
            Stage::Running | Stage::Settling { .. } | Stage::Waiting => false,
            Stage::Climbing { .. } | Stage::Killing { .. } | Stage::Done => true,
        }
    }

    /// Whether SIGKILL was sent, and something may be left.
    pub(crate) const fn is_killing(&self) -> bool {
        matches!(self.stage, Stage::Killing { .. })
    }

    /// Moves on.
    ///
    /// # Errors
    /// [`Illegal`] for an event that cannot happen here: an exit of the root that has exited, an
    /// empty tree whose root lives, or anything but time and requests after the end.
    pub(crate) fn step(&mut self, event: Event, now: Millis) -> Result<Vec<Effect>, Illegal> {
        match event {
            Event::RootExited => self.root_exited(now),
            Event::OthersExited => self.others_exited(now),
            Event::Empty => self.empty(),
            Event::AllRefused => Ok(self.all_refused()),
            Event::Stop(plan) => Ok(self.stop(plan, now)),
            Event::Tick => Ok(self.tick(now)),
        }
    }

    fn root_exited(&mut self, now: Millis) -> Result<Vec<Effect>, Illegal> {
        if !self.root_alive {
            return Err(Illegal);
        }
        self.root_alive = false;
        match self.stage {
            Stage::Running => {
                self.stage = Stage::Settling {
                    until: now + self.settle_ms,
                };
                Ok(vec![])
            }
            Stage::Climbing { .. } => Ok(vec![]),
            Stage::Killing { .. } => Ok(self.progress(now)),
            Stage::Settling { .. } | Stage::Waiting | Stage::Done => Err(Illegal),
        }
    }

    fn others_exited(&mut self, now: Millis) -> Result<Vec<Effect>, Illegal> {
        match self.stage {
            Stage::Running | Stage::Settling { .. } | Stage::Waiting | Stage::Climbing { .. } => {
                Ok(vec![])
            }
            Stage::Killing { .. } => Ok(self.progress(now)),
            Stage::Done => Err(Illegal),
        }
    }

    /// Something died in the killing part, so its children, if any, are ours now.
    fn progress(&mut self, now: Millis) -> Vec<Effect> {
        if let Stage::Killing { until, .. } = self.stage {
            self.stage = Stage::Killing {
                until,
                look_at: now + STALL_MS,
                pause: STALL_MS,
            };
        }
        vec![Effect::Sweep]
    }

    /// Time would change nothing.
    fn all_refused(&mut self) -> Vec<Effect> {
        match self.stage {
            Stage::Killing { .. } => {
                self.stage = Stage::Done;
                vec![Effect::FinishRemains]
            }
            Stage::Running
            | Stage::Settling { .. }
            | Stage::Waiting
            | Stage::Climbing { .. }
            | Stage::Done => vec![],
        }
    }

    fn empty(&mut self) -> Result<Vec<Effect>, Illegal> {
        if self.root_alive {
            return Err(Illegal);
        }
        match self.stage {
            Stage::Settling { .. }
            | Stage::Waiting
            | Stage::Climbing { .. }
            | Stage::Killing { .. } => {
                self.stage = Stage::Done;
                Ok(vec![Effect::FinishEmpty])
            }
            Stage::Running | Stage::Done => Err(Illegal),
        }
    }

    fn stop(&mut self, plan: StopPlan, now: Millis) -> Vec<Effect> {
        match self.stage {
            Stage::Running | Stage::Settling { .. } | Stage::Waiting => self.begin(plan, now),
            Stage::Climbing { rung, until } => {
                let left = until.saturating_sub(now) + polite_ms(&self.plan.rungs[rung + 1..]);
                if polite_ms(&plan.rungs) < left {
                    self.begin(plan, now)
                } else {
                    vec![]
                }
            }
            // Nothing is quicker than killing, and a request may cross the end on its way.
            Stage::Killing { .. } | Stage::Done => vec![],
        }
    }

    fn begin(&mut self, plan: StopPlan, now: Millis) -> Vec<Effect> {
        self.plan = plan;
        self.climb(0, now)
    }

    fn climb(&mut self, rung: usize, now: Millis) -> Vec<Effect> {
        match self.plan.rungs.get(rung) {
            Some(&Rung { signal, wait_ms }) => {
                self.stage = Stage::Climbing {
                    rung,
                    until: now + Millis::from(wait_ms),
                };
                vec![Effect::Signal(signal)]
            }
            None => {
                self.stage = Stage::Killing {
                    until: now + Millis::from(self.plan.kill_ms),
                    look_at: now + STALL_MS,
                    pause: STALL_MS,
                };
                vec![Effect::Kill]
            }
        }
    }

    fn tick(&mut self, now: Millis) -> Vec<Effect> {
        match self.stage {
            Stage::Settling { until } if now >= until => self.settled(now),
            Stage::Climbing { rung, until } if now >= until => self.climb(rung + 1, now),
            Stage::Killing { until, .. } if now >= until => {
                self.stage = Stage::Done;
                vec![Effect::FinishRemains]
            }
            Stage::Killing {
                until,
                look_at,
                pause,
            } if now >= look_at => {
                let pause = (pause * 2).min(STALL_MAX_MS);
                self.stage = Stage::Killing {
                    until,
                    look_at: now + pause,
                    pause,
                };
                vec![Effect::SweepDeep]
            }
            Stage::Running
            | Stage::Settling { .. }
            | Stage::Waiting
            | Stage::Climbing { .. }
            | Stage::Killing { .. }
            | Stage::Done => vec![],
        }
    }

    fn settled(&mut self, now: Millis) -> Vec<Effect> {
        let mut effects = vec![Effect::NameSurvivors];
        match self.descendants.clone() {
            Descendants::Stop(plan) => effects.extend(self.begin(plan, now)),
            Descendants::Wait => self.stage = Stage::Waiting,
        }
        effects
    }
}

/// How long the rungs may take before killing begins.
fn polite_ms(rungs: &[Rung]) -> Millis {
    rungs.iter().map(|rung| Millis::from(rung.wait_ms)).sum()
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
