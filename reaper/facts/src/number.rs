//! The children of this process without `/proc`: the last resort where that hides them, or cannot be read.
//!
//! waitid(2) says of any number whether it is a child of the caller's. Asked for every number that there can be, it
//! finds them all, by one quick call each, and needs neither a file nor a descriptor. There can be four million: a
//! second and more. Those that were given since some process began are few, unless they have gone round since.

use alloc::vec::Vec;
use core::time::Duration;
use core::{iter, str};

use xioflow_sys::{Pid, peek};

use crate::path::proc_path;
use crate::read::{read_short, read_whole};

/// No process has this number or a higher one (`PID_MAX_LIMIT` of the kernel, 64 bits).
pub const PID_MAX_LIMIT: u32 = 4_194_304;

/// The least time in which a number is given, with a margin of several times: a fork takes dozens of these, and those
/// of all processors wait for each other there.
const MICROS_PER_NUMBER: u128 = 1;

/// Which numbers are asked about: up to a last one, and where that is below the first, round by way of the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    first: u32,
    last: u32,
    pid_max: u32,
}

impl Numbers {
    /// Every number below `pid_max`.
    #[must_use]
    pub const fn all(pid_max: u32) -> Self {
        Self {
            first: 0,
            last: pid_max.saturating_sub(1),
            pid_max,
        }
    }

    /// Those that were given from `first` to `last`. Who began after `first` has one of these, unless numbers went
    /// all the way round meanwhile: see [`may_have_gone_round`].
    #[must_use]
    pub const fn given(first: u32, last: u32, pid_max: u32) -> Self {
        Self {
            first,
            last,
            pid_max,
        }
    }

    fn each(self) -> impl Iterator<Item = u32> {
        let (to_last, from_lowest) = match self.first <= self.last {
            true => (self.last, None),
            false => (self.pid_max.saturating_sub(1), Some(0..=self.last)),
        };
        iter::once(self.first..=to_last)
            .chain(from_lowest)
            .flatten()
    }

    /// Whether a number is among them.
    #[must_use]
    pub fn contains(self, number: u32) -> bool {
        match self.first <= self.last {
            true => (self.first..=self.last).contains(&number),
            false => number <= self.last || (self.first..self.pid_max).contains(&number),
        }
    }
}

/// Whether all numbers below `pid_max` can have been given in that time, so that later ones are not known by theirs.
#[must_use]
pub const fn may_have_gone_round(pid_max: u32, time: Duration) -> bool {
    time.as_micros() / MICROS_PER_NUMBER >= pid_max as u128
}

/// The number that was given last in this pid namespace, the fifth word of `/proc/loadavg` (proc_loadavg(5));
/// `None` when that cannot be told.
#[must_use]
pub fn last_pid() -> Option<u32> {
    let mut text = Vec::new();
    read_whole(&proc_path!("/proc/loadavg"), &mut text).ok()?;
    let words = str::from_utf8(&text).ok()?;
    words.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// The number that no process of this pid namespace has or exceeds, `/proc/sys/kernel/pid_max`; the highest
/// that there can be where that cannot be read.
///
/// It can be raised later. Whoever asks early and keeps the answer asks fewer numbers for children, and finds none
/// above it.
#[must_use]
pub fn pid_max() -> u32 {
    let mut text = [0; 16];
    read_short(&proc_path!("/proc/sys/kernel/pid_max"), &mut text)
        .ok()
        .and_then(|text| str::from_utf8(text).ok()?.trim().parse().ok())
        .unwrap_or(PID_MAX_LIMIT)
}

/// The children of this process with one of these numbers, zombies among them.
#[must_use]
pub fn children_by_number(numbers: Numbers) -> Vec<u32> {
    // Any error is a no: of nobody else may it be said that it is ours.
    let is_ours = |pid: &Pid| peek(*pid).is_ok();
    let numbers = numbers.each().filter_map(Pid::new);
    numbers.filter(is_ours).map(Pid::number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_are_found_without_proc_and_nobody_else_is() {
        let sleeper = || {
            let mut sleep = Command::new("sleep");
            sleep
                .arg("60")
                .stdin(Stdio::null())
                .spawn()
                .expect("sleep runs")
        };
        let mut children = [sleeper(), sleeper()];
        children[0].kill().expect("killed");
        let found = children_by_number(Numbers::all(pid_max()));
        assert!(
            children.iter().all(|child| found.contains(&child.id())),
            "{found:?}"
        );
        // Tests beside this one have children as well; nobody else's are among them.
        let not_ours = [1, std::process::id(), std::os::unix::process::parent_id()];
        assert!(not_ours.iter().all(|pid| !found.contains(pid)), "{found:?}");
        let highest = children
            .iter()
            .map(std::process::Child::id)
            .max()
            .expect("two");
        let below = children_by_number(Numbers::all(highest));
        assert!(!below.contains(&highest), "the bound is kept");
        // What runs beside this test may give every number away meanwhile, which takes longer.
        let last = last_pid().expect("/proc says it");
        let given = children_by_number(Numbers::given(std::process::id(), last, pid_max()));
        assert!(
            children.iter().all(|child| given.contains(&child.id())),
            "{given:?} up to {last}"
        );
        for child in &mut children {
            child.kill().expect("killed, or not waited for");
            child.wait().expect("waited for");
        }
    }

    #[test]
    fn numbers_go_round_by_way_of_the_highest() {
        for (first, last, expected) in [
            (3, 5, &[3, 4, 5][..]),
            (4, 4, &[4]),
            (7, 1, &[7, 8, 9, 0, 1]),
            // The bound was raised meanwhile.
            (8, 11, &[8, 9, 10, 11]),
        ] {
            let numbers = Numbers::given(first, last, 10);
            assert_eq!(numbers.each().collect::<Vec<_>>(), expected);
            let contained = (0..20).filter(|&number| numbers.contains(number));
            let sorted: alloc::collections::BTreeSet<_> = expected.iter().copied().collect();
            assert!(contained.eq(sorted), "{numbers:?}");
        }
        assert!(Numbers::all(10).each().eq(0..10));
    }

    #[test]
    fn numbers_have_gone_round_once_there_was_time_for_all_of_them() {
        for (pid_max, micros, expected) in [
            (300, 299, false),
            (300, 300, true),
            (PID_MAX_LIMIT, 4_000_000, false),
        ] {
            assert_eq!(
                may_have_gone_round(pid_max, Duration::from_micros(micros)),
                expected
            );
        }
    }

    #[test]
    fn the_bound_of_numbers_is_that_of_the_kernel() {
        assert!((300..=PID_MAX_LIMIT).contains(&pid_max()));
        assert!(std::process::id() < pid_max());
    }
}
