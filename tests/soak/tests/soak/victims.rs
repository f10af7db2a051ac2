//! Who can be killed, each held by its pidfd: a number may belong to somebody else a moment later.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use xioflow_kernel::journal::{Operation, OperationFilter, OperationStatus, OwnerState, Query};

use crate::ground::Ground;

/// A process of this soak.
#[derive(Debug)]
pub(crate) struct Victim(OwnedFd);

impl Victim {
    /// The process with this number, if it is what it is taken for.
    fn open(pid: u32, is_it: impl Fn(u32) -> bool) -> Option<Self> {
        let pidfd = pidfd_open(to_pid(pid)?, PidfdFlags::empty()).ok()?;
        is_it(pid).then_some(Self(pidfd))
    }

    /// Sends a signal; false if it has ended before.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.0, signal).is_ok()
    }
}

/// The arbiter that owns the domain now.
pub(crate) fn arbiter(ground: &Ground<'_>) -> Option<Victim> {
    let pid = match ground.record()?.owner_state() {
        OwnerState::Held { note: Some(note) } => note.owner_pid,
        _ => return None,
    };
    let program = ground.stage.program("xioflow");
    Victim::open(pid, |pid| executes(pid, &program))
}

/// The helpers that hold a tree or wait for one.
pub(crate) fn helpers(ground: &Ground<'_>) -> Vec<Victim> {
    let program = ground.stage.program("xioflow-reaper");
    let pids = numbers(Path::new("/proc"));
    let ours = pids.filter(|pid| executes(*pid, &program));
    let ours = ours.filter_map(|pid| Victim::open(pid, |pid| executes(pid, &program)));
    ours.collect()
}

/// The clients at work.
pub(crate) fn clients(ground: &Ground<'_>) -> Vec<Victim> {
    let program = ground.stage.program("xioflow");
    let pids = ground.clients().into_iter();
    let ours = pids.filter_map(|pid| Victim::open(pid, |pid| executes(pid, &program)));
    ours.collect()
}

/// The commands that the record has as running. Whoever has its number now and is not of this soak is
/// left alone.
pub(crate) fn commands(ground: &Ground<'_>) -> Vec<Victim> {
    let active = OperationFilter {
        status: Some(OperationStatus::Active),
        ..OperationFilter::default()
    };
    let active = ground
        .record()
        .and_then(|record| record.operations(&active).ok());
    let pids = active.into_iter().flatten().filter_map(|it| leader(&it));
    let mark = mark(ground);
    pids.filter_map(|pid| Victim::open(pid, |pid| is_marked(pid, &mark)))
        .collect()
}

/// The recorded number of an operation's command, which leads its session.
pub(crate) fn leader(operation: &Operation) -> Option<u32> {
    let pid = operation.process_identity.as_ref()?["pid"].as_u64()?;
    u32::try_from(pid).ok()
}

/// Everything in the session of this process that belongs to the soak.
pub(crate) fn session(ground: &Ground<'_>, leader: u32) -> Vec<Victim> {
    let mark = mark(ground);
    let is_member = |pid: u32| session_of(pid) == Some(leader) && is_marked(pid, &mark);
    let pids = numbers(Path::new("/proc")).filter(|pid| is_member(*pid));
    pids.filter_map(|pid| Victim::open(pid, is_member))
        .collect()
}

/// What stands in the environment of everything that the stage has caused.
fn mark(ground: &Ground<'_>) -> Vec<u8> {
    let environment = ground.stage.environment();
    let (name, value) = environment.first().expect("a stage has a mark");
    [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat()
}

fn is_marked(pid: u32, mark: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|it| it == mark)
}

fn executes(pid: u32, program: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|it| it == program)
}

fn session_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(3)?.parse().ok()
}

fn numbers(proc: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(proc).expect("it is mounted");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
