//! Who descends from a process, found downwards.
//!
//! The kernel lists the children of each thread (`/proc/<pid>/task/<tid>/children`); where it was
//! built without that file, every process of the system is asked for its parent.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use xioflow_sys::{CWD, Clock, Errno, Pid, group_of, now, statat};

use crate::lists::{Missing, list_children, threads_of};
use crate::path::proc_path;
use crate::scan::scan;
use crate::stat::has_ended;
use crate::{CannotTell, ProcessState, Stat, StatLine, read_stat};

/// How often the children of the root are listed again for orphans that came to it meanwhile.
pub(crate) const ROUNDS_MAX: usize = 8;

/// One descendant, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descendant {
    /// Process id.
    pub pid: u32,
    /// The parent it was seen with.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// What it was doing.
    pub state: ProcessState,
    /// How many threads it had.
    pub threads: u32,
}

/// How descendants were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From each process to its children.
    Children,
    /// By asking every process of the system for its parent.
    Scan,
}

/// A process of which only this is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    /// Process id.
    pub pid: u32,
    /// In whose list of children it was.
    pub parent: u32,
}

/// The descendants of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// All that were found, parents before their children. Zombies are among them.
    pub processes: Vec<Descendant>,
    /// Those that are in a list of children, and that `/proc` does not show (`hidepid`). What is below
    /// them is not known.
    pub hidden: Vec<Hidden>,
    /// How.
    pub way: Way,
    /// Whether every one could be looked into. If not, there may be more.
    pub complete: bool,
}

impl Descendant {
    pub(crate) fn new(stat: &Stat<'_>) -> Self {
        Self {
            pid: stat.pid,
            parent: stat.parent,
            group: stat.group,
            session: stat.session,
            start_ticks: stat.start_ticks,
            state: stat.state,
            threads: stat.threads,
        }
    }

    /// Whether it had ended, whatever was still seen of it.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        has_ended(self.state, self.threads)
    }
}

/// Finds every descendant of `root`.
///
/// A process that changes its parent meanwhile is not lost if `root` is the subreaper of its
/// descendants: its children are listed again until no new ones come up.
///
/// # Errors
/// [`CannotTell`] when `root` itself cannot be looked into. A failed listing is never an empty one.
pub fn descendants(root: u32) -> Result<Listing, CannotTell> {
    descendants_outside(root, &BTreeSet::new())
}

/// Finds every descendant of `root` that is in none of these process groups.
///
/// Their members are passed through without a closer look, which makes it several times quicker
/// where most of a tree is in them.
///
/// # Errors
/// As [`descendants`].
pub fn descendants_outside(root: u32, groups: &BTreeSet<u32>) -> Result<Listing, CannotTell> {
    descendants_adopted(root, None, groups, None)
}

/// The same where one of the descendants, with a single thread, adopts as well: the init of a PID
/// namespace adopts whoever loses its parent in there.
///
/// At the time `until` (of `CLOCK_MONOTONIC`), if there is one, it stops where it is, and the listing is not
/// complete: a tree that forks and ends without pause can be followed for ever.
///
/// # Errors
/// As [`descendants`].
pub fn descendants_adopted(
    root: u32,
    adopter: Option<u32>,
    groups: &BTreeSet<u32>,
    until: Option<Duration>,
) -> Result<Listing, CannotTell> {
    let mut walk = Walk::new(root, adopter, groups, until);
    let threads = threads_of(root)?;
    for _ in 0..ROUNDS_MAX {
        let (found, before) = (walk.found.len(), walk.to_visit.len());
        for &thread in &threads {
            match walk.visit(root, thread) {
                Ok(()) => {}
                Err(Missing::File) => return scan_outside(root, adopter, groups),
                Err(Missing::Answer(reason)) => return Err(reason),
            }
        }
        walk.visit_adopter();
        walk.descend(before);
        if walk.is_over() || (walk.to_visit.len() == before && walk.found.len() == found) {
            break;
        }
    }
    if walk.hidden.iter().any(|it| Some(it.pid) == adopter) {
        // Its children are shown, and no list of them.
        let by_scan = scan_outside(root, adopter, groups)?;
        return Ok(Listing {
            hidden: walk.hidden,
            complete: false,
            ..by_scan
        });
    }
    Ok(Listing {
        processes: walk.found,
        hidden: walk.hidden,
        way: Way::Children,
        complete: walk.complete,
    })
}

