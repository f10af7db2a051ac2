//! What limits have done: the counters of `memory.events` and `pids.events`, and whose limit it was.
//!
//! Judging is pure. Neighbours: `leaf` asks, `events` says when the files change.

use crate::directory::Directory;
use crate::error::GroupError;
use crate::flat;
use crate::mountinfo::MountOptions;
use crate::nested;

/// How often the limits of a leaf, or limits below or above it, came into play.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// `memory.events`: of the leaf and the groups below it.
    pub memory: MemoryCounters,
    /// `memory.events.local`: of the leaf alone.
    pub memory_own: MemoryCounters,
    /// `pids.events`.
    pub pids: PidsCounters,
}

/// Each is null where the kernel has no such counter, or no memory controller for the group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryCounters {
    /// Slowed down and reclaimed because of `memory.high`.
    pub high: Option<u64>,
    /// Reclaimed because of `memory.max`.
    pub max: Option<u64>,
    /// The limit was reached and reclaim did not help. Counted where the limit is.
    pub oom: Option<u64>,
    /// Processes killed for want of memory, whoever's limit it was. Counted where they were.
    pub oom_kill: Option<u64>,
    /// The group was killed as a whole.
    pub oom_group_kill: Option<u64>,
}

/// Forks that were refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PidsCounters {
    /// Refused in the leaf or below it. Before Linux 6.11, and with the mount option
    /// `pids_localevents`, this counts every refused fork, also for a limit above the leaf; groups
    /// that the command has removed are not in it then.
    pub max: Option<u64>,
    /// Refused because of the leaf's own limit (`pids.events.local`); null where the kernel does not
    /// tell that apart.
    pub own_max: Option<u64>,
}

/// Where the limit was whose excess killed a process of the leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfMemory {
    /// The leaf's own.
    Own,
    /// That of a group which the command made inside the leaf.
    Nested,
    /// One above the leaf: the domain's, the user's, or the machine's memory.
    Above,
    /// The kernel does not tell (before Linux 5.2).
    Untold,
}

impl MemoryCounters {
    pub(crate) fn parse(text: &str) -> Self {
        Self {
            high: flat::number(text, "high"),
            max: flat::number(text, "max"),
            oom: flat::number(text, "oom"),
            oom_kill: flat::number(text, "oom_kill"),
            oom_group_kill: flat::number(text, "oom_group_kill"),
        }
    }
}

impl Counters {
    pub(crate) fn observe(leaf: &Directory, options: MountOptions) -> Result<Self, GroupError> {
        let memory = |file: &str| {
            let text = leaf.read_if_there(file)?;
            Ok::<_, GroupError>(
                text.map(|text| MemoryCounters::parse(&text))
                    .unwrap_or_default(),
            )
        };
        Ok(Self {
            memory: memory("memory.events")?,
            memory_own: memory("memory.events.local")?,
            pids: PidsCounters::observe(leaf, options)?,
        })
    }

    /// Whether a process of the leaf was killed for want of memory, and whose limit it was.
    /// Null when none was, or when nobody counted.
    ///
    /// A kill is counted where the process was, an excess where the limit is: a kill without an
    /// excess in the leaf or below it comes from above.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<OutOfMemory> {
        // With the mount option `memory_localevents` kills below the leaf are not counted in it, but
        // that of the whole group is.
        let kills = [self.memory.oom_kill, self.memory.oom_group_kill];
        if kills.iter().all(|count| count.unwrap_or(0) == 0) {
            return None;
        }
        let verdict = match (self.memory_own.oom, self.memory.oom) {
            (Some(1..), _) => OutOfMemory::Own,
            (_, Some(0)) => OutOfMemory::Above,
            (Some(0), Some(_)) => OutOfMemory::Nested,
            (_, _) => OutOfMemory::Untold,
        };
        Some(verdict)
    }
}

impl PidsCounters {
    fn observe(leaf: &Directory, options: MountOptions) -> Result<Self, GroupError> {
        let own_max = max(leaf, "pids.events.local")?.filter(|_| !options.pids_localevents);
        let mut counted = max(leaf, "pids.events")?;
        if own_max.is_none() && counted.is_some() {
            let mut sum = 0;
            nested::visit(leaf, |group| {
                sum += max(group, "pids.events")?.unwrap_or(0);
                Ok(())
            })?;
            counted = Some(sum);
        }
        Ok(Self {
            max: counted,
            own_max,
        })
    }

    /// Whether the leaf's own `pids.max` refused a fork; null when that cannot be told.
    ///
    /// `peak` is [`pids.peak`](crate::Usage::pids_peak): a limit that was never reached refused
    /// nothing.
    #[must_use]
    pub fn own_limit_hit(&self, limit: u64, peak: Option<u64>) -> Option<bool> {
        match (self.own_max, self.max?, peak) {
            (Some(own), _, _) => Some(own > 0),
            (None, 0, _) => Some(false),
            (None, _, Some(peak)) => Some(peak >= limit),
            (None, _, None) => None,
        }
    }
}

