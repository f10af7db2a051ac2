//! A tree under a helper of its own, and what has to be true at the moment when it is said to be gone.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use xioflow_kit::{Deadline, Holder, Order, Stage, fixture_pids, wait};
use xioflow_protocol::{Exit, Launch, Reply, Request, StopPlan, TreeEnd};

use crate::leaf::{Leaf, is_ours};

/// How long a tree may take to stand, and to be ended.
const PATIENCE: Duration = Duration::from_secs(100);
/// The time to live of each of its processes, in seconds.
const TTL: &str = "120";

/// How a root ends that is killed.
pub(crate) const KILLED: Exit = Exit::Signaled {
    signal: 9,
    core: false,
};

/// A tree that was let run.
pub(crate) struct Held<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) holder: Holder<'a>,
    /// After the holder, so that its helper is gone when the group is removed.
    pub(crate) leaf: Option<Leaf>,
    pub(crate) order: Order,
    ready: PathBuf,
}

/// What was said of a tree of which nothing was left at that moment.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) end: TreeEnd,
    /// Who was announced as a survivor, in number.
    pub(crate) announced: u32,
    /// From the end of the root, or the wish for it, to that moment.
    pub(crate) took: Duration,
}

impl<'a> Held<'a> {
    /// Lets the fixture run with these words.
    pub(crate) fn launch(stage: &'a Stage, words: &[&str]) -> Self {
        Self::launch_as(stage, words, |_| ())
    }

    /// The same with a launch that is changed before.
    pub(crate) fn launch_as(
        stage: &'a Stage,
        words: &[&str],
        change: impl FnOnce(&mut Launch),
    ) -> Self {
        Self::launch_by(Holder::start(stage), stage, words, change)
    }

    /// The same with a helper that was started before.
    pub(crate) fn launch_by(
        mut holder: Holder<'a>,
        stage: &'a Stage,
        words: &[&str],
        change: impl FnOnce(&mut Launch),
    ) -> Self {
        let ready = stage.path("ready");
        fs::remove_file(&ready).ok();
        let text = ready.to_str().expect("an ASCII path");
        let mut order = Order::fixture(stage, &[&["--ttl", TTL, "--ready", text], words].concat());
        order.launch.descendants = xioflow_protocol::Descendants::Stop(kill());
        order.launch.on_host_loss = kill();
        change(&mut order.launch);
        let leaf = Leaf::new();
        // A tracer that starts it is not of the tree.
        wait::until("the helper", Deadline::usual(), || is_ours(holder.pid()));
        if let Some(leaf) = &leaf {
            leaf.take(holder.pid());
        }
        holder.run(&order);
        Self {
            stage,
            holder,
            leaf,
            order,
            ready,
        }
    }

    /// Waits until the whole tree stands; its pids as it has reported them.
    pub(crate) fn stand(&self) -> Vec<u32> {
        let complaint = || String::from_utf8(self.order.stderr()).expect("text");
        let stands = wait::in_folder(&self.stage.path(""), Deadline::after(PATIENCE), || {
            let over = self.ready.exists() || !complaint().is_empty();
            over.then(|| self.ready.exists())
        });
        assert_eq!(stands, Some(true), "no tree: {}", complaint());
        fixture_pids(&self.ready)
    }

    /// Asks for its end, and takes everything up to the proof of it.
    pub(crate) fn stop(self, plan: StopPlan) -> Ended {
        let now = Instant::now();
        self.holder.send(&Request::Stop(plan));
        self.ended_since(Some(now))
    }

    /// Takes everything up to the proof that nothing is left, and looks for itself.
    pub(crate) fn ended(self) -> Ended {
        self.ended_since(None)
    }

    fn ended_since(mut self, asked: Option<Instant>) -> Ended {
        let mut began = asked;
        let (mut exit, mut announced) = (None, 0);
        let end = loop {
            match self.reply() {
                Reply::RootExited { exit: seen } => {
                    exit = Some(seen);
                    began = began.or(Some(Instant::now()));
                }
                Reply::Survivors { total, .. } => announced = total,
                Reply::Running | Reply::Signalled { .. } => {}
                Reply::TreeEmpty(end) => break end,
                other => panic!("instead of an empty tree: {other:?}; {:?}", self.living()),
            }
        };
        let living = self.living();
        assert!(
            living.is_empty(),
            "called empty while these live: {living:?}"
        );
        let exit = exit.expect("the root has ended before its tree");
        assert_eq!(end.exit, Some(exit), "one exit, told twice");
        let took = began.expect("the root has ended").elapsed();
        self.holder.hang_up();
        assert_eq!(
            self.holder.wait().code(),
            Some(xioflow_protocol::HELPER_EXIT_OK)
        );
        Ended {
            exit,
            end,
            announced,
            took,
        }
    }

    /// The next message of a helper that has much to do.
    pub(crate) fn reply(&mut self) -> Reply {
        self.holder.reply()
    }

    /// Who lives at this moment: by the mark in the environment, and by the control group.
    pub(crate) fn living(&self) -> Vec<String> {
        let by_leaf = self.leaf.iter().flat_map(Leaf::living);
        let mut living: Vec<_> = by_leaf.map(|pid| format!("{pid} in the group")).collect();
        let marked = self.stage.living().into_iter();
        // By its number: it leaves once it has said the last thing, and without its memory it has no name.
        let helper = format!("{} (", self.holder.pid());
        living.extend(marked.filter(|one| !one.starts_with(&helper)));
        living
    }
}

/// The end at once, with time for the largest tree.
pub(crate) fn kill() -> StopPlan {
    StopPlan::kill(60_000)
}