fn scan_outside(
    root: u32,
    adopter: Option<u32>,
    groups: &BTreeSet<u32>,
) -> Result<Listing, CannotTell> {
    let mut all = scan(root, adopter)?;
    all.processes.retain(|found| !groups.contains(&found.group));
    Ok(all)
}

/// The children of `parent`, a process with a single thread, by number. Zombies are among them.
///
/// # Errors
/// [`CannotTell`] when they cannot be listed, or somebody may be missing in the list.
pub fn children(parent: u32) -> Result<Vec<u32>, CannotTell> {
    match list_children(parent, parent) {
        Ok(children) => Ok(children),
        Err(Missing::File) => match scan(parent, None)? {
            Listing {
                complete: false, ..
            } => Err(CannotTell::Unreadable {
                path: proc_path!("/proc/{parent}/task/{parent}/children"),
                errno: Errno::ENOENT,
            }),
            all => Ok(all
                .processes
                .iter()
                .filter(|p| p.parent == parent)
                .map(|p| p.pid)
                .collect()),
        },
        Err(Missing::Answer(reason)) => Err(reason),
    }
}

struct Walk<'a> {
    root: u32,
    /// Whoever adopts beside the root.
    adopter: Option<u32>,
    /// Groups whose members are of no interest but for their children.
    groups: &'a BTreeSet<u32>,
    seen: BTreeSet<u32>,
    found: Vec<Descendant>,
    hidden: Vec<Hidden>,
    /// Everyone whose children may be descendants, in the order in which they are visited.
    to_visit: Vec<Met>,
    complete: bool,
    until: Option<Duration>,
}

/// A process on the way, and what shows later that its number still means it.
#[derive(Debug, Clone, Copy)]
struct Met {
    pid: u32,
    /// When it started; `None` for a member of one of the groups.
    start_ticks: Option<u64>,
    /// Whether it has one thread only, and so one list of children.
    single: bool,
}

impl<'a> Walk<'a> {
    fn new(
        root: u32,
        adopter: Option<u32>,
        groups: &'a BTreeSet<u32>,
        until: Option<Duration>,
    ) -> Self {
        Self {
            root,
            adopter,
            groups,
            seen: BTreeSet::from([root]),
            found: Vec::new(),
            hidden: Vec::new(),
            to_visit: Vec::new(),
            complete: true,
            until,
        }
    }

    /// Whether its time is over; then somebody may be missing.
    fn is_over(&mut self) -> bool {
        let is_over = self
            .until
            .is_some_and(|until| now(Clock::Monotonic) >= until);
        self.complete &= !is_over;
        is_over
    }

    /// Adds the children of one thread.
    fn visit(&mut self, parent: u32, thread: u32) -> Result<(), Missing> {
        for pid in list_children(parent, thread)? {
            if self.is_over() {
                break;
            }
            if !self.seen.contains(&pid) {
                self.meet(parent, pid);
            }
        }
        Ok(())
    }

    fn meet(&mut self, parent: u32, pid: u32) {
        if self.is_member(pid) {
            self.seen.insert(pid);
            self.to_visit.push(Met {
                pid,
                start_ticks: None,
                single: has_single_thread(pid),
            });
            return;
        }
        let mut line = StatLine::new();
        match read_stat(pid, &mut line) {
            // Anyone else with this number is a newcomer from elsewhere: the child is gone.
            Ok(Some(stat)) if stat.parent == parent || self.adopts(stat.parent) => {
                self.add(Descendant::new(&stat));
            }
            Ok(_) => {}
            Err(reason) => {
                self.complete = false;
                if matches!(reason, CannotTell::Hidden { .. }) {
                    self.seen.insert(pid);
                    self.hidden.push(Hidden { pid, parent });
                }
            }
        }
    }