fn max(group: &Directory, file: &str) -> Result<Option<u64>, GroupError> {
    let text = group.read_if_there(file)?;
    Ok(text.and_then(|text| flat::number(&text, "max")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn counted(own: &str, all: &str) -> Counters {
        Counters {
            memory: MemoryCounters::parse(all),
            memory_own: MemoryCounters::parse(own),
            pids: PidsCounters::default(),
        }
    }

    #[test]
    fn all_counters_are_read() {
        let text = "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n";
        let expected = MemoryCounters {
            high: Some(2),
            max: Some(3),
            oom: Some(4),
            oom_kill: Some(5),
            oom_group_kill: Some(6),
        };
        assert_eq!(MemoryCounters::parse(text), expected);
        let old = MemoryCounters::parse("oom 0\noom_kill 1\n");
        assert_eq!(old.oom_group_kill, None);
    }

    #[test]
    fn a_kill_is_told_apart_by_whose_limit_it_was() {
        let verdict = |own: &str, all: &str| counted(own, all).out_of_memory();
        assert_eq!(
            verdict("oom 1\noom_kill 1\n", "oom 1\noom_kill 1\n"),
            Some(OutOfMemory::Own)
        );
        assert_eq!(
            verdict("oom 2\noom_kill 0\n", "oom 2\noom_kill 9\n"),
            Some(OutOfMemory::Own)
        );
        assert_eq!(
            verdict("oom 0\noom_kill 0\n", "oom 1\noom_kill 1\n"),
            Some(OutOfMemory::Nested)
        );
        assert_eq!(
            verdict("oom 0\noom_kill 1\n", "oom 0\noom_kill 1\n"),
            Some(OutOfMemory::Above)
        );
        assert_eq!(
            verdict("", "oom 1\noom_kill 1\n"),
            Some(OutOfMemory::Untold)
        );
    }

    #[test]
    fn a_limit_that_killed_nobody_is_no_kill() {
        assert_eq!(
            counted("oom 3\n", "oom 3\noom_kill 0\n").out_of_memory(),
            None
        );
        assert_eq!(counted("", "").out_of_memory(), None);
    }

    #[test]
    fn a_refused_fork_is_ours_when_the_kernel_or_the_peak_says_so() {
        let counted = |max, own_max| PidsCounters { max, own_max };
        assert_eq!(
            counted(Some(3), Some(3)).own_limit_hit(16, None),
            Some(true)
        );
        assert_eq!(
            counted(Some(3), Some(0)).own_limit_hit(16, None),
            Some(false)
        );
        assert_eq!(counted(Some(0), None).own_limit_hit(16, None), Some(false));
        assert_eq!(
            counted(Some(3), None).own_limit_hit(16, Some(16)),
            Some(true)
        );
        assert_eq!(
            counted(Some(3), None).own_limit_hit(16, Some(4)),
            Some(false)
        );
        assert_eq!(counted(Some(3), None).own_limit_hit(16, None), None);
        assert_eq!(counted(None, None).own_limit_hit(16, Some(16)), None);
    }

    /// A leaf with a group in it, and the number of refused forks in the files of each.
    fn fake(files: &[(&str, u64)]) -> (tempfile::TempDir, Directory) {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("nested")).expect("a fake group");
        for (file, count) in files {
            fs::write(dir.path().join(file), format!("max {count}\n")).expect("a fake file");
        }
        let leaf = Directory::open_plain(dir.path()).expect("a fake leaf");
        (dir, leaf)
    }

    #[test]
    fn an_old_kernel_counts_in_each_group_and_all_are_added() {
        let (_dir, leaf) = fake(&[("pids.events", 1), ("nested/pids.events", 4)]);
        let counters = Counters::observe(&leaf, MountOptions::default()).expect("counters");
        assert_eq!((counters.pids.max, counters.pids.own_max), (Some(5), None));
    }

    #[test]
    fn a_new_kernel_adds_by_itself() {
        let files = [
            ("pids.events", 5),
            ("nested/pids.events", 4),
            ("pids.events.local", 1),
        ];
        let (_dir, leaf) = fake(&files);
        let counters = Counters::observe(&leaf, MountOptions::default()).expect("counters");
        assert_eq!(
            (counters.pids.max, counters.pids.own_max),
            (Some(5), Some(1))
        );

        let as_before = MountOptions {
            pids_localevents: true,
            ..MountOptions::default()
        };
        let counters = Counters::observe(&leaf, as_before).expect("counters");
        assert_eq!((counters.pids.max, counters.pids.own_max), (Some(9), None));
    }

    #[test]
    fn without_the_controllers_nothing_is_counted() {
        let (_dir, leaf) = fake(&[]);
        let counters = Counters::observe(&leaf, MountOptions::default()).expect("counters");
        assert_eq!(counters, Counters::default());
    }
}
