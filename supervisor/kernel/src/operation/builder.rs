//! What a host asks of an operation, put together and then submitted to `admit`.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::handle::{Canceller, OperationHandle};
use super::{
    Active, DEFAULT_DRAIN_TIMEOUT, DEFAULT_MAX_OUTPUT_BYTES, DescendantPolicy, Membership, Spec,
    WhenActive, admit,
};
use crate::backend::Backend;
use crate::caller::Caller;
use crate::command::Command;
use crate::control::Control;
use crate::error::ExecuteError;
use crate::limits::ResourceLimits;
use crate::names::new_id;
use crate::output::{Feed, Owed, Subscription, subscribe};
use crate::remote::{self, RemoteOutput};
use crate::result::OperationResult;
use crate::stdin::{StdinWriter, stream};
use crate::stop::DEFAULT_TIMEOUT_GRACE;

/// An operation that is being put together.
///
/// Nothing happens before [`OperationBuilder::run`] or [`OperationBuilder::start`].
#[derive(Debug)]
pub struct OperationBuilder {
    backend: Backend,
    spec: Spec,
    control: Arc<Control>,
    output: Option<Outlet>,
}

/// The end of a subscription that output is put into.
#[derive(Debug)]
enum Outlet {
    /// Here.
    Feed(Arc<Feed>),
    /// By an arbiter; or there is no pipe for it.
    Pipe(io::Result<RemoteOutput>),
}

impl OperationBuilder {
    pub(crate) fn new(
        backend: Backend,
        command: Command,
        membership: Membership,
    ) -> Result<Self, ExecuteError> {
        let control = Control::new().map_err(|source| ExecuteError::System {
            act: "make an eventfd",
            source,
        })?;
        let spec = Spec {
            command,
            caller: None,
            id: new_id("op"),
            id_is_chosen: false,
            name: None,
            timeout: None,
            timeout_grace: DEFAULT_TIMEOUT_GRACE,
            limits: None,
            leases: Vec::new(),
            wait: Duration::ZERO,
            max_output_bytes: DEFAULT_MAX_OUTPUT_BYTES,
            drain_timeout: DEFAULT_DRAIN_TIMEOUT,
            max_stored_bytes: None,
            descendants: DescendantPolicy::default(),
            membership,
            stdin_stream: None,
            detached: false,
            when_active: WhenActive::nobody(),
        };
        Ok(Self {
            backend,
            spec,
            control: Arc::new(control),
            output: None,
        })
    }