    fn adopts(&self, parent: u32) -> bool {
        parent == self.root || Some(parent) == self.adopter
    }

    /// Adds those whom the second adopter has got since. It is itself among the root's descendants.
    fn visit_adopter(&mut self) {
        if let Some(adopter) = self.adopter.filter(|it| self.seen.contains(it))
            && let Err(Missing::Answer(_) | Missing::File) = self.visit(adopter, adopter)
        {
            self.complete = false;
        }
    }

    fn is_member(&self, pid: u32) -> bool {
        let group = || Pid::new(pid).and_then(group_of);
        !self.groups.is_empty() && group().is_some_and(|it| self.groups.contains(&it.number()))
    }

    fn add(&mut self, found: Descendant) {
        self.seen.insert(found.pid);
        self.found.push(found);
        if !found.has_ended() {
            self.to_visit.push(Met {
                pid: found.pid,
                start_ticks: Some(found.start_ticks),
                single: found.threads == 1,
            });
        }
    }

    /// Visits all that are to be visited from `next` on, and all that are found by that.
    fn descend(&mut self, mut next: usize) {
        while let Some(&met) = self.to_visit.get(next) {
            next += 1;
            let (found, to_visit) = (self.found.len(), self.to_visit.len());
            let visited = match met.single {
                true => self.visit(met.pid, met.pid),
                false => self.visit_threads(met.pid),
            };
            if let Err(Missing::Answer(_)) = visited {
                self.complete = false;
            }
            let has_children = self.to_visit.len() > to_visit || self.found.len() > found;
            if has_children && !self.is_still(met) {
                self.take_back(found, to_visit);
            }
        }
    }

    fn visit_threads(&mut self, pid: u32) -> Result<(), Missing> {
        for thread in threads_of(pid).map_err(Missing::Answer)? {
            self.visit(pid, thread)?;
        }
        Ok(())
    }

    /// Whether the number of one who was visited meant it all the time.
    fn is_still(&self, met: Met) -> bool {
        let mut line = StatLine::new();
        match (read_stat(met.pid, &mut line), met.start_ticks) {
            (Ok(Some(stat)), Some(ticks)) => stat.start_ticks == ticks,
            (Ok(Some(stat)), None) => self.groups.contains(&stat.group),
            (Ok(None) | Err(_), _) => false,
        }
    }

    /// Takes back what was found below a number that has changed hands. Those who were its children
    /// have come to the root, whose list is read again.
    fn take_back(&mut self, found: usize, to_visit: usize) {
        let found = self.found.drain(found..).map(|process| process.pid);
        let visited = self.to_visit.drain(to_visit..).map(|met| met.pid);
        for pid in found.chain(visited) {
            self.seen.remove(&pid);
        }
    }
}

