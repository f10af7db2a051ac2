//! Brings the command to its gate, makes its record durable, and opens the gate.
//!
//! Nothing of the command runs before the commit, so an error up to there leaves nothing behind:
//! the gate closes when the helper's socket does.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use xioflow_journal::Stream;
use xioflow_killpoint as killpoint;
use xioflow_protocol::{
    Containment, Descendants, FEATURE_NICE, FEATURE_PID_NAMESPACE, Identity, Launch,
    LaunchDescriptor, LaunchFailure, PidNamespace, Reply, Request, Stage,
};

use super::adopt::end_orphans;
use super::namespace::HeldNamespace;
use super::record;
use super::supervise::{Supervision, supervise};
use super::{Active, DescendantPolicy, Spec};
use crate::caller::{Caller, Place};
use crate::control::Control;
use crate::deadline::{Patience, timespec_until};
use crate::domain::Inner;
use crate::driver::Driver;
use crate::environment::Resolved;
use crate::error::ExecuteError;
use crate::helper::{HelperLink, HelperLost, LinkError, Received};
use crate::output::{Drain, Feeds, StreamLimits, artifact_stem};
use crate::result::{OperationResult, SpawnFailure};
use crate::stdin::NotOpened;
use crate::stop::{HOST_LOSS_GRACE, SURVIVOR_GRACE, StopManner, plan};

/// How long a helper may take to end a child whose gate was closed.
pub(super) const DISCARD_PATIENCE: Duration = Duration::from_millis(500);

/// How many replies of a helper that went away are looked through for its reason.
const LAST_REPLIES_MAX: usize = 16;

/// How long processes may outlive the command before they count as survivors, in milliseconds.
///
/// A pipeline's last members and a build's workers end within a few milliseconds of the command.
pub(super) const SETTLE_MS: u32 = 200;

/// Added to the command's out-of-memory score, so that the kernel picks it before its holder.
const OOM_SCORE_ADJ: i32 = 200;

/// How the system says that there is no limit, getrlimit(2).
const RLIM_INFINITY: u64 = u64::MAX;

/// A submission that will run.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) id: String,
    pub(super) fingerprint: String,
    /// Who asks for it. The variables are in the environment.
    pub(super) caller: Caller,
    /// Where the command will be.
    pub(super) folder: Place,
    /// The file that it reads, if it reads one.
    pub(super) input: Option<Place>,
    pub(super) environment: Resolved,
    pub(super) spec: Spec,
    pub(super) submitted: Instant,
    /// How much of its timeout went into waiting for the first writer of a FIFO.
    pub(super) stdin_waited: Duration,
    /// Whether it is what was declared for the end of the operation, and not its command.
    pub(super) is_stop_action: bool,
}

impl Admitted {
    /// The beginning of the names of its files.
    fn stem(&self) -> String {
        let stem = artifact_stem(&self.id);
        match self.is_stop_action {
            true => stop_action_stem(&stem),
            false => stem,
        }
    }
}

/// The beginning of the names of what belongs to the stop action of an operation. No operation has it for its own.
pub(crate) fn stop_action_stem(stem: &str) -> String {
    format!("{stem}~stop")
}

/// A command that waits at its gate.
#[derive(Debug)]
pub(super) struct Gated {
    pub(super) link: HelperLink,
    pub(super) root: Identity,
    /// The pid namespace that was made for its tree, where one was asked for.
    pub(super) namespace: Option<HeldNamespace>,
    pub(super) root_pidfd: Option<OwnedFd>,
    pub(super) drains: [Drain; 2],
}