    /// Sets its id, the idempotency key: 1 to 4096 bytes of any kind, unique in the domain across
    /// its Runs. Without one it has a new id, which no other submission can have.
    ///
    /// The same id with the same inputs is executed at most once in the life of the domain:
    ///
    /// | what is there under this id | the same inputs | other inputs |
    /// | --- | --- | --- |
    /// | nothing | it is executed | it is executed |
    /// | the operation in flight here | it is joined | [`ExecuteError::IdConflict`] |
    /// | a result | the recorded result | [`ExecuteError::IdConflict`] |
    /// | an indeterminate result | that, untouched; its leases stay | [`ExecuteError::IdConflict`] |
    /// | an unfinished operation of nobody here | [`ExecuteError::RecoveryRequired`] | [`ExecuteError::IdConflict`] |
    ///
    /// Inputs are program, arguments, working directory, variables that were set, whether the
    /// environment is inherited, standard input, resources, the time limit, limits on what it may use, and a pid
    /// namespace of its own. Its name and how much of its output is kept are none. [`OperationResult::reused`] says which case it was.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::{Command, Reuse};
    ///
    /// let charge = || Command::new("/bin/sh").args(["-c", "echo charged >> ledger"]).cwd(stage.path(""));
    /// let first = domain.operation(charge())?.id("charge-order-17").run()?;
    /// let again = domain.operation(charge())?.id("charge-order-17").run()?;
    /// assert_eq!((first.reused, again.reused), (Reuse::Executed, Reuse::ReplayedRecorded));
    /// assert_eq!(std::fs::read_to_string(stage.path("ledger"))?, "charged\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.spec.id = id.into();
        self.spec.id_is_chosen = true;
        self
    }

    /// Its id: the one that was chosen, or a new one.
    #[must_use]
    pub fn operation_id(&self) -> &str {
        &self.spec.id
    }

    /// Sets its name, for people; the program's name by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.spec.name = Some(name.into());
        self
    }

    /// Says who asks for it, where that is not this process: what the command takes from its
    /// surroundings, and where relative paths of it start, [`OperationBuilder::lease`] included.
    ///
    /// Without one it is this process at the moment of the submission: its variables and its folder;
    /// its file mode mask, limits and nice value are those that its helper was started with. With
    /// [`Caller::here`] they are set to what they are now. Either way the operation is the same one.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.spec.caller = Some(caller);
        self
    }

    /// Stops it when it has run this long, counted from the opening of its gate. None by default.
    ///
    /// The whole tree is asked to end (SIGTERM) and, after [`OperationBuilder::timeout_grace`],
    /// killed; the output pipes then have at most 1 s more. So there is a result within limit,
    /// grace and drain, whatever the tree does; only processes that no signal ends can add the
    /// 5 s for which killing is tried. The result is `failed` and `timed_out`, with everything
    /// that was printed until then. A command that has ended by then is not timed out, though those
    /// who outlive it may still have to be ended; that is only quicker then.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::time::Duration;
    /// use xioflow_kernel::Command;
    /// use xioflow_kernel::journal::TerminationReason;
    ///
    /// let hangs = Command::new("/bin/sh").args(["-c", "echo begun; sleep 600"]);
    /// let result = domain.operation(hangs)?.timeout(Duration::from_millis(200)).run()?;
    /// assert_eq!(result.termination_reason, Some(TerminationReason::TimedOut));
    /// assert_eq!(result.stdout, "begun\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.spec.timeout = Some(timeout);
        self
    }

    /// Sets how long it may take to end by itself after its timeout, before it is killed; 1.5 s by
    /// default.
    #[must_use]
    pub fn timeout_grace(mut self, grace: Duration) -> Self {
        self.spec.timeout_grace = grace;
        self
    }

    /// Limits what everything that it starts may use together; without limits by default.
    ///
    /// One that goes beyond a limit is `failed` and `memory_exceeded`, `pids_exceeded` or `cpu_exceeded`. Limits are
    /// hard unless [`ResourceLimits::enforcement`] says otherwise: where this host cannot enforce one, the
    /// submission is refused ([`ExecuteError::LimitsRefused`]) and nothing runs.
    #[must_use]
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.spec.limits = Some(limits);
        self
    }

    /// Asks for an exclusive resource, held from before it starts until its result is recorded. An
    /// indeterminate operation keeps what it holds.
    ///
    /// A resource is any name that is not empty; it means what those who use it agree on.
    /// `workspace:write:DIR` alone is more: it names a folder by its real
    /// path, whether it is there or not, and overlaps with every folder in it and around it. An
    /// operation gets all of its resources or none; whoever waits is served in order.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::{Command, ExecuteError};
    ///
    /// let held = domain.operation(Command::new("/bin/sleep").arg("600"))?.lease("port:8080");
    /// let holder = held.operation_id().to_owned();
    /// let held = held.start()?;
    /// while domain.journal().leases()?.is_empty() {
    ///     std::thread::yield_now();
    /// }
    /// # use xioflow_kernel::journal::Query;
    /// let other = domain.operation(Command::new("/bin/true"))?.lease("port:8080").run();
    /// let Err(ExecuteError::ResourceConflict { resource, holder: named, .. }) = other else {
    ///     panic!("{other:?}")
    /// };
    /// assert_eq!((resource.as_str(), named), ("port:8080", holder));
    /// held.canceller().cancel()?;
    /// held.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn lease(mut self, resource: impl Into<String>) -> Self {
        self.spec.leases.push(resource.into());
        self
    }

    /// Sets how long it may wait for its resources and for a free place
    /// ([`crate::DomainOptions::max_concurrent_operations`]); not at all by default. When that is
    /// over, [`ExecuteError::ResourceConflict`] names who has them.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.spec.wait = wait;
        self
    }

    /// Sets how much of each output stream the result holds, in bytes; 10 MiB by default. A result from
    /// the record holds as much as this submission asks for, whatever the first one did. What is
    /// stored has a limit of its own.
    #[must_use]
    pub fn max_output_bytes(mut self, limit: usize) -> Self {
        self.spec.max_output_bytes = limit;
        self
    }

    /// Sets how long its output pipes may stay open after its tree is gone, held by a process
    /// outside of it; 2 s by default. It is at least 200 ms, for a process that this one is just
    /// starting has a copy of them until its exec, and at most 1 s after a stop, also one that
    /// comes while they are waited for. Who holds them then is named, and the result is
    /// indeterminate.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.spec.drain_timeout = timeout;
        self
    }

    /// Sets how much of each output stream is stored, in bytes; 4 GiB by default, and no more than a sixteenth
    /// of the domain's budget ([`crate::DomainOptions::max_total_output_bytes`]).
    ///
    /// A command that prints more goes on. Its beginning and its last bytes are stored, at most a
    /// quarter of the limit and 64 KiB of them; everything is counted, and the result names the gap.
    /// What a result shows then is what is stored.
    #[must_use]
    pub fn max_stored_bytes(mut self, limit: u64) -> Self {
        self.spec.max_stored_bytes = Some(limit);
        self
    }

    /// Sets what becomes of processes that outlive the command; they are stopped by default.
    #[must_use]
    pub fn descendants(mut self, policy: DescendantPolicy) -> Self {
        self.spec.descendants = policy;
        self
    }

    /// Lets it go on when nobody waits for it any more: this process may end. It can be attached to again
    /// ([`crate::Domain::attach`]), and its result is recorded as always.
    ///
    /// That needs an arbiter; see [`crate::Arbiter`]. A domain that this process owns refuses it
    /// ([`ExecuteError::NotDetachable`]), because its operations end with it.
    #[must_use]
    pub fn detached(mut self, on: bool) -> Self {
        self.spec.detached = on;
        self
    }

    /// Gives a handle that stops it, usable from any thread and before it starts: a stop in any
    /// phase ends in exactly one result, and one before the command runs in `cancelled` without it.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::Command;
    /// use xioflow_kernel::journal::Outcome;
    ///
    /// let operation = domain.operation(Command::new("/bin/sleep").arg("600"))?;
    /// let canceller = operation.canceller();
    /// std::thread::spawn(move || canceller.cancel());
    /// let result = operation.run()?;
    /// assert_eq!(result.status, Outcome::Cancelled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller {
            control: Arc::clone(&self.control),
        }
    }

    /// Subscribes to its output while it comes. There is one subscription for a submission; a later
    /// one replaces an earlier one. If the submission joins an operation that runs already, what
    /// comes from then on is seen.
    ///
    /// At most 1 MiB waits for a subscriber. The command never does: what comes faster is noted
    /// as a [`crate::Piece::Gap`], which can be read from where the output is stored.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use xioflow_kernel::{Command, Piece};
    ///
    /// let mut operation = domain.operation(Command::new("/bin/sh").args(["-c", "echo one; echo two"]))?;
    /// let output = operation.subscribe();
    /// let running = operation.start()?;
    /// let mut printed = Vec::new();
    /// while let Some(piece) = output.next_piece() {
    ///     if let Piece::Data { bytes, .. } = piece {
    ///         printed.extend(bytes);
    ///     }
    /// }
    /// assert_eq!(printed, b"one\ntwo\n");
    /// running.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn subscribe(&mut self) -> Subscription {
        self.subscribe_as(Owed::WhatIsStored)
    }

    /// Subscribes to all of its output, for whoever hands it on: where nothing is stored any more
    /// ([`OperationBuilder::max_stored_bytes`], or a full disk), the command waits for this subscriber
    /// as it would for the reader of its pipe. A stop ends that wait, and what does not fit then is
    /// named. See [`OperationBuilder::subscribe`].
    #[must_use]
    pub fn subscribe_lossless(&mut self) -> Subscription {
        self.subscribe_as(Owed::Everything)
    }

    fn subscribe_as(&mut self, owed: Owed) -> Subscription {
        let control = Arc::clone(&self.control);
        let (outlet, subscription) = match &self.backend {
            Backend::Own(_) => {
                let (sender, subscription) = subscribe(control, owed);
                (Outlet::Feed(Arc::new(sender)), subscription)
            }
            Backend::Attached(_) => match remote::frames() {
                Ok((pipe, frames)) => {
                    let subscription = Subscription::of_frames(frames, control);
                    (Outlet::Pipe(Ok(RemoteOutput { pipe, owed })), subscription)
                }
                // The operation fails with it, and this sees its end at once.
                Err(error) => (Outlet::Pipe(Err(error)), Subscription::ended(control)),
            },
        };
        self.output = Some(outlet);
        subscription
    }

    /// Gives the other end of its standard input, to be written while it runs, in place of
    /// whatever the command says of it. There is one; a later one replaces an earlier one, which
    /// is then broken.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::io::Write;
    /// use xioflow_kernel::Command;
    ///
    /// let mut operation = domain.operation(Command::new("/usr/bin/sort"))?;
    /// let mut input = operation.stdin_stream();
    /// let running = operation.start()?;
    /// writeln!(input, "b")?;
    /// writeln!(input, "a")?;
    /// drop(input);
    /// assert_eq!(running.wait()?.stdout, "a\nb\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "dropping it is the end of the input"]
    pub fn stdin_stream(&mut self) -> StdinWriter {
        let (reader, writer) = stream();
        self.spec.stdin_stream = Some(reader);
        writer
    }

    /// Says whom to tell that it is on record as running: once, on the thread that executes it, after
    /// its record is durable and before anything of the command runs. A submission that joins the
    /// operation of another one tells it when it has joined ([`Active::joined`]). One that is answered
    /// from the record, is refused, or could not be started tells nobody.
    ///
    /// The command waits at its gate meanwhile, so this should be quick. A panic in it reaches whoever
    /// waits for the operation, which is then unfinished until the domain is next opened.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::sync::mpsc;
    /// use xioflow_kernel::{Active, Command};
    ///
    /// let (tell, told) = mpsc::channel();
    /// let operation = domain.operation(Command::new("/bin/true"))?.id("job-1");
    /// let running = operation.when_active(move |active| drop(tell.send(active))).start()?;
    /// let Active { operation_id, joined, .. } = told.recv()?;
    /// assert_eq!((operation_id.as_str(), joined), ("job-1", false));
    /// running.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn when_active(mut self, told: impl FnOnce(Active) + Send + 'static) -> Self {
        self.spec.when_active = WhenActive::new(told);
        self
    }

    /// Executes it on this thread and returns when its result is recorded.
    ///
    /// Nothing of the command runs before its intent, its leases and the identity of its process
    /// are durable. If the host dies after that, its helper ends the tree and leaves word of it,
    /// and whoever opens the domain next settles the operation by that evidence.
    ///
    /// # Errors
    /// [`ExecuteError`] says by cause why there is no result; a command that fails, cannot start,
    /// times out or is cancelled has one.
    pub fn run(self) -> Result<OperationResult, ExecuteError> {
        let Self {
            backend,
            spec,
            control,
            output,
        } = self;
        let result = match &backend {
            Backend::Own(_) if spec.detached => Err(ExecuteError::NotDetachable {
                operation_id: spec.id,
            }),
            Backend::Own(inner) => {
                let feed = output.and_then(Outlet::into_feed);
                admit::execute(inner, spec, &control, feed)
            }
            Backend::Attached(attached) => {
                let pipe = output.and_then(Outlet::into_pipe).transpose();
                pipe.map_err(|source| ExecuteError::System {
                    act: "make a pipe for the output",
                    source,
                })
                .and_then(|pipe| remote::execute(attached, spec, &control, pipe))
            }
        };
        control.finish();
        result
    }

    /// Executes it on a thread of its own. Dropping the handle lets it go on.
    ///
    /// # Errors
    /// [`ExecuteError::System`] if there can be no thread.
    pub fn start(self) -> Result<OperationHandle, ExecuteError> {
        let canceller = self.canceller();
        let operation_id = self.spec.id.clone();
        let thread = thread::Builder::new()
            .name("xioflow-op".to_owned())
            .spawn(move || self.run())
            .map_err(|source| ExecuteError::System {
                act: "start a thread",
                source,
            })?;
        Ok(OperationHandle {
            operation_id,
            canceller,
            thread,
        })
    }
}

impl Outlet {
    fn into_feed(self) -> Option<Arc<Feed>> {
        match self {
            Self::Feed(feed) => Some(feed),
            Self::Pipe(_) => None,
        }
    }

    fn into_pipe(self) -> Option<io::Result<RemoteOutput>> {
        match self {
            Self::Feed(_) => None,
            Self::Pipe(pipe) => Some(pipe),
        }
    }
}
