//! Brings the command to its gate, makes its record durable, and opens the gate.
//!
//! Nothing of the command runs before the commit, so an error up to there leaves nothing behind:
//! the gate closes when the helper's socket does.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xioflow_killpoint as killpoint;
use xioflow_protocol::{Descendants, Launch, LaunchFailure, Reply, Request, Stage};

use super::gate::{Gated, bring_to_gate, discard};
use super::group::HeldGroup;
use super::limits::{Placed, make_group};
use super::record;
use super::supervise::{Supervision, supervise};
use super::{Active, DescendantPolicy, Spec};
use crate::caller::{Caller, Place};
use crate::control::Control;
use crate::domain::Inner;
use crate::driver::Driver;
use crate::environment::Resolved;
use crate::error::ExecuteError;
use crate::groups::GroupRefused;
use crate::helper::{HelperLink, HelperLost, Received};
use crate::names::errno_text;
use crate::output::{Feeds, artifact_stem};
use crate::result::{OperationResult, SpawnFailure};
use crate::stdin::NotOpened;
use crate::stop::{HOST_LOSS_GRACE, SURVIVOR_GRACE, StopManner, plan};

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
    /// The driver that holds it, or would hold it.
    pub(super) driver: Driver,
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
    pub(super) fn stem(&self) -> String {
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
    let mut gated = match bring_in_group(inner, &mut admitted, stdin.as_ref())? {
        Ok(gated) => gated,
        // Not recorded: the same id can be submitted again when the host allows it.
        Err(failure) if failure.stage == Stage::Namespace => return Err(driver_refused(&failure)),
        Err(failure) if failure.stage == Stage::Group => return Err(group_refused(&failure)),
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
        host_moved: gated.group.as_mut().and_then(HeldGroup::take_moved),
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

/// Has the command forked and prepared in a control group, where it is to have one. Where it need not, one that the
/// helper cannot use is done without.
fn bring_in_group(
    inner: &Inner,
    admitted: &mut Admitted,
    stdin: Option<&OwnedFd>,
) -> Result<Result<Gated, LaunchFailure>, ExecuteError> {
    let asked = admitted.spec.command.driver;
    let Placed {
        group,
        may_do_without,
    } = make_group(inner, &admitted.spec)?;
    let had_group = group.is_some();
    admitted.driver = asked.resolved(had_group);
    let gated = bring_to_gate(inner, admitted, stdin, group)?;
    match gated {
        Err(failure) if failure.stage == Stage::Group && had_group && may_do_without => {
            admitted.driver = asked.resolved(false);
            bring_to_gate(inner, admitted, stdin, None)
        }
        gated => Ok(gated),
    }
}

pub(super) fn launch_message(admitted: &Admitted, stem: &str, stdin_closed: bool) -> Launch {
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

/// The host forbids the control group that the command is to be held in.
fn group_refused(failure: &LaunchFailure) -> ExecuteError {
    let subject = String::from_utf8_lossy(&failure.subject).into_owned();
    let what = match subject.is_empty() {
        true => "entering it was refused".to_owned(),
        false => format!("{subject} was refused"),
    };
    ExecuteError::GroupRefused(GroupRefused {
        problem: format!("{what}: {}", errno_text(failure.errno)),
        remedy: Some(
            "`xioflow doctor` looks which step it is; `--driver reaper` does without".to_owned(),
        ),
        of_arbiter: false,
    })
}

fn stdin_failure(spec: &Spec, error: &io::Error) -> SpawnFailure {
    let subject = spec.command.stdin.subject();
    SpawnFailure::new("stdin", error.raw_os_error().unwrap_or(0), subject)
}