/// Launches an admitted operation and sees it to its result.
pub(super) fn launch(
    inner: &Inner,
    mut admitted: Admitted,
    control: &Arc<Control>,
    feeds: &Feeds,
) -> Result<OperationResult, ExecuteError> {
    if control.stop_wish().is_some() {
        return record::cancelled_before_launch(inner, admitted, control);
    }
    if let Some(failure) = gone_folder(&admitted.folder) {
        return record::failed_launch(inner, admitted, failure);
    }
    let group = admitted.spec.command.driver.group();
    (inner.groups.check(group)).map_err(ExecuteError::GroupRefused)?;
    let stdin = match open_stdin(&mut admitted, control) {
        Ok(stdin) => stdin,
        Err(NotOpened::Failed(error)) => {
            let failure = stdin_failure(&admitted.spec, &error);
            return record::failed_launch(inner, admitted, failure);
        }
        Err(NotOpened::Cancelled) => {
            return record::cancelled_before_launch(inner, admitted, control);
        }
        Err(NotOpened::TimedOut) => return record::timed_out_before_launch(inner, admitted),
    };
    inner.make_room();
    let mut gated = match bring_to_gate(inner, &admitted, stdin.as_ref())? {
        Ok(gated) => gated,
        // Not recorded: the same id can be submitted again when the host allows it.
        Err(failure) if failure.stage == Stage::Namespace => return Err(driver_refused(&failure)),
        Err(failure) => {
            let failure = spawn_failure(&admitted, &failure);
            return record::failed_launch(inner, admitted, failure);
        }
    };
    drop(stdin);
    if control.stop_wish().is_some() {
        discard(inner, gated);
        return record::cancelled_before_launch(inner, admitted, control);
    }
    if let Err(error) = record::commit_launch(inner, &admitted, &gated) {
        match error.may_be_recorded() {
            // Its last word tells whoever finds it on record that nothing of it ran.
            true => inner.helpers.abandon(gated.link),
            false => discard(inner, gated),
        }
        return Err(error);
    }
    killpoint::pass(|| "launch:before-told-active");
    admitted.spec.when_active.tell(|| Active {
        operation_id: admitted.id.clone(),
        run_id: admitted.spec.membership.run_id().to_owned(),
        joined: false,
    });
    let released = release(&mut gated.link);
    inner.helpers.refill();
    let observed = supervise(Supervision::new(
        inner, gated, &admitted, control, feeds, released,
    ));
    record::finish(inner, &admitted, observed, control)
}

/// What is to be said where the command's folder is gone with that of its caller.
fn gone_folder(folder: &Place) -> Option<SpawnFailure> {
    let path = folder.path.display().to_string();
    let failure = SpawnFailure::new("cwd", folder.gone?, Some(path));
    let hint = "the folder that this was started in is gone; go to one that is there, or give the \
                command a working directory of its own";
    Some(failure.hint(hint))
}

/// Opens what the command will read; none where it has no standard input. A stream can be taken
/// once.
fn open_stdin(admitted: &mut Admitted, control: &Control) -> Result<Option<OwnedFd>, NotOpened> {
    if let Some(stream) = admitted.spec.stdin_stream.take() {
        return Ok(Some(stream?));
    }
    let begun = Instant::now();
    let timeout = admitted.spec.timeout;
    let until = timeout.and_then(|timeout| begun.checked_add(timeout));
    let input = admitted.input.as_ref();
    let opened = admitted.spec.command.stdin.open(input, control, until);
    admitted.stdin_waited = begun.elapsed();
    opened
}

/// Tells the helper to open the gate; the failure is that of a child that has ended there meanwhile.
pub(super) fn release(link: &mut HelperLink) -> Result<Option<LaunchFailure>, HelperLost> {
    let early = match link.receive()? {
        Received::Nothing => None,
        Received::Reply(Reply::LaunchFailed(failure)) => Some(failure),
        Received::Reply(_) => {
            return Err(HelperLost::OutOfOrder("news before its gate was opened"));
        }
    };
    link.send(&Request::Release)?;
    Ok(early)
}

/// Has the command forked and prepared; the inner error is a launch that failed.
pub(super) fn bring_to_gate(
    inner: &Inner,
    admitted: &Admitted,
    stdin: Option<&OwnedFd>,
) -> Result<Result<Gated, LaunchFailure>, ExecuteError> {
    let stem = admitted.stem();
    let (stdout, stdout_theirs) = output_pipe()?;
    let own_stderr = match admitted.spec.command.merges_stderr {
        true => None,
        false => Some(output_pipe()?),
    };
    let (stderr, stderr_theirs) = own_stderr.unzip();
    let launch = launch_message(admitted, &stem, stdin.is_none());
    let mut link = inner.helpers.take()?;
    for feature in features_needed(&launch) {
        if let Err(lacking) = link.require(feature, inner.patience.launch) {
            dismiss(inner, link);
            return Err(lacking.into());
        }
    }
    let containment = launch.containment;
    let mut descriptors = [inner.holders.as_fd(); LaunchDescriptor::COUNT];
    if let Some(stdin) = stdin {
        descriptors[LaunchDescriptor::Stdin as usize] = stdin.as_fd();
    }
    descriptors[LaunchDescriptor::Stdout as usize] = stdout_theirs.as_fd();
    descriptors[LaunchDescriptor::Stderr as usize] =
        stderr_theirs.as_ref().unwrap_or(&stdout_theirs).as_fd();
    let closed = stdin.is_none();
    let travelling = &descriptors[usize::from(closed)..LaunchDescriptor::Group as usize];
    let request = Request::Launch(launch);
    let spawned = link
        .send_with(&request, travelling)
        .map_err(|lost| link.last_message(lost))
        .and_then(|()| await_gate(&mut link, inner.patience.launch))
        .and_then(|spawned| held_as_asked(spawned, containment));
    // Our copies would keep the pipes open for ever.
    drop((stdout_theirs, stderr_theirs));
    match spawned {
        Ok(Ok(Spawned { root, namespace })) => {
            let root_pidfd = link.take_descriptor();
            let limits = StreamLimits {
                kept: admitted.spec.max_output_bytes,
                stored: admitted.spec.stored_bytes_max(),
            };
            let drain = |stream, pipe| {
                Drain::new(stream, pipe, Arc::clone(&inner.artifacts), &stem, limits)
            };
            let drains = [
                drain(Stream::Stdout, Some(stdout)),
                drain(Stream::Stderr, stderr),
            ];
            Ok(Ok(Gated {
                link,
                root,
                namespace: namespace.map(HeldNamespace::hold),
                root_pidfd,
                drains,
            }))
        }
        Ok(Err(failure)) => {
            inner.helpers.retire(link);
            Ok(Err(failure))
        }
        Err(lost) => {
            dismiss(inner, link);
            Err(ExecuteError::Helper(LinkError::Lost(lost)))
        }
    }
}

