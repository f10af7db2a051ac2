//! A domain: one folder, one owner, and everything that its operations share. `options` opens it.

mod budget;
mod load;
mod options;
mod pause;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use xioflow_journal::{
    Adjudication, AdjudicationVerdict, CommitError, Journal, OperationStatus, Query, ReadError,
    Records, Stream,
};

use crate::adjudication::{AdjudicateError, adjudicate};
use crate::admission::Leases;
use crate::backend::Backend;
use crate::command::Command;
use crate::control::Wish;
use crate::error::{ArbiterError, DomainError, ExecuteError, NotActive, RunError};
use crate::flight::{Flight, Flights, InFlight};
use crate::groups::Groups;
use crate::helper::{HelperPatience, Helpers};
use crate::operation::{Attachment, Membership, OperationBuilder};
use crate::output::{ArtifactBytes, Artifacts, OutputError, OutputReader};
use crate::prune::{PruneError, PruneOptions, Pruned};
use crate::recovery::{Decision, SweptGroup};
use crate::remote::{ArbiterInfo, Attached};
use crate::result::OperationResult;
use crate::run::{RunHandle, TaskHandle, new_run, new_task};
use crate::stop::{StopManner, StopRequest};
use crate::unrecorded::Unrecorded;

pub use budget::BudgetInUse;
pub use options::DomainOptions;

/// An open domain. This process is its only owner until it is dropped or closed, or a client of the
/// arbiter that is.
///
/// It can be shared between threads; operations of several threads run side by side and share
/// their commits.
#[derive(Debug, Clone)]
pub struct Domain {
    backend: Backend,
    recovered: Vec<Decision>,
    swept: Vec<SweptGroup>,
}

/// What the operations of a domain share. The fields are dropped in this order: the journal is
/// closed before idle helpers are waited for.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) journal: Journal,
    pub(crate) leases: Leases,
    pub(crate) artifacts: Arc<Artifacts>,
    pub(crate) holders: OwnedFd,
    pub(crate) flights: Flights,
    pub(crate) unrecorded: Unrecorded,
    pub(crate) helpers: Helpers,
    pub(crate) groups: Groups,
    pub(crate) adopts_orphans: bool,
    pub(crate) patience: HelperPatience,
    /// Whether the limit of the artifacts folder was set by the host, so that old output goes for new.
    pub(crate) has_quota: bool,
    pruning: Mutex<()>,
    folder: PathBuf,
}

impl Drop for Inner {
    /// The last chance of results that were seen. What fails here is settled by evidence when the domain is
    /// next opened.
    fn drop(&mut self) {
        self.record_unrecorded().ok();
        self.groups.close();
    }
}

impl Inner {
    /// Records the results that the storage refused before.
    pub(crate) fn record_unrecorded(&self) -> Result<(), CommitError> {
        self.unrecorded.record(&self.journal, &self.leases)
    }

    /// The operation with this id that is executed here.
    pub(crate) fn active(&self, operation_id: &str) -> Result<Arc<Flight>, NotActive> {
        let flight = self.flights.get(operation_id);
        // Looked at for one in flight, too: that may be a repetition, which is only answered.
        let known = self.journal.operation(operation_id)?;
        let operation_id = operation_id.to_owned();
        if known.is_some_and(|known| !is_unfinished(known.status)) {
            return Err(NotActive::AlreadyCompleted { operation_id });
        }
        flight.ok_or(NotActive::NotFound { operation_id })
    }

    /// Keeps other prunings out for as long as it lives.
    pub(crate) fn pruning(&self) -> MutexGuard<'_, ()> {
        // It guards no value: what one that panicked left is in the folder and in the journal.
        self.pruning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn cancel(
        &self,
        operation_id: &str,
        manner: StopManner,
        grace: Duration,
    ) -> Result<(), NotActive> {
        if self.flights.is_closed() {
            return Err(NotActive::DomainClosed);
        }
        let wish = Wish::Stop(StopRequest::by_user(manner, grace));
        match self.active(operation_id)?.control.wish(wish) {
            true => Ok(()),
            // It has ended since then, or was refused.
            false => Err(NotActive::AlreadyCompleted {
                operation_id: operation_id.to_owned(),
            }),
        }
    }
}

