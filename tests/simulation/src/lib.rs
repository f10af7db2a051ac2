//! A kernel that is a value, and the whole helper on it.
//!
//! [`check`] runs one helper from its first message to its exit, with everything around it simulated: the tree
//! (fork, exec, exit, sessions, daemons, signals that are ignored, sleeps that no signal ends, other users, stops,
//! tracers, threads without a first one, numbers that are used again), strangers, the supervisor, the child at its gate,
//! an init, and time. A script of bytes decides what happens, also between any two calls of the helper. The same bytes
//! are the same run.
//!
//! ```text
//! system     the calls of the helper (`xioflow_reaper::simulated::System`)
//! world      all there is, and what is checked at each step
//! events     what happens
//! kernel     processes, numbers, signals
//! process    one of them
//! host       the supervisor
//! promises   what must hold of what is said
//! settings   what the host is like, and lies that have to be found
//! script     the bytes
//! ```
//!
//! What is not simulated, and why the line is where it is: `docs/decisions/0045`.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod events;
mod host;
mod kernel;
mod process;
mod promises;
mod script;
mod settings;
mod system;
mod world;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use xioflow_protocol::Identity;
use xioflow_reaper::simulated::{Place, serve};
use xioflow_sys::{
    AsFd, CWD, OpenFlags, SignalSet, SocketKind, duplicate_above, openat, signalfd, socketpair,
};

pub use settings::Lie;

use crate::script::Script;
use crate::system::{Simulated, WORLD};
use crate::world::World;

/// Runs one helper as the script says.
///
/// # Panics
/// Where a promise is broken, or the helper panics: that is the finding.
pub fn check(script: &[u8]) {
    run(script, None);
}

/// A script of a number, the same each time.
#[must_use]
pub fn script_of(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    let len = 20 + usize::from(next()) * 4;
    (0..len).map(|_| next()).collect()
}

/// What [`check`] finds, if anything; with a lie, in a world that lies so.
///
/// Only where panics unwind: where they abort, a finding ends the process.
#[must_use]
pub fn finding(script: &[u8], lie: Option<Lie>) -> Option<String> {
    let panic = catch_unwind(|| run(script, lie)).err()?;
    let told = panic.downcast_ref::<String>().cloned();
    Some(told.unwrap_or_else(|| "a panic without words".to_owned()))
}

fn run(script: &[u8], lie: Option<Lie>) {
    let folder = folder();
    let elsewhere = (lie == Some(Lie::LosesWord)).then(self::folder);
    let holders = elsewhere.as_ref().unwrap_or(&folder).path();
    let (ours, control) = socketpair(SocketKind::Stream).expect("a pair of sockets");
    let signals = signalfd(SignalSet::EMPTY).expect("a descriptor for signals");
    let blank = duplicate_above(signals.as_fd(), 3).expect("a descriptor is copied");
    let number = signals.as_fd().raw();
    let world = World::new(Script::new(script), ours, open(holders), blank, number, lie);
    let pid_max = world.settings.pid_max;
    WORLD.set(Some(world));
    let place = Place {
        control: control.as_fd(),
        signals,
        identity: Identity {
            pid: 2,
            start_ticks: 1,
            boot_id: [7; 16],
            pidfd_inode: Some(1),
        },
        pid_max,
    };
    let served = catch_unwind(AssertUnwindSafe(|| serve::<Simulated>(place, ())));
    let mut world = WORLD.take().expect("a run has a world");
    match served {
        Ok(status) => world.ended(status, folder.path()),
        Err(panic) => world.panicked(panic),
    }
}

/// A folder for the last word, in memory where there is such a place: it is synced.
fn folder() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("xioflow-simulation-");
    let made = builder
        .tempdir_in("/dev/shm")
        .or_else(|_| builder.tempdir());
    made.expect("a folder is made")
}

fn open(folder: &Path) -> xioflow_sys::OwnedFd {
    let path = CString::new(folder.as_os_str().as_bytes()).expect("no NUL in it");
    openat(CWD, &path, OpenFlags::DIRECTORY, 0).expect("the folder opens")
}