/// Parts from a helper that cannot be trusted and was not told to let anything run.
fn dismiss(inner: &Inner, mut link: HelperLink) {
    if inner.adopts_orphans {
        // The child that stood at the gate comes to this process. That it never was a command is
        // known; how it ended says nothing.
        link.make_sure_it_is_gone();
        end_orphans(0, None);
    }
    inner.helpers.dismiss(link);
}

fn output_pipe() -> Result<(OwnedFd, OwnedFd), ExecuteError> {
    let failed = |source| ExecuteError::System {
        act: "make a pipe",
        source,
    };
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    // Only our end: the flag belongs to the open file, and the command's end is another one.
    rustix::fs::fcntl_setfl(&ours, OFlags::RDONLY | OFlags::NONBLOCK)
        .map_err(|e| failed(e.into()))?;
    Ok((ours, theirs))
}

/// The command at its gate, by its helper.
struct Spawned {
    root: Identity,
    namespace: Option<PidNamespace>,
}

/// What the helper must be able to do beyond the protocol's version.
fn features_needed(launch: &Launch) -> impl Iterator<Item = &'static str> {
    let nice = launch.nice.is_some().then_some(FEATURE_NICE);
    let namespace = match launch.containment {
        Containment::Subreaper => None,
        Containment::PidNamespace => Some(FEATURE_PID_NAMESPACE),
    };
    nice.into_iter().chain(namespace)
}

/// A helper that holds the tree in something else than it was asked for is not to be believed.
fn held_as_asked(
    spawned: Result<Spawned, LaunchFailure>,
    asked: Containment,
) -> Result<Result<Spawned, LaunchFailure>, HelperLost> {
    match &spawned {
        Ok(spawned) if spawned.namespace.is_some() == asked.is_subreaper() => Err(
            HelperLost::OutOfOrder("a command that is not held as it was asked for"),
        ),
        _ => Ok(spawned),
    }
}

/// Waits until the command stands at its gate, or did not get there.
fn await_gate(
    link: &mut HelperLink,
    patience: Duration,
) -> Result<Result<Spawned, LaunchFailure>, HelperLost> {
    let patience = Patience::new(patience);
    loop {
        match link.receive()? {
            Received::Reply(Reply::Spawned {
                root,
                namespace,
                group: _,
            }) => {
                return Ok(Ok(Spawned { root, namespace }));
            }
            Received::Reply(Reply::LaunchFailed(failure)) => return Ok(Err(failure)),
            Received::Reply(_) => return Err(HelperLost::OutOfOrder("no launch report")),
            Received::Nothing => link.wait(&patience)?,
        }
    }
}

/// Closes the gate and lets the helper end its child.
pub(super) fn discard(inner: &Inner, mut gated: Gated) {
    let patience = Patience::new(DISCARD_PATIENCE);
    // Whatever fails here, the gate closes with the socket.
    let ended = gated.link.send(&Request::Discard).and_then(|()| {
        loop {
            match gated.link.receive()? {
                // The second one: its child has ended by itself, and the two have crossed.
                Received::Reply(Reply::TreeEmpty(_) | Reply::LaunchFailed(_)) => return Ok(()),
                Received::Reply(_) => return Err(HelperLost::OutOfOrder("no end of its child")),
                Received::Nothing => gated.link.wait(&patience)?,
            }
        }
    });
    match ended {
        Ok(()) => inner.helpers.retire(gated.link),
        Err(_) => dismiss(inner, gated.link),
    }
}

