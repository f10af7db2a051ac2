//! The way to the gate and back: what a helper is given for a launch, and how it is parted from before
//! anything of the command has run.
//!
//! Neighbours: `launch` says what is launched, and when the gate opens.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use xioflow_journal::Stream;
use xioflow_protocol::{
    Containment, FEATURE_CONTROL_GROUP, FEATURE_NICE, FEATURE_PID_NAMESPACE, GroupEntry, Identity,
    Launch, LaunchDescriptor, LaunchFailure, PidNamespace, Reply, Request,
};

use super::adopt::end_orphans;
use super::group::HeldGroup;
use super::launch::{Admitted, launch_message};
use super::namespace::HeldNamespace;
use crate::deadline::{Patience, timespec_until};
use crate::domain::Inner;
use crate::error::ExecuteError;
use crate::helper::{HelperLink, HelperLost, LinkError, Received};
use crate::output::{Drain, StreamLimits};

/// How long a helper may take to end a child whose gate was closed.
pub(super) const DISCARD_PATIENCE: Duration = Duration::from_millis(500);

/// How many replies of a helper that went away are looked through for its reason.
const LAST_REPLIES_MAX: usize = 16;

/// A command that waits at its gate.
#[derive(Debug)]
pub(super) struct Gated {
    pub(super) link: HelperLink,
    pub(super) root: Identity,
    /// The pid namespace that was made for its tree, where one was asked for.
    pub(super) namespace: Option<HeldNamespace>,
    /// The control group that was made for its tree, where it has one.
    pub(super) group: Option<HeldGroup>,
    pub(super) root_pidfd: Option<OwnedFd>,
    pub(super) drains: [Drain; 2],
}

/// Has the command forked and prepared; the inner error is a launch that failed.
pub(super) fn bring_to_gate(
    inner: &Inner,
    admitted: &Admitted,
    stdin: Option<&OwnedFd>,
    group: Option<HeldGroup>,
) -> Result<Result<Gated, LaunchFailure>, ExecuteError> {
    let stem = admitted.stem();
    let (stdout, stdout_theirs) = output_pipe()?;
    let own_stderr = match admitted.spec.command.merges_stderr {
        true => None,
        false => Some(output_pipe()?),
    };
    let (stderr, stderr_theirs) = own_stderr.unzip();
    let mut launch = launch_message(admitted, &stem, stdin.is_none());
    launch.group = group.is_some();
    let mut link = inner.helpers.take()?;
    for feature in features_needed(&launch) {
        if let Err(lacking) = link.require(feature, inner.patience.launch) {
            dismiss(inner, link);
            return Err(lacking.into());
        }
    }
    let asked = (launch.containment, launch.group);
    let mut descriptors = [inner.holders.as_fd(); LaunchDescriptor::COUNT];
    if let Some(stdin) = stdin {
        descriptors[LaunchDescriptor::Stdin as usize] = stdin.as_fd();
    }
    descriptors[LaunchDescriptor::Stdout as usize] = stdout_theirs.as_fd();
    descriptors[LaunchDescriptor::Stderr as usize] =
        stderr_theirs.as_ref().unwrap_or(&stdout_theirs).as_fd();
    if let Some(group) = &group {
        descriptors[LaunchDescriptor::Group as usize] = group.as_fd();
    }
    let closed = stdin.is_none();
    // The group's is the last.
    let end = LaunchDescriptor::COUNT - usize::from(group.is_none());
    let travelling = &descriptors[usize::from(closed)..end];
    let request = Request::Launch(launch);
    let spawned = link
        .send_with(&request, travelling)
        .map_err(|lost| link.last_message(lost))
        .and_then(|()| await_gate(&mut link, inner.patience.launch))
        .and_then(|spawned| held_as_asked(spawned, asked));
    // Our copies would keep the pipes open for ever.
    drop((stdout_theirs, stderr_theirs));
    match spawned {
        Ok(Ok(Spawned {
            root, namespace, ..
        })) => {
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
                group,
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
    group: Option<GroupEntry>,
}

/// What the helper must be able to do beyond the protocol's version.
fn features_needed(launch: &Launch) -> impl Iterator<Item = &'static str> {
    let nice = launch.nice.is_some().then_some(FEATURE_NICE);
    let namespace = match launch.containment {
        Containment::Subreaper => None,
        Containment::PidNamespace => Some(FEATURE_PID_NAMESPACE),
    };
    let group = launch.group.then_some(FEATURE_CONTROL_GROUP);
    nice.into_iter().chain(namespace).chain(group)
}

/// A helper that holds the tree in something else than it was asked for is not to be believed.
fn held_as_asked(
    spawned: Result<Spawned, LaunchFailure>,
    (containment, group): (Containment, bool),
) -> Result<Result<Spawned, LaunchFailure>, HelperLost> {
    match &spawned {
        Ok(spawned)
            if spawned.namespace.is_some() == containment.is_subreaper()
                || spawned.group.is_some() != group =>
        {
            Err(HelperLost::OutOfOrder(
                "a command that is not held as it was asked for",
            ))
        }
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
                group,
            }) => {
                return Ok(Ok(Spawned {
                    root,
                    namespace,
                    group,
                }));
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
