//! A control group as a second witness: whoever is in it descends from whom was put there, whatever its parents,
//! sessions, groups and environment say. Nothing of the project looks at it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use xioflow_kit::{Deadline, wait};

/// A leaf of the version 2 hierarchy, without any controller.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
}

impl Leaf {
    /// A new one, where this user may make one: root, where the hierarchy is mounted for writing.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("xioflow-trees-{}-{count}", std::process::id());
        let path = hierarchy()?.join(name);
        fs::create_dir(&path).ok()?;
        Some(Self { path })
    }

    /// Puts a process in it, and with it all that it will ever start.
    pub(crate) fn take(&self, pid: u32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
            .unwrap_or_else(|error| panic!("{pid} into {}: {error}", self.path.display()));
    }

    /// Who lives in it and is no program of ours.
    pub(crate) fn living(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).expect("a group of ours");
        let pids = text.lines().filter_map(|line| line.parse().ok());
        pids.filter(|pid| !is_ours(*pid) && wait::is_alive(*pid))
            .collect()
    }

    /// Freezes all that is in it.
    pub(crate) fn freeze(&self) {
        fs::write(self.path.join("cgroup.freeze"), "1").expect("a group of ours");
    }

    fn is_empty(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events"));
        events.expect("a group of ours").contains("populated 0")
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // Whoever is left when a test has failed goes with it.
        fs::write(self.path.join("cgroup.kill"), "1").ok();
        wait::until("an empty group", Deadline::usual(), || self.is_empty());
        let removed = fs::remove_dir(&self.path);
        assert!(
            removed.is_ok() || std::thread::panicking(),
            "{}: {removed:?}",
            self.path.display()
        );
    }
}

/// Whether a process is one of our programs, by its name.
pub(crate) fn is_ours(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    matches!(name.trim_end(), "xioflow" | "xioflow-reaper")
}

fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' '));
    let point = fields.find_map(|mut line| {
        let point = line.nth(1)?;
        (line.next()? == "cgroup2").then_some(point)
    });
    point.map(|point| Path::new(point).to_path_buf())
}
