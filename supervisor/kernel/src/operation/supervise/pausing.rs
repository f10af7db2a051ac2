//! An operation stands still and goes on while its loop runs: one wish after the other, each answered once it is
//! done and on record.
//!
//! Neighbours: `pause` has the words, the helper stops and continues a tree without a control group.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use xioflow_journal::{Change, CommitError, PauseMeans};

use super::Supervision;
use crate::operation::DescendantPolicy;
use crate::pause::{PauseError, Standing};

/// Where the answer to a wish goes.
pub(crate) type Answer = SyncSender<Result<Standing, PauseError>>;

/// How an operation stands, and who wants it otherwise.
#[derive(Debug, Default)]
pub(super) struct Stand {
    /// By what it stands still.
    paused: Option<PauseMeans>,
    /// Those who wait for their turn.
    asked: VecDeque<(bool, Answer)>,
}

impl Supervision<'_> {
    /// Takes a wish to pause it, or to have it go on.
    pub(super) fn ask_stand(&mut self, still: bool, answer: Answer) {
        self.stand.asked.push_back((still, answer));
    }

    /// Does what is wished, as soon as it can be done: not before the program runs, for the helper owes news of that.
    pub(super) fn serve_stand(&mut self) {
        while !self.stand.asked.is_empty() && (self.told.running() || self.is_ending()) {
            let Some((still, answer)) = self.stand.asked.pop_front() else {
                return;
            };
            let stands = match self.is_ending() {
                true => Err(self.ends()),
                false => self.make_stand(still),
            };
            // Whoever asked may have stopped waiting.
            answer.try_send(stands).ok();
        }
    }

    /// Before it is stopped: what stands still cannot heed.
    pub(super) fn stand_no_more(&mut self) {
        // Whoever stops the tree continues it (SIGCONT), and it is no longer paused by that.
        self.stand.paused = None;
    }

    /// Whether it is over, or on its way there.
    fn is_ending(&self) -> bool {
        let survivors_end =
            self.told.exit().is_some() && self.descendants == DescendantPolicy::Stop;
        self.ending.is_some() || self.stop.is_some() || self.is_stop_action || survivors_end
    }

    fn make_stand(&mut self, still: bool) -> Result<Standing, PauseError> {
        if self.stand.paused.is_some() == still {
            return Ok(self.standing(false));
        }
        match self.stand.paused {
            None => self.pause_by_signals()?,
            Some(_) => self.go_on()?,
        }
        Ok(self.standing(true))
    }

    fn pause_by_signals(&mut self) -> Result<(), PauseError> {
        if !self.link.can_suspend() {
            let operation_id = self.operation_id.to_owned();
            return Err(PauseError::Unsupported { operation_id });
        }
        self.signal_stand(true)?;
        self.record_pause(PauseMeans::Signals)
    }

    /// What could not be recorded is undone: nobody would know of it.
    fn record_pause(&mut self, means: PauseMeans) -> Result<(), PauseError> {
        let operation_id = self.operation_id.to_owned();
        let change = Change::PauseOperation {
            operation_id,
            means,
        };
        if let Err(source) = self.inner.journal.commit(vec![change]) {
            self.let_go_on(means)?;
            return Err(self.unrecorded(source));
        }
        self.stand.paused = Some(means);
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), PauseError> {
        let Some(means) = self.stand.paused else {
            return Ok(());
        };
        self.let_go_on(means)?;
        self.stand.paused = None;
        let operation_id = self.operation_id.to_owned();
        let change = Change::ResumeOperation { operation_id };
        match self.inner.journal.commit(vec![change]) {
            Ok(_) => Ok(()),
            Err(source) => Err(self.unrecorded(source)),
        }
    }

    fn let_go_on(&mut self, means: PauseMeans) -> Result<(), PauseError> {
        match means {
            PauseMeans::Signals | PauseMeans::Freeze => self.signal_stand(false),
        }
    }

    /// Has the helper stop or continue every process of the tree.
    fn signal_stand(&mut self, still: bool) -> Result<(), PauseError> {
        match self.link.job_control(still) {
            Ok(()) => Ok(()),
            Err(lost) => {
                self.lose(lost);
                Err(self.ends())
            }
        }
    }

    fn standing(&self, changed: bool) -> Standing {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        Standing {
            paused: self.stand.paused,
            changed,
            timeout_left: self.timeout_at.map(left),
        }
    }

    fn ends(&self) -> PauseError {
        let operation_id = self.operation_id.to_owned();
        PauseError::Ending { operation_id }
    }

    fn unrecorded(&self, source: CommitError) -> PauseError {
        PauseError::Record {
            operation_id: self.operation_id.to_owned(),
            source: Box::new(source),
        }
    }
}
