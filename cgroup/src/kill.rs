//! Ends all processes of a group: one write, or on old kernels a frozen group and a signal each.
//!
//! Neighbour: `leaf`. Who waits for the end does that apart: the kernel accepts the order at once.

use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::directory::Directory;
use crate::error::GroupError;
use crate::nested;
use crate::state::GroupState;
use crate::wait;

/// How often a group without `cgroup.kill` is gone through. Frozen processes fork nothing, so the
/// second round meets only who was not frozen yet in the first.
const ROUNDS_MAX: u32 = 16;

/// How long each round waits for the group to freeze, and for the killed to be gone.
const ROUND: Duration = Duration::from_millis(500);

const GONE: GroupState = GroupState {
    populated: false,
    frozen: Some(true),
};

/// Orders the end of every process in the group and below it. A group that is gone has none.
pub(crate) fn kill(group: &Directory) -> Result<(), GroupError> {
    match group.write("cgroup.kill", "1") {
        Ok(()) => Ok(()),
        Err(error) if !error.is_absence() => Err(error),
        Err(_) if wait::state_now(group)?.is_none() => Ok(()),
        Err(_) => kill_frozen(group),
    }
}

/// Before Linux 5.14: freezes the group, so that nobody forks away from under the signals, and
/// thaws it at the end for whoever is left.
fn kill_frozen(group: &Directory) -> Result<(), GroupError> {
    let result = kill_in_rounds(group);
    let thawed = group.write("cgroup.freeze", "0");
    match thawed {
        Err(error) if !error.is_absence() => result.and(Err(error)),
        _ => result,
    }
}

fn kill_in_rounds(group: &Directory) -> Result<(), GroupError> {
    for _ in 0..ROUNDS_MAX {
        group.write("cgroup.freeze", "1")?;
        wait::wait_for(group, ROUND, GONE, |state| state.frozen == Some(true))?;
        signal_each(group)?;
        if wait::wait_for(group, ROUND, GONE, |state| !state.populated)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Signals who was in the group before and after its descriptor was opened: a number that was
/// given to another process meanwhile is not in the group.
fn signal_each(group: &Directory) -> Result<(), GroupError> {
    let opened = nested::processes(group)?.into_iter().filter_map(|number| {
        let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some((number, pidfd))
    });
    let opened: Vec<_> = opened.collect();
    let still = nested::processes(group)?;
    for (number, pidfd) in opened {
        if still.binary_search(&number).is_ok() {
            // One that is not ours to signal, or has ended, is seen by whoever waits for the end.
            rustix::process::pidfd_send_signal(pidfd, Signal::KILL).ok();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::support::{Inmate, LONG, Place};

    #[test]
    fn without_the_kill_file_everybody_is_frozen_and_signalled() {
        let Some(place) = Place::new() else { return };
        let leaf = place.leaf();
        let group = Directory::open(&leaf.place().directory).expect("it is there");
        let nested = group.path().join("nested");
        fs::create_dir(&nested).expect("a group in a leaf");
        // One that forks all the time, one that stands still, one that is further down.
        let forker = "while :; do sleep 1000 & sleep 0.01; done";
        let inmates = [
            Inmate::run(group.path(), forker),
            Inmate::idle(group.path()),
            Inmate::idle(&nested),
        ];
        kill_frozen(&group).expect("all are ended");
        assert!(leaf.wait_empty(LONG).expect("its state"));
        for mut inmate in inmates {
            assert!(!inmate.wait());
        }
        let frozen = fs::read_to_string(group.path().join("cgroup.freeze")).expect("its state");
        assert_eq!(frozen, "0\n", "it is thawed at the end");
    }

    #[test]
    fn who_has_left_the_group_is_not_signalled() {
        let Some(place) = Place::new() else { return };
        let leaf = place.leaf();
        let group = Directory::open(&leaf.place().directory).expect("it is there");
        let mut inmate = Inmate::idle(group.path());
        let outside = place.directory().join("outside");
        fs::create_dir(&outside).expect("a group");
        fs::write(outside.join("cgroup.procs"), inmate.pid().to_string()).expect("it moves");
        kill_frozen(&group).expect("nobody is in it");
        assert!(inmate.is_alive());
    }
}
