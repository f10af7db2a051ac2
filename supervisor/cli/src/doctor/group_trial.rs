//! A leaf that is used: a command is made in it by the helper, ended by one write, seen to be gone, and the leaf is
//! removed.
//!
//! Neighbours: `cgroup` asks for it where a leaf can be made, `subreaper` has the launch, `holder_probe` speaks with
//! the helper.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use xioflow_cgroup::{DomainGroup, GroupError, GroupName, Leaf, Limits, RemoveError, Root};
use xioflow_protocol::{
    Containment, FEATURE_CONTROL_GROUP, GroupEntry, LaunchFailure, Reply, Request,
};

use super::holder_probe::{Holder, HolderError, out_of_order};
use super::subreaper::launch;

/// How long the whole trial may take on a loaded machine; it is some milliseconds.
const TRIAL_LIMIT: Duration = Duration::from_secs(10);

/// Waits for its end, and leaves somebody in a session of his own where there is a setsid(1).
const SCRIPT: &str = "(setsid sleep 60 2>/dev/null &)\nread -r told\n";

/// Why the trial came to no outcome.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrialError {
    /// The group refused something.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// It could not be removed again, and is still there.
    #[error(transparent)]
    Remove(#[from] RemoveError),
    /// Something beside both failed.
    #[error("{step} for a trial")]
    Setup {
        step: &'static str,
        source: io::Error,
    },
    /// The helper failed.
    #[error(transparent)]
    Holder(#[from] HolderError),
    /// It is of a release that knows no groups.
    #[error("the helper knows no control groups; install it from the same release as this program")]
    Lacks,
    /// The command could not be made there.
    #[error("a command cannot be made in it: {} was refused with error {}", String::from_utf8_lossy(&.0.subject), .0.errno)]
    Refused(LaunchFailure),
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// How the command came into the leaf.
    pub(super) entry: GroupEntry,
    /// Whether the kernel said that nobody was in it, in time after the order.
    pub(super) emptied: bool,
}

/// Makes a leaf in a group of this process's own, and has a command ended in it. On return both are gone, unless somebody in
/// it could not be ended.
pub(super) fn run(helper: &Path) -> Result<Outcome, TrialError> {
    let root = Root::find().map_err(|unavailable| TrialError::Setup {
        step: "find the delegated group",
        source: io::Error::other(unavailable),
    })?;
    let domain = root.domain(name())?;
    let outcome = in_leaf(&domain, helper);
    // The first of two errors is the one that counts.
    match (outcome, domain.remove()) {
        (Ok(_), Err(error)) => Err(error.into()),
        (outcome, _) => outcome,
    }
}

fn in_leaf(domain: &DomainGroup, helper: &Path) -> Result<Outcome, TrialError> {
    let leaf = domain.leaf(&Limits::default())?;
    let outcome = hold_and_kill(&leaf, helper);
    if outcome.is_err() {
        // Its helper ends what it may have begun; whoever is left must not keep the leaf.
        leaf.kill()?;
        leaf.wait_empty(TRIAL_LIMIT)?;
    }
    match (outcome, leaf.remove()) {
        (Ok(_), Err(error)) => Err(error.into()),
        (outcome, _) => outcome,
    }
}

fn hold_and_kill(leaf: &Leaf, helper: &Path) -> Result<Outcome, TrialError> {
    let opened = |path: &str, write: bool| {
        let file = File::options().read(!write).write(write).open(path);
        file.map_err(|source| TrialError::Setup {
            step: "open files",
            source,
        })
    };
    let (stdin, _to_command) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|errno| {
            TrialError::Setup {
                step: "make a pipe",
                source: errno.into(),
            }
        })?;
    let (null, holders) = (opened("/dev/null", true)?, opened("/", false)?);
    let mut holder = Holder::start(helper, TRIAL_LIMIT)?;
    let hello = holder.hello()?;
    if !hello.features.iter().any(|it| it == FEATURE_CONTROL_GROUP) {
        return Err(TrialError::Lacks);
    }
    let mut order = launch(SCRIPT, Containment::Subreaper);
    order.group = true;
    holder.launch(
        order,
        &[
            stdin.as_fd(),
            null.as_fd(),
            null.as_fd(),
            holders.as_fd(),
            leaf.directory_fd(),
        ],
    )?;
    let entry = match holder.next_reply()? {
        Reply::Spawned {
            group: Some(entry), ..
        } => entry,
        Reply::LaunchFailed(failure) => return Err(TrialError::Refused(failure)),
        other => return Err(out_of_order("a command in a control group", &other).into()),
    };
    holder.send(&Request::Release)?;
    match holder.next_reply()? {
        Reply::Running => {}
        other => return Err(out_of_order("a running command", &other).into()),
    }
    leaf.kill()?;
    let emptied = leaf.wait_empty(holder.time_left())?;
    await_end(&mut holder)?;
    Ok(Outcome { entry, emptied })
}

fn await_end(holder: &mut Holder) -> Result<(), TrialError> {
    loop {
        match holder.next_reply()? {
            Reply::TreeEmpty(_) | Reply::TreeRemains(_) => return Ok(()),
            Reply::RootExited { .. } | Reply::Survivors { .. } | Reply::Signalled { .. } => {}
            other => return Err(out_of_order("the end of a tree", &other).into()),
        }
    }
}

/// A name of this process's own. That of a domain is a hash, which would have to begin with these bytes to be the same.
fn name() -> GroupName {
    let mut digest = *b"test\0\0\0\0";
    digest[4..].copy_from_slice(&std::process::id().to_be_bytes());
    GroupName::from_digest(&digest)
}
