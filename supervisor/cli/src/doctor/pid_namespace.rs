//! A pid namespace of its own: a tree that escapes is given one, its helper is killed, and who is left
//! is looked for.
//!
//! Each process of the tree holds one pipe, whose end is the proof that nobody of it lives: what they say of their own
//! numbers means nothing out here. Neighbours: `subreaper` has the launch, `holder_probe` speaks with the helper.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Value, json};
use xioflow_kernel::{errno_text, namespace_remedy};
use xioflow_protocol::{
    Containment, FEATURE_PID_NAMESPACE, LaunchFailure, PidNamespace, Reply, Request, Stage,
};

use super::escapee::Escapee;
use super::holder_probe::{Holder, HolderError, out_of_order, wait_until};
use super::report::{Finding, with_causes};
use super::subreaper::launch;

/// How long the whole trial may take on a loaded machine; it is some milliseconds.
const TRIAL_LIMIT: Duration = Duration::from_secs(10);

/// An orphan that is deaf, one that left the session, and the command; each says a line and holds the pipe.
const SCRIPT: &str = "(sh -c 'trap \"\" TERM INT HUP; echo here; exec sleep 60' &)\n\
                      (setsid sh -c 'echo here; exec sleep 60' &)\necho here\nread -r told\n";

/// How many of them say something, where there is a setsid(1); one less without it.
const PROCESSES: usize = 3;

/// Kills the helper of an escaping tree that has a namespace of its own, and looks for who is left.
pub(super) fn look(helper: Result<&Path, &String>) -> Finding {
    let Ok(path) = helper else {
        return Finding::cannot_tell("there is no helper to try it with").with_facts(facts(None));
    };
    match run(path) {
        Ok(outcome) => judge(&outcome).with_facts(facts(Some(&outcome))),
        Err(TrialError::Refused(failure)) => refused(&failure),
        Err(error @ TrialError::Setup { .. }) => Finding::cannot_tell(with_causes(&error)),
        Err(error) => Finding::missing(with_causes(&error)),
    }
}

/// Why the trial came to no outcome.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    /// Something beside the helper failed.
    #[error("{step} for a trial")]
    Setup {
        step: &'static str,
        source: io::Error,
    },
    /// The helper failed.
    #[error(transparent)]
    Holder(#[from] HolderError),
    /// It is of a release that knows no namespaces.
    #[error("the helper cannot make one; install it from the same release as this program")]
    Lacks,
    /// The host refuses.
    #[error("the host refuses it")]
    Refused(LaunchFailure),
    /// The tree did not come to stand.
    #[error("the escaping tree did not say that it stands")]
    Silent,
}

fn setup(step: &'static str) -> impl Fn(rustix::io::Errno) -> TrialError {
    move |errno| TrialError::Setup {
        step,
        source: errno.into(),
    }
}

/// What came of it.
struct Outcome {
    /// How many processes there were.
    processes: usize,
    namespace: PidNamespace,
    /// Whether the pipe that all of them held has ended.
    all_ended: bool,
}

fn judge(outcome: &Outcome) -> Finding {
    let processes = outcome.processes;
    match (outcome.all_ended, outcome.namespace.user_namespace) {
        (false, _) => Finding::missing(format!(
            "some of {processes} processes outlived a helper that was killed"
        )),
        (true, false) => Finding::ready(format!(
            "a helper was killed, and all {processes} processes of its tree ended with it"
        )),
        (true, true) => Finding::weaker(format!(
            "all {processes} processes ended with a helper that was killed; without privilege it takes a user \
             namespace, where others' files are nobody's and setuid programs have no effect"
        )),
    }
}

fn refused(failure: &LaunchFailure) -> Finding {
    let call = String::from_utf8_lossy(&failure.subject).into_owned();
    let detail = match failure.stage {
        Stage::Namespace => format!("{call} was refused: {}", errno_text(failure.errno)),
        stage => format!(
            "the helper could not start /bin/sh: error {} at {}",
            failure.errno,
            stage.name()
        ),
    };
    let remedy = (failure.stage == Stage::Namespace)
        .then(|| namespace_remedy(&call, failure.errno).to_owned());
    Finding::missing(detail).with_remedy(remedy).with_facts(
        json!({ "processes": null, "alive": null, "userNamespace": null,
                            "refused": call, "errno": failure.errno }),
    )
}

fn facts(outcome: Option<&Outcome>) -> Value {
    let alive = outcome.and_then(|it| it.all_ended.then_some(0));
    json!({
        "processes": outcome.map(|it| it.processes),
        // How many are left is not counted, only that somebody is.
        "alive": alive,
        "userNamespace": outcome.map(|it| it.namespace.user_namespace),
        "refused": null,
        "errno": null,
    })
}

