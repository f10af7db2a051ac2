//! A tree under the real command line, which has a helper under it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use xioflow_kit::{Deadline, Finished, Stage, Started, fixture_pids, wait};
use xioflow_protocol::LastWord;

use crate::leaf::Leaf;

/// How long a run may take on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// `xioflow run` at work.
pub(crate) struct Commanded<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) id: String,
    started: Started<'a>,
    ready: PathBuf,
    leaf: Option<Leaf>,
}

impl<'a> Commanded<'a> {
    /// Starts it, in a control group of its own where there can be one.
    pub(crate) fn start(stage: &'a Stage, id: &str, options: &[&str], words: &[&str]) -> Self {
        let ready = stage.path(format!("ready-{id}"));
        // It waits to be put there before it starts anything.
        let first = "kill -STOP $$; exec \"$@\"";
        let run = stage.run("/bin/sh").args(["-c", first, "sh"]);
        let run = run.arg(stage.program("xioflow"));
        // The group is a witness. Left to itself, xioflow would take it for a place that is delegated, and hold the tree
        // in a group below it.
        let run = run.env("XIOFLOW_DRIVER", "reaper");
        let run = run.args(["run", "--json", "--op", id, "--wait", "60s"]);
        let run = run.args(options).arg("--").arg(stage.fixture());
        let run = run.args(["--ttl", "120", "--ready"]).arg(&ready);
        let started = run.args(words).deadline(PATIENCE).start();
        wait::until("it has stopped", Deadline::usual(), || {
            wait::state(started.pid()) == Some('T')
        });
        let leaf = Leaf::new();
        if let Some(leaf) = &leaf {
            leaf.take(started.pid());
        }
        started.signal(Signal::CONT);
        let id = id.to_owned();
        Self {
            stage,
            id,
            started,
            ready,
            leaf,
        }
    }

    /// Waits until the whole tree stands; its pids as it has reported them.
    pub(crate) fn stand(&self) -> Vec<u32> {
        wait::file(&self.ready, Deadline::after(PATIENCE));
        fixture_pids(&self.ready)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.started.signal(signal);
    }

    /// Kills the supervisor, and waits for the last word of its helper; who lives at that moment.
    pub(crate) fn kill(self) -> (LastWord, Vec<String>) {
        self.signal(Signal::KILL);
        let holders = self.stage.domain().join("holders");
        let path = holders.join(format!("{}.word", self.id));
        wait::file(&path, Deadline::after(PATIENCE));
        let living = self.living();
        let bytes = fs::read(&path).expect("a whole file");
        drop(self.started.finish());
        (LastWord::from_bytes(&bytes).expect("a last word"), living)
    }

    /// Waits for its own end; who lives at that moment.
    pub(crate) fn finish(self) -> (Finished, Vec<String>) {
        let gone = wait::pid_gone(self.started.pid(), Deadline::after(PATIENCE));
        assert!(gone, "{} goes on", self.id);
        let living = self.living();
        (self.started.finish(), living)
    }

    /// Kills the supervisor and its helper, which is stopped before, so that it cannot notice. What is left of the
    /// tree goes on.
    pub(crate) fn kill_with_helper(self, root: u32) -> Option<Leaf> {
        let helper = parent(root);
        wait::halt(helper);
        self.signal(Signal::KILL);
        drop(self.started.finish());
        signal(helper, Signal::KILL);
        assert!(wait::pid_gone(helper, Deadline::usual()));
        self.leaf
    }

    fn living(&self) -> Vec<String> {
        let by_leaf = self.leaf.iter().flat_map(Leaf::living);
        let mut living: Vec<_> = by_leaf.map(|pid| format!("{pid} in the group")).collect();
        let marked = self.stage.living().into_iter();
        living.extend(marked.filter(|one| !one.contains("xioflow-reaper")));
        living
    }
}

/// The parent of a process: the helper of a root.
pub(crate) fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let parent = fields.split(' ').nth(1).expect("a parent");
    parent.parse().expect("a number")
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("ours");
}
