//! What a host has of an operation that it has submitted: its result to wait for, and a way to stop or
//! suspend it from any thread.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::control::{Control, Wish};
use crate::error::{ExecuteError, NotActive};
use crate::result::OperationResult;
use crate::stop::{DEFAULT_CANCEL_GRACE, StopManner, StopRequest};

/// How long a wish to suspend is waited for to be passed on.
const JOB_CONTROL_PATIENCE: Duration = Duration::from_millis(500);

/// An operation that runs on a thread of its own.
#[derive(Debug)]
pub struct OperationHandle {
    pub(super) operation_id: String,
    pub(super) canceller: Canceller,
    pub(super) thread: thread::JoinHandle<Result<OperationResult, ExecuteError>>,
}

impl OperationHandle {
    /// Gives a handle that stops it.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Its id.
    #[must_use]
    pub fn operation_id(&self) -> &str {
        &self.operation_id
    }

    /// Waits for its result.
    ///
    /// # Errors
    /// Those of [`OperationBuilder::run`](crate::OperationBuilder::run).
    ///
    /// # Panics
    /// If the operation's thread panicked, with the same message.
    pub fn wait(self) -> Result<OperationResult, ExecuteError> {
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Stops one operation, or suspends it, on behalf of the submission that it belongs to.
///
/// A submission that has joined an operation of another one only stops waiting for it
/// ([`ExecuteError::JoinAbandoned`]); [`crate::Domain::cancel`] stops an operation whoever started it.
#[derive(Debug, Clone)]
pub struct Canceller {
    pub(super) control: Arc<Control>,
}

impl Canceller {
    /// Asks the whole tree to end, and kills what is left after the grace of 2 s.
    ///
    /// # Errors
    /// [`NotActive::AlreadyCompleted`] if there is nothing to stop.
    pub fn cancel(&self) -> Result<(), NotActive> {
        self.stop(StopManner::Terminate, DEFAULT_CANCEL_GRACE)
    }

    /// Stops it in a given manner. Another call while it is being stopped can only make it
    /// quicker.
    ///
    /// # Errors
    /// [`NotActive::AlreadyCompleted`] if there is nothing to stop.
    pub fn stop(&self, manner: StopManner, grace: Duration) -> Result<(), NotActive> {
        self.wish(StopRequest::by_user(manner, grace))
    }

    /// Stops it because the client that asked for it is gone: the whole tree is asked to end, and
    /// what is left after the grace is killed. The result is `cancelled`, and its
    /// [`termination_reason`](OperationResult::termination_reason) is
    /// [`ClientLost`](xioflow_journal::TerminationReason::ClientLost).
    ///
    /// For hosts that execute operations of others. A stop that came before keeps its reason.
    ///
    /// # Errors
    /// [`NotActive::AlreadyCompleted`] if there is nothing to stop.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::time::Duration;
    /// use xioflow_kernel::Command;
    /// use xioflow_kernel::journal::{Outcome, TerminationReason};
    ///
    /// let running = domain.operation(Command::new("/bin/sleep").arg("600"))?.start()?;
    /// running.canceller().client_lost(Duration::from_secs(2))?;
    /// let result = running.wait()?;
    /// assert_eq!(result.status, Outcome::Cancelled);
    /// assert_eq!(result.termination_reason, Some(TerminationReason::ClientLost));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client_lost(&self, grace: Duration) -> Result<(), NotActive> {
        self.wish(StopRequest::client_lost(grace))
    }

    fn wish(&self, request: StopRequest) -> Result<(), NotActive> {
        match self.control.wish(Wish::Stop(request)) {
            true => Ok(()),
            false => Err(self.ended()),
        }
    }

    /// Has every process of its tree stand still (SIGSTOP), as Ctrl-Z at a terminal does, until
    /// [`Canceller::resume`]. Its timeout goes on, and a stop continues it first.
    ///
    /// Returns once its helper was told, or after a short time if that cannot be done now: an
    /// operation that has not started yet is suspended when it has.
    ///
    /// # Errors
    /// [`NotActive::AlreadyCompleted`] if there is nothing to suspend; [`NotActive::Joined`] from a
    /// submission that has joined the operation of another one.
    pub fn suspend(&self) -> Result<(), NotActive> {
        self.job_control(true)
    }

    /// Has every process of its tree go on (SIGCONT).
    ///
    /// # Errors
    /// As [`Canceller::suspend`].
    pub fn resume(&self) -> Result<(), NotActive> {
        self.job_control(false)
    }

    fn job_control(&self, suspend: bool) -> Result<(), NotActive> {
        if self.control.has_joined() {
            return Err(NotActive::Joined {
                operation_id: self.control.operation_id().to_owned(),
            });
        }
        let (passed_on, told) = mpsc::sync_channel(1);
        let wish = Wish::JobControl { suspend, passed_on };
        if !self.control.wish(wish) {
            return Err(self.ended());
        }
        // Over, or dropped with the operation: there is nothing more to wait for.
        told.recv_timeout(JOB_CONTROL_PATIENCE).ok();
        Ok(())
    }

    fn ended(&self) -> NotActive {
        NotActive::AlreadyCompleted {
            operation_id: self.control.operation_id().to_owned(),
        }
    }
}