fn run(helper: &Path) -> Result<Outcome, TrialError> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(setup("make a pipe"));
    let (stdin, _to_command) = pipe()?;
    let (from_tree, stdout) = pipe()?;
    let opened = |result: io::Result<File>| {
        result.map_err(|source| TrialError::Setup {
            step: "open files",
            source,
        })
    };
    let stderr = opened(File::options().write(true).open("/dev/null"))?;
    // No last word is written by a helper that is killed.
    let holders = opened(File::open("/"))?;
    let mut holder = Holder::start(helper, TRIAL_LIMIT)?;
    let hello = holder.hello()?;
    if !hello.features.iter().any(|it| it == FEATURE_PID_NAMESPACE) {
        return Err(TrialError::Lacks);
    }
    holder.launch(
        launch(SCRIPT, Containment::PidNamespace),
        &[
            stdin.as_fd(),
            stdout.as_fd(),
            stderr.as_fd(),
            holders.as_fd(),
        ],
    )?;
    drop((stdin, stdout));
    let namespace = match holder.next_reply()? {
        Reply::Spawned {
            namespace: Some(namespace),
            ..
        } => namespace,
        Reply::LaunchFailed(failure) => return Err(TrialError::Refused(failure)),
        other => return Err(out_of_order("a command in a namespace", &other).into()),
    };
    // Ended here if nobody else does.
    let _init = Escapee::of(namespace.init.pid);
    holder.send(&Request::Release)?;
    let processes = count(&from_tree, &holder)?;
    let left = holder.time_left();
    holder.kill()?;
    Ok(Outcome {
        processes,
        namespace,
        all_ended: has_ended(&from_tree, left)?,
    })
}

/// Waits until the tree stands, and says of how many processes it is.
fn count(from_tree: &OwnedFd, holder: &Holder) -> Result<usize, TrialError> {
    let wanted = match super::subreaper::has_setsid() {
        true => PROCESSES,
        false => PROCESSES - 1,
    };
    let mut lines = 0;
    while lines < wanted {
        let mut bytes = [0; 64];
        match read_some(from_tree, &mut bytes, holder.time_left())? {
            None | Some(0) => return Err(TrialError::Silent),
            Some(len) => lines += bytes[..len].iter().filter(|it| **it == b'\n').count(),
        }
    }
    Ok(lines)
}

fn has_ended(from_tree: &OwnedFd, left: Duration) -> Result<bool, TrialError> {
    loop {
        match read_some(from_tree, &mut [0; 64], left)? {
            None => return Ok(false),
            Some(0) => return Ok(true),
            Some(_) => {}
        }
    }
}

/// What is read at once; `None` when nothing came in time.
fn read_some(
    from_tree: &OwnedFd,
    bytes: &mut [u8],
    left: Duration,
) -> Result<Option<usize>, TrialError> {
    let ready = wait_until(from_tree, PollFlags::IN, left).map_err(setup("wait for the tree"))?;
    match ready {
        true => rustix::io::read(from_tree, bytes)
            .map(Some)
            .map_err(setup("read from the tree")),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use xioflow_protocol::Identity;

    use super::*;
    use crate::doctor::report::{Check, Verdict};

    fn check(finding: Finding) -> Check {
        Check::new("pid-namespace", "pid namespaces", false, finding)
    }

    fn outcome(user_namespace: bool, all_ended: bool) -> Outcome {
        let init = Identity {
            pid: 7,
            start_ticks: 1,
            boot_id: [0; 16],
            pidfd_inode: None,
        };
        Outcome {
            processes: PROCESSES,
            namespace: PidNamespace {
                init,
                inode: 1,
                user_namespace,
            },
            all_ended,
        }
    }

    #[test]
    fn who_outlives_the_helper_makes_it_missing_whatever_it_took() {
        for (user_namespace, all_ended, verdict) in [
            (false, true, Verdict::Ready),
            (true, true, Verdict::Weaker),
            (false, false, Verdict::Missing),
            (true, false, Verdict::Missing),
        ] {
            let outcome = outcome(user_namespace, all_ended);
            let check = check(judge(&outcome).with_facts(facts(Some(&outcome))));
            assert_eq!(check.verdict, verdict, "{}", check.detail);
            let alive = if all_ended { json!(0) } else { Value::Null };
            assert_eq!(check.facts["alive"], alive);
        }
    }

    #[test]
    fn a_refusal_names_the_call_and_the_command_that_mends_it() {
        let failure = LaunchFailure {
            stage: Stage::Namespace,
            errno: rustix::io::Errno::NOSPC.raw_os_error(),
            subject: b"unshare(CLONE_NEWUSER)".to_vec().into(),
        };
        let check = check(refused(&failure));
        assert_eq!(check.verdict, Verdict::Missing);
        assert!(
            check.detail.contains("unshare(CLONE_NEWUSER)"),
            "{}",
            check.detail
        );
        let remedy = check.remedy.expect("a remedy");
        assert!(
            remedy.contains("sysctl -w user.max_user_namespaces"),
            "{remedy}"
        );
    }

    #[test]
    fn without_a_helper_nothing_can_be_told() {
        let finding = look(Err(&"not found".to_owned()));
        assert_eq!(check(finding).verdict, Verdict::CannotTell);
    }
}
