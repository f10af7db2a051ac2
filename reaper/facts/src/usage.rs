//! What the tree of a process uses: memory, processes, processor time. For whoever has no control group that counts
//! it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::str;
use core::time::Duration;

use crate::CannotTell;
use crate::path::proc_path;
use crate::read::{is_gone, read_short, read_whole};
use crate::tree::descendants_adopted;

/// Clock ticks in a second as `/proc` counts them (`USER_HZ`); 100 on every architecture we know.
const TICK: Duration = Duration::from_millis(10);

/// Room for the line of one process; the kernel's are at most about 400 bytes long.
const LINE_MAX: usize = 1024;

/// What the descendants of a process use at one moment, as far as they were seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Threads of those that have not ended, which is what limits of processes count.
    pub tasks: u32,
    /// Pages that they have in memory. What several share is counted for each of them.
    pub resident_pages: u64,
    /// Processor time of those that live and of those that were waited for, the latter also where they were waited
    /// for by the root. In steps of 10 ms.
    pub processor_time: Duration,
    /// Those that were seen.
    pub pids: Vec<u32>,
    /// Whether everybody was seen. If not, there may be more of everything.
    pub complete: bool,
}

/// Sums up what the descendants of `root` use. One of them, `adopter`, may adopt others as well, and is not one of
/// those that count.
///
/// At the time `until` (of `CLOCK_MONOTONIC`) it stops where it is, and the answer is not complete.
///
/// # Errors
/// [`CannotTell`] when `root` cannot be looked into.
pub fn tree_usage(
    root: u32,
    adopter: Option<u32>,
    until: Duration,
) -> Result<TreeUsage, CannotTell> {
    let none = BTreeSet::new();
    let listing = descendants_adopted(root, adopter, &none, Some(until))?;
    let mut usage = TreeUsage {
        complete: listing.complete && listing.hidden.is_empty(),
        processor_time: of_process(root)?.map_or(Duration::ZERO, |root| root.waited_for),
        ..TreeUsage::default()
    };
    for process in listing.processes {
        if Some(process.pid) == adopter {
            // Whom it has waited for was of the tree.
            let its = of_process(process.pid).ok().flatten();
            usage.processor_time += its.map_or(Duration::ZERO, |its| its.waited_for);
            continue;
        }
        match of_process(process.pid) {
            Ok(Some(its)) => {
                if !process.has_ended() {
                    usage.tasks = usage.tasks.saturating_add(its.threads);
                    usage.pids.push(process.pid);
                }
                usage.resident_pages = usage.resident_pages.saturating_add(its.resident_pages);
                usage.processor_time += its.own + its.waited_for;
            }
            Ok(None) => {}
            Err(_) => usage.complete = false,
        }
    }
    Ok(usage)
}

/// Memory of one process where each page that it shares counts in parts, in bytes: its proportional set size;
/// `None` when there is no such process any more.
///
/// The kernel walks all of its page tables for that.
///
/// # Errors
/// [`CannotTell`] where it may not be looked into so closely.
pub fn proportional_bytes(pid: u32) -> Result<Option<u64>, CannotTell> {
    let path = proc_path!("/proc/{pid}/smaps_rollup");
    let mut text = Vec::new();
    match read_whole(&path, &mut text) {
        Ok(()) => parse_proportional(&text)
            .map(Some)
            .ok_or(CannotTell::Malformed { path }),
        Err(errno) if is_gone(errno) => Ok(None),
        Err(errno) => Err(CannotTell::Unreadable { path, errno }),
    }
}

/// `Pss:   123 kB`; a process without memory of its own (one that is about to end) has no such line.
fn parse_proportional(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let value = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Pss:"))?;
    let number = str::from_utf8(value)
        .ok()?
        .split_ascii_whitespace()
        .next()?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// What one process uses.
#[derive(Debug, PartialEq, Eq)]
struct Of {
    own: Duration,
    waited_for: Duration,
    threads: u32,
    resident_pages: u64,
}

fn of_process(pid: u32) -> Result<Option<Of>, CannotTell> {
    let path = proc_path!("/proc/{pid}/stat");
    let mut line = [0; LINE_MAX];
    match read_short(&path, &mut line) {
        Ok(line) => parse(line).map(Some).ok_or(CannotTell::Malformed { path }),
        Err(errno) if is_gone(errno) => Ok(None),
        Err(errno) => Err(CannotTell::Unreadable { path, errno }),
    }
}

/// Fields 14 to 17, 20 and 24 of the line, see proc_pid_stat(5).
fn parse(line: &[u8]) -> Option<Of> {
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(line.get(close + 1..)?).ok()?;
    // Field 3 is the first of them.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks = |first: usize| {
        let both = number(first)?.saturating_add(number(first + 1)?);
        Some(TICK.saturating_mul(u32::try_from(both).unwrap_or(u32::MAX)))
    };
    Some(Of {
        own: ticks(14)?,
        waited_for: ticks(16)?,
        threads: u32::try_from(number(20)?).ok()?,
        resident_pages: number(24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};
    use std::vec;

    use xioflow_sys::{Clock, now};

    #[test]
    fn the_fields_are_where_proc_says() {
        let line = b"7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 30 20 20 0 3 0 99 100 200\n";
        assert_eq!(
            parse(line),
            Some(Of {
                own: Duration::from_secs(2),
                waited_for: Duration::from_millis(500),
                threads: 3,
                resident_pages: 200,
            })
        );
        for none in [&b""[..], b"7 (a) S 1 7", b"7 (a S 1 7 7 0"] {
            assert_eq!(parse(none), None);
        }
    }

    #[test]
    fn shared_pages_count_in_parts() {
        let text = b"55d0-7ffc ---p 00000000 00:00 0    [rollup]\nRss:   2000 kB\nPss:   700 kB\n";
        assert_eq!(parse_proportional(text), Some(700 * 1024));
        assert_eq!(parse_proportional(b""), Some(0));
        assert_eq!(parse_proportional(b"Rss: 7 kB\n"), None);
    }

    /// A shell that has a child, has waited for one that used some processor time, and ends with its input.
    fn busy() -> Child {
        let script = "sleep 600 & (j=0; while [ $j -lt 60000 ]; do j=$((j+1)); done); \
                      echo; read end; kill $!";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        shell.stdout.take().unwrap().read_exact(&mut said).unwrap();
        shell
    }

    #[test]
    fn a_tree_is_summed_up_with_those_that_were_waited_for() {
        let mut shell = busy();
        let until = now(Clock::Monotonic) + Duration::from_secs(60);
        let below = tree_usage(shell.id(), None, until).unwrap();
        assert!(below.complete);
        assert_eq!((below.tasks, below.pids.len()), (1, 1), "{below:?}");
        assert!(below.resident_pages > 0);
        // What it has waited for, not what it has used itself.
        assert!(below.processor_time > Duration::ZERO, "{below:?}");
        let alone = tree_usage(shell.id(), Some(below.pids[0]), until).unwrap();
        assert_eq!((alone.tasks, alone.pids), (0, vec![]));
        let part = proportional_bytes(shell.id()).unwrap().unwrap();
        assert!(part > 0);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(proportional_bytes(shell.id()).unwrap(), None);
    }

    #[test]
    fn a_look_that_is_over_is_not_complete() {
        let here = tree_usage(std::process::id(), None, Duration::ZERO).unwrap();
        assert!(!here.complete);
    }
}
