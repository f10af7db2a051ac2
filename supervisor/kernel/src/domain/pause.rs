//! Has an operation stand still and go on, whoever started it. `operation/supervise/pausing` does it.

use std::sync::mpsc;
use std::time::Duration;

use xioflow_journal::{OperationStatus, Query};

use super::Domain;
use crate::backend::Backend;
use crate::control::Wish;
use crate::domain::Inner;
use crate::error::NotActive;
use crate::pause::{PauseError, Standing};

/// How long an answer is waited for. The operation has bounds of its own, far below.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

impl Domain {
    /// Has every process of an operation stand still until [`Domain::resume`], whoever started it. One that is
    /// paused already stays so.
    ///
    /// In a control group the kernel stops running all of it (`cgroup.freeze`), and this returns when the group says
    /// that it is frozen. Elsewhere each process gets SIGSTOP, which is weaker: its parent sees that, whoever may
    /// signal it can continue it, and nobody says when all of them stand still. [`Standing::paused`] says which
    /// it is.
    ///
    /// What it holds it keeps: memory, leases, its place. Its time limit goes on. It can be stopped as ever,
    /// and what asks it to end has it go on first. When its owner dies, it ends like any other.
    ///
    /// # Errors
    /// [`PauseError`] says by cause why it goes on.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::time::Duration;
    /// use xioflow_kernel::journal::Query;
    /// use xioflow_kernel::{Command, StopManner};
    ///
    /// let sleeper = domain.operation(Command::new("/bin/sleep").arg("600"))?.id("server");
    /// let running = sleeper.start()?;
    /// while domain.pause("server").is_err() {
    ///     std::thread::yield_now(); // it has not begun yet
    /// }
    /// assert!(domain.journal().operation("server")?.is_some_and(|it| it.pause.is_some()));
    /// assert!(domain.resume("server")?.changed);
    /// domain.cancel("server", StopManner::Terminate, Duration::from_secs(2))?;
    /// running.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self, operation_id: &str) -> Result<Standing, PauseError> {
        match &self.backend {
            Backend::Own(inner) => inner.stand(operation_id, true),
            Backend::Attached(attached) => attached.stand(operation_id, true),
        }
    }

    /// Has a paused operation go on. One that is not paused is left alone, also if it was suspended by
    /// [`Canceller::suspend`](crate::Canceller::suspend), which whoever submitted it undoes.
    ///
    /// # Errors
    /// [`PauseError`] says by cause why it does not, or why that is not on record.
    pub fn resume(&self, operation_id: &str) -> Result<Standing, PauseError> {
        match &self.backend {
            Backend::Own(inner) => inner.stand(operation_id, false),
            Backend::Attached(attached) => attached.stand(operation_id, false),
        }
    }
}

impl Inner {
    fn stand(&self, operation_id: &str, still: bool) -> Result<Standing, PauseError> {
        let flight = self.active(operation_id)?;
        let id = || operation_id.to_owned();
        let recorded = self.journal.operation(operation_id);
        match recorded.map_err(NotActive::from)?.map(|it| it.status) {
            Some(OperationStatus::Active) => {}
            Some(OperationStatus::Stopping) => {
                return Err(PauseError::Ending { operation_id: id() });
            }
            Some(OperationStatus::Done) => {
                return Err(NotActive::AlreadyCompleted { operation_id: id() }.into());
            }
            Some(OperationStatus::Pending | OperationStatus::IntentRegistered) | None => {
                return Err(PauseError::NotBegun { operation_id: id() });
            }
        }
        let (answer, answered) = mpsc::sync_channel(1);
        if !flight.control.wish(Wish::Stand { still, answer }) {
            return Err(NotActive::AlreadyCompleted { operation_id: id() }.into());
        }
        match answered.recv_timeout(ANSWER_PATIENCE) {
            Ok(answer) => answer,
            // Nobody looks into its mailbox any more.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(PauseError::Ending { operation_id: id() })
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(PauseError::NoAnswer { operation_id: id() })
            }
        }
    }
}