impl Domain {
    fn attached(attached: Attached) -> Result<Self, DomainError> {
        let recovered = match attached.info().was_started {
            true => attached.last_report()?,
            false => Vec::new(),
        };
        Ok(Self {
            backend: Backend::Attached(Arc::new(attached)),
            recovered,
            swept: Vec::new(),
        })
    }

    /// Opens the domain in this folder with the default options; see [`DomainOptions::open`].
    ///
    /// # Errors
    /// Those of [`DomainOptions::open`].
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, DomainError> {
        DomainOptions::default().open(folder)
    }

    /// Runs a command to its recorded result, in a Task and a Run of its own.
    ///
    /// # Errors
    /// [`ExecuteError`] if there is no result. A command that fails or cannot start has one.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::Command;
    /// use xioflow_kernel::journal::Outcome;
    ///
    /// let result = domain.run(Command::new("/bin/sh").args(["-c", "echo out; exit 3"]))?;
    /// assert_eq!((result.status, result.exit_code), (Outcome::Failed, Some(3)));
    /// assert_eq!(result.stdout, "out\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(&self, command: Command) -> Result<OperationResult, ExecuteError> {
        self.operation(command)?.run()
    }

    /// Puts an operation together, in a Task and a Run of its own.
    ///
    /// # Errors
    /// [`ExecuteError::System`] if the process has no descriptor left.
    pub fn operation(&self, command: Command) -> Result<OperationBuilder, ExecuteError> {
        let task = new_task("", Value::Null);
        let run = new_run(&task.id, json!({}));
        let membership = Membership::Own {
            task: Box::new(task),
            run: Box::new(run),
        };
        OperationBuilder::new(self.backend.clone(), command, membership)
    }

    /// Opens a Run for several operations, in a Task of the same name. Its host ends it.
    ///
    /// Of `config` only what cannot be a secret is recorded: a key one of whose words is `token`,
    /// `key`, `secret`, `password`, `auth` or `credential` is left out.
    ///
    /// # Errors
    /// [`ExecuteError::DomainClosed`], or [`ExecuteError::Commit`] if it cannot be recorded.
    pub fn begin_run(&self, name: &str, config: &Value) -> Result<RunHandle, ExecuteError> {
        self.open_for_work()?;
        RunHandle::begin(&self.backend, name, config)
    }

    /// Records a Task, a body of work that can have several Runs, with whatever its host keeps
    /// with it. `meta` is recorded as it is.
    ///
    /// # Errors
    /// [`ExecuteError::DomainClosed`], or [`ExecuteError::Commit`] if it cannot be recorded.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use serde_json::json;
    /// use xioflow_kernel::Command;
    /// use xioflow_kernel::journal::RunStatus;
    ///
    /// let task = domain.begin_task("nightly build", json!({ "branch": "main" }))?;
    /// let run = task.begin_run(&json!({ "mode": "full" }))?;
    /// let result = run.operation(Command::new("/bin/false"))?.run()?;
    /// assert_eq!(result.exit_code, Some(1));
    /// // A failing operation does not end its Run; the host decides.
    /// assert_eq!(run.report_succeeded()?, RunStatus::Succeeded);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_task(&self, name: &str, meta: Value) -> Result<TaskHandle, ExecuteError> {
        self.open_for_work()?;
        TaskHandle::begin(self.backend.clone(), name, meta)
    }

    /// Gives a handle on a Run that was opened before, by this process or an earlier owner.
    ///
    /// # Errors
    /// [`RunError::NotFound`] or [`RunError::Ended`]; [`RunError::Read`] if the journal cannot be
    /// read.
    pub fn open_run(&self, run_id: &str) -> Result<RunHandle, RunError> {
        RunHandle::open(self.backend.clone(), run_id)
    }

    /// Gives a handle on the Run of this id without looking whether there is one that is open: whatever is
    /// asked of it then finds out. For hosts that act for others, who named it.
    #[must_use]
    pub fn run_of_id(&self, run_id: &str) -> RunHandle {
        RunHandle::of_id(self.backend.clone(), run_id)
    }

    /// Gives a handle on a Task that was recorded before, by this process or an earlier owner; `None` if
    /// there is none.
    ///
    /// # Errors
    /// [`ReadError`](xioflow_journal::ReadError) if the journal cannot be read.
    pub fn open_task(&self, task_id: &str) -> Result<Option<TaskHandle>, ReadError> {
        let task = self.journal().task(task_id)?;
        Ok(task.map(|task| TaskHandle::of(self.backend.clone(), task.id)))
    }

    /// Stops the operation with this id, whoever started it: asks its tree to end in the manner
    /// given, and kills what is left after the grace. Returns at once; its result comes to
    /// whoever waits for it. Another call while it is being stopped can only make it quicker.
    ///
    /// # Errors
    /// [`NotActive`] says why there is nothing to stop.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::time::Duration;
    /// use xioflow_kernel::journal::Outcome;
    /// use xioflow_kernel::{Command, NotActive, StopManner};
    ///
    /// let running = domain.operation(Command::new("/bin/sleep").arg("600"))?.id("server").start()?;
    /// while domain.cancel("server", StopManner::Terminate, Duration::from_secs(2)).is_err() {
    ///     std::thread::yield_now(); // it has not been submitted yet
    /// }
    /// assert_eq!(running.wait()?.status, Outcome::Cancelled);
    /// let late = domain.cancel("server", StopManner::Terminate, Duration::from_secs(2));
    /// assert!(matches!(late, Err(NotActive::AlreadyCompleted { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(
        &self,
        operation_id: &str,
        manner: StopManner,
        grace: Duration,
    ) -> Result<(), NotActive> {
        match &self.backend {
            Backend::Own(inner) => inner.cancel(operation_id, manner, grace),
            Backend::Attached(attached) => attached.cancel(operation_id, manner, grace),
        }
    }

    /// Decides about an operation whose end could not be proven: once, in the name of `actor`, after a fresh
    /// look for what is left of it. Its leases are free then, and whoever waits for them has them.
    ///
    /// The operation stays [`Outcome::Indeterminate`](xioflow_journal::Outcome::Indeterminate), since how its
    /// command ended is still not known; its results carry the decision. Its id is answered from the record as
    /// ever, and never runs again.
    ///
    /// # Errors
    /// [`AdjudicateError`] says by cause why nothing was decided. `ConfirmedStopped` is refused with
    /// [`AdjudicateError::StillAlive`] while something of it lives, or may not be looked at, and with
    /// [`AdjudicateError::CannotTell`] where that cannot be seen; `AbandonWithResiduals` is not.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::journal::AdjudicationVerdict;
    /// use xioflow_kernel::{AdjudicateError, Command};
    ///
    /// domain.operation(Command::new("/bin/true"))?.id("fine").run()?;
    /// let verdict = AdjudicationVerdict::ConfirmedStopped;
    /// let refused = domain.adjudicate("fine", verdict, "ada", Some("looked with ps"));
    /// // How it ended was seen: there is nothing to decide.
    /// assert!(matches!(refused, Err(AdjudicateError::NotIndeterminate { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adjudicate(
        &self,
        operation_id: &str,
        verdict: AdjudicationVerdict,
        actor: &str,
        note: Option<&str>,
    ) -> Result<Adjudication, AdjudicateError> {
        match &self.backend {
            Backend::Own(inner) => adjudicate(inner, operation_id, verdict, actor, note),
            Backend::Attached(attached) => attached.adjudicate(operation_id, verdict, actor, note),
        }
    }

    /// Attaches to an operation that the owner of the domain executes, whoever submitted it: its output from
    /// its very beginning, and its result. An attachment changes nothing for the operation.
    ///
    /// It is possible from the submission on, also while the operation waits for its resources, and
    /// in a domain that was closed.
    ///
    /// # Errors
    /// [`NotActive::AlreadyCompleted`] with a result, which [`crate::stored_result`] then reads;
    /// [`NotActive::NotFound`] if the owner does not execute it; [`NotActive::System`] if there is
    /// no descriptor left; [`NotActive::Read`] if the journal cannot be read.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::{Command, Piece, Reuse};
    ///
    /// let script = "echo early; read line; echo $line";
    /// let mut operation = domain.operation(Command::new("/bin/sh").args(["-c", script]))?.id("build");
    /// let (mut input, output) = (operation.stdin_stream(), operation.subscribe());
    /// let running = operation.start()?;
    /// output.next_piece(); // so it has printed something
    ///
    /// let attached = domain.attach("build")?;
    /// std::io::Write::write_all(&mut input, b"late\n")?;
    /// let mut seen = Vec::new();
    /// while let Some(piece) = attached.subscription().next_piece() {
    ///     match piece {
    ///         Piece::Data { bytes, .. } => seen.extend(bytes),
    ///         Piece::Gap { stream, from, to } => {
    ///             let mut bytes = vec![0; usize::try_from(to - from)?];
    ///             let len = attached.subscription().read_gap(stream, from, &mut bytes)?;
    ///             seen.extend(&bytes[..len]);
    ///         }
    ///     }
    /// }
    /// assert_eq!(seen, b"early\nlate\n");
    /// assert_eq!(attached.wait()?.reused, Reuse::JoinedInFlight);
    /// assert_eq!(running.wait()?.reused, Reuse::Executed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach(&self, operation_id: &str) -> Result<Attachment, NotActive> {
        Attachment::new(&self.backend, operation_id)
    }

    /// What the owner of the domain executes at this moment, ordered by id.
    ///
    /// # Errors
    /// [`ArbiterError`] if that is an arbiter, and it cannot be asked.
    pub fn in_flight(&self) -> Result<Vec<InFlight>, ArbiterError> {
        match &self.backend {
            Backend::Own(inner) => Ok(inner.flights.list()),
            Backend::Attached(attached) => attached.in_flight(),
        }
    }

    /// Who executes the operations, if that is not this process.
    #[must_use]
    pub fn arbiter(&self) -> Option<&ArbiterInfo> {
        match &self.backend {
            Backend::Own(_) => None,
            Backend::Attached(attached) => Some(attached.info()),
        }
    }

    /// Takes nothing new any more: submissions are refused, and whoever waits for resources is
    /// told so. Operations that run go on to their recorded result. The domain itself is given
    /// up when the last handle on it is dropped.
    ///
    /// In a domain that an arbiter owns, that is only for this process.
    pub fn close(&self) {
        match &self.backend {
            Backend::Own(inner) => {
                inner.flights.close();
                inner.leases.close();
            }
            Backend::Attached(attached) => attached.close(),
        }
    }

    fn open_for_work(&self) -> Result<(), ExecuteError> {
        if self.backend.is_closed() {
            Err(ExecuteError::DomainClosed)
        } else {
            Ok(())
        }
    }

    /// What was settled when this domain was opened: by this process, or by the arbiter that was
    /// started for it.
    #[must_use]
    pub fn recovered(&self) -> &[Decision] {
        &self.recovered
    }

    /// Control groups in the domain's own one that belonged to no operation when this process opened it, and what
    /// became of them. An arbiter does not say.
    #[must_use]
    pub fn swept_groups(&self) -> &[SweptGroup] {
        &self.swept
    }

    /// What was settled when the domain's owner took it over: that is [`Domain::recovered`] of this process, or what
    /// its arbiter says.
    ///
    /// # Errors
    /// [`ArbiterError`] if that is an arbiter, and it cannot be asked.
    pub fn last_report(&self) -> Result<Vec<Decision>, ArbiterError> {
        match &self.backend {
            Backend::Own(_) => Ok(self.recovered.clone()),
            Backend::Attached(attached) => attached.last_report(),
        }
    }

    /// Opens one stream of an operation's stored output, by offsets of the stream.
    ///
    /// # Errors
    /// Those of [`OutputReader::open`].
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::Command;
    /// use xioflow_kernel::journal::Stream;
    ///
    /// let lines = Command::new("/bin/sh").args(["-c", "seq 1 20000"]).inherit_env();
    /// domain.operation(lines)?.id("count").max_output_bytes(100).run()?;
    ///
    /// let output = domain.output("count", Stream::Stdout)?;
    /// let wanted = output.lines(10_000, 10_001)?;
    /// let mut bytes = vec![0; usize::try_from(wanted.end - wanted.start)?];
    /// output.read_at(wanted.start, &mut bytes)?;
    /// assert_eq!(bytes, b"10000\n10001\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output(&self, operation_id: &str, stream: Stream) -> Result<OutputReader, OutputError> {
        let artifacts = self.folder().join("artifacts");
        OutputReader::open(&self.journal(), &artifacts, operation_id, stream)
    }

    /// What the files of the artifacts folder take, and what they may take.
    ///
    /// # Errors
    /// [`ArbiterError`] if an arbiter owns the domain, and it cannot be asked.
    pub fn artifact_bytes(&self) -> Result<ArtifactBytes, ArbiterError> {
        match &self.backend {
            Backend::Own(inner) => Ok(inner.artifacts.budget().now()),
            Backend::Attached(attached) => attached.artifact_bytes(),
        }
    }

    /// Removes stored output for its age and its size, the oldest result first. What an operation needs
    /// that has not ended, or whose end is unknown, stays, and so does what nothing in the record explains.
    ///
    /// The record of an operation stays, with the length and the hash of what it printed; reading its
    /// output then gives [`OutputError::Pruned`]. Whoever has a file open goes on reading it.
    ///
    /// # Errors
    /// [`PruneError`] says by cause what it stopped at. What had been removed before stays so.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::journal::Stream;
    /// use xioflow_kernel::{Command, OutputError, PruneOptions};
    ///
    /// let lines = Command::new("/bin/sh").args(["-c", "seq 1 20000"]).inherit_env();
    /// domain.operation(lines)?.id("count").run()?;
    ///
    /// let options = PruneOptions { max_bytes: Some(0), ..PruneOptions::default() };
    /// let pruned = domain.prune(&options)?;
    /// assert_eq!(pruned.removed[0].operation_id, "count");
    /// let output = domain.output("count", Stream::Stdout);
    /// assert!(matches!(output, Err(OutputError::Pruned { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prune(&self, options: &PruneOptions) -> Result<Pruned, PruneError> {
        match &self.backend {
            Backend::Own(inner) => inner.prune(options),
            Backend::Attached(attached) => attached.prune(options),
        }
    }

    /// The journal, for reading. Its questions are the methods of [`journal::Query`](xioflow_journal::Query),
    /// a trait that has to be in scope; [`stored_result`](crate::stored_result) shows how a result is read by its id.
    #[must_use]
    pub fn journal(&self) -> Records<'_> {
        self.backend.records()
    }

    /// The domain's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match &self.backend {
            Backend::Own(inner) => &inner.folder,
            Backend::Attached(attached) => attached.folder(),
        }
    }
}

/// Whether an operation still needs its owner.
pub(crate) fn is_unfinished(status: OperationStatus) -> bool {
    status != OperationStatus::Done
}
