//! A PID namespace for one tree: whoever is in it ends with its init, which is ours and ends with us.
//!
//! The helper makes it, and a user namespace first where it lacks the right (`make`). Its next child is the
//! init (`init`), the one after that the command's root, which makes its own surroundings there (`enter`).
//! So the root stays a child of the helper, and whoever loses its parent comes to the init. The helper stays outside, where it sees
//! everybody, and nobody inside sees it. Why it is done this way: `docs/decisions/0031`.

pub(crate) mod init;

use alloc::vec::Vec;
use core::fmt::Write;

use xioflow_protocol::{Identity, LaunchFailure, NamespaceStep, PidNamespace, Stage};
use xioflow_sys::{
    AsFd, BorrowedFd, CWD, Capabilities, Errno, Fork, NamespaceKind, OpenFlags, OwnedFd, Pid,
    Signal, SingleThread, SocketKind, capset, empty_bounding_set, fork, getegid, geteuid,
    keep_only, may_make_namespaces, mount_proc, openat, receive_mounts_only, set_dumpable,
    socketpair, unshare, write,
};

use self::init::Word;
use crate::authority;
use crate::gate::{Failure, Subject};
use crate::system::System;

/// A namespace and its init, as the helper has them.
#[derive(Debug)]
pub struct Namespace {
    init: Pid,
    pidfd: Option<OwnedFd>,
    /// The init ends with the other end of it.
    lifeline: OwnedFd,
    inode: u64,
    user_namespace: bool,
    stage: Readiness,
    /// Whether the init was told to leave when it is alone.
    dismissed: bool,
}

/// How far the init has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Readiness {
    /// It prepares itself.
    Preparing,
    /// It adopts, and ends with the helper. When it had started, in clock ticks after boot.
    Ready { start_ticks: u64 },
    /// It could not.
    Failed(Errno),
}

/// What is known when the init was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing yet.
    Nothing,
    /// It is ready.
    Ready,
    /// It will not be.
    Failed(LaunchFailure),
}

/// Makes a namespace and its init. The next child of the helper is in it.
///
/// # Errors
/// A failure whose subject names the call or file that refused.
pub(crate) fn make(proof: &SingleThread) -> Result<Namespace, LaunchFailure> {
    let at = |step: NamespaceStep| move |errno| refused(step, errno);
    let may = may_make_namespaces().map_err(at(NamespaceStep::Capabilities))?;
    if !may {
        own_user_namespace().map_err(|(step, errno)| refused(step, errno))?;
    }
    unshare(NamespaceKind::Pid).map_err(at(NamespaceStep::PidNamespace))?;
    let (lifeline, theirs) = socketpair(SocketKind::Records).map_err(at(NamespaceStep::Init))?;
    match fork(proof).map_err(at(NamespaceStep::Init))? {
        Fork::Parent { child, pidfd } => {
            let inode = xioflow_facts::pid_namespace_of_children()
                .map_err(|_| refused(NamespaceStep::PidNamespace, Errno::ENOENT))?;
            let mut namespace = Namespace::new(child, pidfd, lifeline, inode);
            namespace.user_namespace = !may;
            Ok(namespace)
        }
        // It keeps nothing else that the helper has: not the command's pipes, not the supervisor's socket.
        Fork::Child => keep_only(theirs, init::live),
    }
}

/// Enters a user namespace in which the helper is who it was, and nobody else is anybody.
fn own_user_namespace() -> Result<(), (NamespaceStep, Errno)> {
    let (user, group) = (geteuid(), getegid());
    unshare(NamespaceKind::User).map_err(|errno| (NamespaceStep::UserNamespace, errno))?;
    authority::lost();
    // The files of a process that is not dumpable are root's. Nothing of the command runs yet.
    let shown = set_dumpable(true).map_err(|errno| (NamespaceStep::UserMap, errno));
    let mapped = shown.and_then(|()| map(user, group));
    set_dumpable(false).map_err(|errno| (NamespaceStep::UserMap, errno))?;
    mapped
}

fn map(user: u32, group: u32) -> Result<(), (NamespaceStep, Errno)> {
    match put(c"/proc/self/setgroups", format_args!("deny")) {
        // Before Linux 3.19 there is no such file, and no need for it.
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err((NamespaceStep::Setgroups, errno)),
    }
    put(c"/proc/self/uid_map", format_args!("{user} {user} 1"))
        .map_err(|errno| (NamespaceStep::UserMap, errno))?;
    put(c"/proc/self/gid_map", format_args!("{group} {group} 1"))
        .map_err(|errno| (NamespaceStep::GroupMap, errno))
}

fn put(path: &core::ffi::CStr, text: core::fmt::Arguments<'_>) -> Result<(), Errno> {
    let file = openat(CWD, path, OpenFlags::WRITE, 0)?;
    let mut line = Subject::new();
    let _fits = line.write_fmt(text);
    write(file.as_fd(), line.as_bytes()).map(drop)
}