/// Whether a process has exactly one thread; no when that cannot be told.
fn has_single_thread(pid: u32) -> bool {
    // Two links of the folder itself, and one for each thread in it.
    statat(CWD, proc_path!("/proc/{pid}/task").as_c_str()).is_ok_and(|folder| folder.links == 3)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::string::String;

    /// A shell with two sleeping children, one of them below a second shell. It tells their
    /// numbers, and holds until its standard input ends.
    pub(crate) fn family() -> (Child, [u32; 3]) {
        let script = "sleep 60 & echo $!; sh -c 'sleep 60 & echo $$ $!; read x; kill $!' <&3 & \
                      read y; kill %1; wait";
        let mut child = Command::new("/bin/bash")
            .args(["-c", &std::format!("exec 3<&0; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut numbers = Vec::new();
        while numbers.len() < 3 {
            let mut line = String::new();
            assert!(
                output.read_line(&mut line).expect("readable") > 0,
                "shell ended early"
            );
            numbers.extend(
                line.split_whitespace()
                    .map(|word| word.parse::<u32>().expect("pid")),
            );
        }
        (child, [numbers[0], numbers[1], numbers[2]])
    }

    pub(crate) fn end(child: Child, numbers: [u32; 3]) {
        let mut child = child;
        for pid in numbers {
            let pid = xioflow_sys::Pid::new(pid).expect("a child");
            xioflow_sys::kill(pid, xioflow_sys::Signal::KILL).expect("ours");
        }
        child.kill().expect("killed");
        child.wait().expect("waited for");
    }

    pub(crate) fn pids(listing: &Listing) -> BTreeSet<u32> {
        listing
            .processes
            .iter()
            .map(|process| process.pid)
            .collect()
    }

    #[test]
    fn both_ways_find_the_same_family() {
        let (child, numbers) = family();
        let walked = descendants(child.id()).expect("listed");
        let scanned = scan(child.id(), None).expect("listed");
        assert_eq!(walked.way, Way::Children);
        assert_eq!(scanned.way, Way::Scan);
        assert!(walked.complete);
        assert_eq!(pids(&walked), BTreeSet::from(numbers));
        assert_eq!(pids(&scanned), BTreeSet::from(numbers));
        assert_eq!(children(child.id()).expect("listed").len(), 2);
        end(child, numbers);
    }

    #[test]
    fn a_look_whose_time_is_over_says_that_somebody_may_be_missing() {
        let (child, numbers) = family();
        let none = BTreeSet::new();
        let look = |until| descendants_adopted(child.id(), None, &none, Some(until));
        let cut_short = look(now(Clock::Monotonic)).expect("listed");
        assert!(!cut_short.complete && cut_short.processes.is_empty());
        let whole = look(now(Clock::Monotonic) + Duration::from_secs(60)).expect("listed");
        assert!(whole.complete);
        assert_eq!(pids(&whole), BTreeSet::from(numbers));
        end(child, numbers);
    }

    #[test]
    fn members_of_a_group_are_passed_through_to_who_is_below_them() {
        // With job control the shell leads one group, and its background job another.
        let mut shell = Command::new("/bin/bash")
            .args(["-c", "set -m; sleep 60 & echo $!; read x; kill %1"])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("readable");
        let job: u32 = line.trim().parse().expect("a pid");
        for (groups, expected) in [
            (BTreeSet::new(), [true, true]),
            (BTreeSet::from([shell.id()]), [false, true]),
            (BTreeSet::from([shell.id(), job]), [false, false]),
        ] {
            let found = pids(&descendants_outside(std::process::id(), &groups).expect("listed"));
            let seen = [shell.id(), job].map(|pid| found.contains(&pid));
            assert_eq!(seen, expected, "outside {groups:?}");
        }
        assert!(has_single_thread(job), "sleep has one thread");
        drop(shell.stdin.take());
        shell.wait().expect("waited for");
    }

    #[test]
    fn several_threads_are_not_taken_for_one() {
        let (waits, held) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || held.recv());
        assert!(!has_single_thread(std::process::id()));
        assert!(!has_single_thread(4_194_305), "nobody has none");
        drop(waits);
        other
            .join()
            .expect("no panic")
            .expect_err("nothing was sent");
    }

    #[test]
    fn what_is_below_a_number_that_changed_hands_is_taken_back() {
        let (child, numbers) = family();
        let groups = BTreeSet::new();
        let mut walk = Walk::new(std::process::id(), None, &groups, None);
        let mut line = StatLine::new();
        let stat = read_stat(child.id(), &mut line)
            .expect("readable")
            .expect("alive");
        let met = |start_ticks| Met {
            pid: child.id(),
            start_ticks: Some(start_ticks),
            single: true,
        };
        walk.to_visit.push(met(stat.start_ticks));
        walk.descend(0);
        assert_eq!(walk.found.len(), numbers.len());
        // The same number, recorded with another start: somebody else had it when it was met.
        let mut walk = Walk::new(std::process::id(), None, &groups, None);
        walk.to_visit.push(met(stat.start_ticks - 1));
        walk.descend(0);
        assert!(walk.found.is_empty() && walk.seen.len() == 1);
        end(child, numbers);
    }

    #[test]
    fn a_process_that_is_gone_has_no_descendants() {
        let listing = descendants(4_194_305).expect("a clear answer");
        assert!(listing.processes.is_empty());
    }
}