fn launch_message(admitted: &Admitted, stem: &str, stdin_closed: bool) -> Launch {
    let command = &admitted.spec.command;
    let path = admitted.folder.path.clone();
    let bytes = |text: &std::ffi::OsStr| text.as_bytes().to_vec().into();
    let variable = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| {
        [name.as_bytes(), b"=", value.as_bytes()].concat().into()
    };
    Launch {
        program: bytes(&command.program),
        argv: std::iter::once(&command.program)
            .chain(&command.args)
            .map(|it| bytes(it))
            .collect(),
        env: admitted
            .environment
            .variables
            .iter()
            .map(variable)
            .collect(),
        cwd: path.into_os_string().into_vec().into(),
        umask: command.umask.or(admitted.caller.umask_value()),
        limits: limits_to_set(&admitted.caller),
        nice: admitted.caller.nice_to_set(),
        no_new_privs: command.no_new_privs,
        oom_score_adj: OOM_SCORE_ADJ,
        descendants: match admitted.spec.descendants {
            DescendantPolicy::Stop => {
                Descendants::Stop(plan(StopManner::Terminate, SURVIVOR_GRACE))
            }
            DescendantPolicy::Wait => Descendants::Wait,
        },
        settle_ms: SETTLE_MS,
        on_host_loss: plan(StopManner::Terminate, HOST_LOSS_GRACE),
        last_word_name: last_word_name(stem).into_bytes().into(),
        operation_id: admitted.id.clone(),
        stdin_closed,
        containment: command.driver.containment(),
        group: false,
    }
}

fn limits_to_set(caller: &Caller) -> Vec<xioflow_protocol::ResourceLimit> {
    let bound = |limit: Option<u64>| limit.unwrap_or(RLIM_INFINITY);
    let limits = caller.limits_to_set().into_iter();
    limits
        .map(|limit| xioflow_protocol::ResourceLimit {
            resource: limit.resource,
            soft: bound(limit.soft),
            hard: bound(limit.hard),
        })
        .collect()
}

/// Name of the file for the last word on an operation, in the holders folder.
pub(crate) fn last_word_name(stem: &str) -> String {
    format!("{stem}.word")
}

pub(super) fn spawn_failure(admitted: &Admitted, failure: &LaunchFailure) -> SpawnFailure {
    let subject = String::from_utf8_lossy(&failure.subject).into_owned();
    let subject = match (subject.is_empty(), failure.stage) {
        (false, _) => Some(subject),
        (true, Stage::Cwd) => Some(admitted.folder.path.display().to_string()),
        (true, Stage::Exec) => Some(admitted.spec.command.program.to_string_lossy().into_owned()),
        (true, _) => None,
    };
    SpawnFailure::new(failure.stage.name(), failure.errno, subject)
}

/// The host forbids what the command is to be held in.
fn driver_refused(failure: &LaunchFailure) -> ExecuteError {
    let call = String::from_utf8_lossy(&failure.subject).into_owned();
    ExecuteError::DriverRefused {
        driver: Driver::PidNamespace,
        call,
        source: io::Error::from_raw_os_error(failure.errno),
    }
}

fn stdin_failure(spec: &Spec, error: &io::Error) -> SpawnFailure {
    let subject = spec.command.stdin.subject();
    SpawnFailure::new("stdin", error.raw_os_error().unwrap_or(0), subject)
}

impl HelperLink {
    /// Makes sure that the helper has a feature, which it says in its greeting.
    fn require(&mut self, feature: &'static str, patience: Duration) -> Result<(), LinkError> {
        let patience = Patience::new(patience);
        while self.greeting().is_none() {
            match self.receive()? {
                Received::Reply(_) => {
                    return Err(HelperLost::OutOfOrder("news before its launch").into());
                }
                Received::Nothing if self.greeting().is_none() => self.wait(&patience)?,
                Received::Nothing => {}
            }
        }
        self.check_feature(feature)
    }

    /// Waits until the helper says something more, unless the patience with it is over. Called when
    /// what it has said was read: an answer that is there counts however late it is looked at, but
    /// bytes that are none do not.
    fn wait(&mut self, patience: &Patience) -> Result<(), HelperLost> {
        if patience.is_over() {
            return Err(HelperLost::Silent {
                waited_ms: patience.length_ms(),
            });
        }
        let wanted = if self.wants_to_write() {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let mut polled = [PollFd::from_borrowed_fd(self.as_fd(), wanted)];
        match poll(&mut polled, timespec_until(patience.until()).as_ref()) {
            Ok(_) => self.flush().map_err(|lost| self.last_message(lost)),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(HelperLost::Socket(error.to_string())),
        }
    }

    /// What a helper that cannot be told anything more has said before it went.
    fn last_message(&mut self, lost: HelperLost) -> HelperLost {
        if lost != HelperLost::Gone {
            return lost;
        }
        // One that only stopped listening may go on talking.
        for _ in 0..LAST_REPLIES_MAX {
            match self.receive() {
                Ok(Received::Reply(_)) => {}
                Ok(Received::Nothing) => return lost,
                Err(said) => return said,
            }
        }
        lost
    }
}