/// What the root does in the namespace before anything else: mounts of its own, with the `/proc` of the
/// namespace, and no capability beyond what the helper had outside.
///
/// # Errors
/// A failure; the step is in the subject.
pub(crate) fn enter(user_namespace: bool, subject: &mut Subject) -> Result<(), Failure> {
    surround(user_namespace).map_err(|(step, errno)| {
        subject.set(step.name().as_bytes());
        Failure {
            stage: Stage::Namespace,
            errno,
        }
    })
}

fn surround(user_namespace: bool) -> Result<(), (NamespaceStep, Errno)> {
    unshare(NamespaceKind::Mount).map_err(|errno| (NamespaceStep::MountNamespace, errno))?;
    receive_mounts_only(c"/").map_err(|errno| (NamespaceStep::Propagation, errno))?;
    mount_proc(c"/proc").map_err(|errno| (NamespaceStep::Proc, errno))?;
    if user_namespace {
        // Whatever was to be done with them is done, and what follows is done as outside.
        empty_bounding_set()
            .and_then(|()| capset(Capabilities::default()))
            .map_err(|errno| (NamespaceStep::Capabilities, errno))?;
    }
    Ok(())
}

fn refused(step: NamespaceStep, errno: Errno) -> LaunchFailure {
    let subject: Vec<u8> = step.name().into();
    LaunchFailure {
        stage: Stage::Namespace,
        errno: errno.raw(),
        subject: subject.into(),
    }
}

impl Namespace {
    /// A namespace of which the init prepares itself, with the helper's end of its lifeline.
    #[must_use]
    pub const fn new(init: Pid, pidfd: Option<OwnedFd>, lifeline: OwnedFd, inode: u64) -> Self {
        Self {
            init,
            pidfd,
            lifeline,
            inode,
            user_namespace: false,
            stage: Readiness::Preparing,
            dismissed: false,
        }
    }

    /// Whether it belongs to a user namespace of its own.
    pub(crate) const fn user_namespace(&self) -> bool {
        self.user_namespace
    }

    /// The init, who is never among the tree.
    pub(crate) const fn init(&self) -> Pid {
        self.init
    }

    /// Gives up what came with the user namespace, once nothing more is made in it.
    ///
    /// # Errors
    /// As in capset(2).
    pub(crate) fn settle<S: System>(&self) -> Result<(), LaunchFailure> {
        match self.user_namespace {
            true => {
                S::drop_capabilities().map_err(|errno| refused(NamespaceStep::Capabilities, errno))
            }
            false => Ok(()),
        }
    }

    /// The helper's end of the lifeline, while something is to be heard there.
    pub(crate) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        (self.stage == Readiness::Preparing).then(|| self.lifeline.as_fd())
    }

    /// Hears what the init says of itself.
    pub(crate) fn hear(&mut self) -> Heard {
        if self.stage == Readiness::Preparing {
            self.stage = match init::listen(self.lifeline.as_fd()) {
                Some(Word::Ready { start_ticks }) => Readiness::Ready { start_ticks },
                Some(Word::Failed(errno)) => Readiness::Failed(errno),
                None => return Heard::Nothing,
            };
        }
        match self.stage {
            Readiness::Preparing => Heard::Nothing,
            Readiness::Ready { .. } => Heard::Ready,
            Readiness::Failed(errno) => Heard::Failed(refused(NamespaceStep::Init, errno)),
        }
    }

    /// The namespace as it is recorded, once its init is ready. It says itself when it started: it is no more
    /// dumpable than the helper, and a `/proc` may hide it.
    pub(crate) fn described<S: System>(&self, helper: &Identity) -> Option<PidNamespace> {
        let Readiness::Ready { start_ticks } = self.stage else {
            return None;
        };
        Some(PidNamespace {
            init: Identity {
                pid: self.init.number(),
                start_ticks,
                boot_id: helper.boot_id,
                pidfd_inode: self
                    .pidfd
                    .as_ref()
                    .and_then(|pidfd| S::pidfd_inode(pidfd.as_fd())),
            },
            inode: self.inode,
            user_namespace: self.user_namespace,
        })
    }

    /// Lets the init leave when it has no child any more. To be said once everybody in the namespace
    /// descends from it: then that nobody is left is known to it alone.
    pub(crate) fn dismiss(&mut self) {
        if !core::mem::replace(&mut self.dismissed, true) {
            init::dismiss(self.lifeline.as_fd());
        }
    }

    /// Whether the init was told to leave.
    pub(crate) const fn is_dismissed(&self) -> bool {
        self.dismissed
    }

    /// Ends the init, and the kernel everybody with it: it forbids new processes first, and the init
    /// can be waited for only when all others were. Says whether there was one.
    pub(crate) fn kill<S: System>(&self) -> bool {
        // Our child, which was not waited for or was: a pidfd knows.
        match &self.pidfd {
            Some(pidfd) => S::pidfd_signal(pidfd.as_fd(), Signal::KILL).is_ok(),
            None => S::kill(self.init, Signal::KILL).is_ok(),
        }
    }
}
