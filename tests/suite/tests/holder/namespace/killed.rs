//! Whoever kills the helper, whenever: the kernel ends what it held.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, wait};
use xioflow_protocol::{PidNamespace, Reply, Request, StopPlan};

use super::{assert_nobody, enclosed, fixture, run, stand, tree_of};
use crate::{plan, rung, signal};

/// How often what happens at random moments is tried. `XIOFLOW_NAMESPACE_ROUNDS` takes its place.
const ROUNDS: u32 = 20;

fn rounds() -> u32 {
    std::env::var("XIOFLOW_NAMESPACE_ROUNDS").map_or(ROUNDS, |text| text.parse().expect("a number"))
}

/// A helper below a process that adopts and waits for whatever it leaves, as a supervisor does. That process
/// ends when nobody is left.
struct Orphanage<'a> {
    adopter: Holder<'a>,
    helper: Pid,
}

impl<'a> Orphanage<'a> {
    fn open(stage: &'a Stage) -> Self {
        let fixture = stage.fixture();
        let words = [fixture.to_str().expect("an ASCII path"), "adopt"];
        let mut adopter = Holder::start_through(stage, &words);
        let helper = adopter.greet().identity.expect("a helper says who it is");
        let helper = pid(helper.pid);
        Self { adopter, helper }
    }

    /// Launches, takes what comes first, and opens the gate.
    fn run(&mut self, order: &Order) -> PidNamespace {
        let namespace = self.gate(order);
        self.adopter.send(&Request::Release);
        namespace
    }

    fn gate(&mut self, order: &Order) -> PidNamespace {
        self.adopter.send_launch(order);
        match self.adopter.reply() {
            Reply::Spawned {
                namespace: Some(namespace),
                ..
            } => namespace,
            other => panic!("no command in a namespace: {other:?}"),
        }
    }

    /// Kills the helper, and waits for the end of everybody below, which nobody helps.
    fn kill_helper(mut self) {
        match kill_process(self.helper, Signal::KILL) {
            // It was quicker, and its adopter has waited for it.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => panic!("kill {:?}: {error}", self.helper),
        }
        assert_eq!(self.adopter.wait().code(), Some(0), "nobody is left");
    }

    /// The same, with the namespace looked at.
    fn kill_helper_of(self, namespace: &PidNamespace) {
        self.kill_helper();
        assert_nobody(namespace);
    }
}

fn pid(number: u32) -> Pid {
    let number = i32::try_from(number).ok();
    number.and_then(Pid::from_raw).expect("a pid")
}

#[test]
fn nobody_outlives_it() {
    let shapes: [&[&str]; 4] = [
        &["daemonise", "ignore", "3"],
        &["escape-setsid", "ignore", "3"],
        &["ignore-signals"],
        &["spawn-tree", "mixed", "50"],
    ];
    each_user(|stage| {
        for round in 0..rounds() {
            let shape = shapes[round as usize % shapes.len()];
            let (order, ready) = fixture(stage, shape);
            let mut helper = Orphanage::open(stage);
            let namespace = helper.run(&order);
            assert!(!stand(&namespace, &ready).is_empty());
            helper.kill_helper_of(&namespace);
            fs::remove_file(&ready).expect("a file of the stage");
        }
    });
}

#[test]
fn nor_at_the_gate() {
    each_user(|stage| {
        let order = enclosed(Order::fixture(stage, &["exit", "0"]));
        let mut helper = Orphanage::open(stage);
        let namespace = helper.gate(&order);
        helper.kill_helper_of(&namespace);
    });
}

#[test]
fn nor_in_the_middle_of_a_stop() {
    each_user(|stage| {
        for stop in [StopPlan::kill(10_000), plan(&[rung(signal::TERM, 60_000)])] {
            let (order, ready) = fixture(stage, &["spawn-tree", "mixed", "100"]);
            let mut helper = Orphanage::open(stage);
            let namespace = helper.run(&order);
            stand(&namespace, &ready);
            helper.adopter.send(&Request::Stop(stop));
            helper.kill_helper_of(&namespace);
            fs::remove_file(&ready).expect("a file of the stage");
        }
    });
}

#[test]
fn nor_when_the_root_has_ended() {
    each_user(|stage| {
        let (mut order, _) = fixture(stage, &["--exit", "0", "daemonise", "ignore", "3"]);
        order.launch.descendants = xioflow_protocol::Descendants::Wait;
        let mut helper = Orphanage::open(stage);
        let namespace = helper.run(&order);
        crate::until_survivors(&mut helper.adopter);
        assert_eq!(tree_of(&namespace).len(), 3);
        helper.kill_helper_of(&namespace);
    });
}

/// Killed while it works on the launch, at a moment that is never twice the same: between any two of its
/// steps nothing of the command runs, and nobody stays.
#[test]
fn nor_anywhere_on_the_way_to_the_gate() {
    each_user(|stage| {
        let trace = stage.path("trace");
        let words = ["append-line", trace.to_str().expect("an ASCII path")];
        for _ in 0..rounds() * 3 {
            let order = enclosed(Order::fixture(stage, &words));
            let helper = Orphanage::open(stage);
            helper.adopter.send_launch(&order);
            helper.kill_helper();
        }
        assert!(!trace.exists(), "the command has run");
    });
}

/// The init is frozen while its helper dies, so that only what the kernel does by itself counts.
#[test]
fn nor_with_an_init_that_cannot_act() {
    let stage = Stage::new();
    let (order, ready) = fixture(&stage, &["daemonise", "ignore", "3"]);
    let mut helper = Orphanage::open(&stage);
    let namespace = helper.run(&order);
    stand(&namespace, &ready);
    kill_process(pid(namespace.init.pid), Signal::STOP).expect("from outside");
    wait::until("a stop", Deadline::usual(), || {
        wait::state(namespace.init.pid) == Some('T')
    });
    helper.kill_helper_of(&namespace);
}

/// Whose end was asked for is the init alone; the helper's own children are none of its tree.
#[test]
fn an_init_that_is_killed_ends_the_tree_and_is_told() {
    each_user(|stage| {
        let (order, ready) = fixture(stage, &["daemonise", "ignore", "3"]);
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        stand(&namespace, &ready);
        kill_process(pid(namespace.init.pid), Signal::KILL).expect("from outside");
        let (replies, end) = crate::until_empty(&mut holder);
        assert_nobody(&namespace);
        assert_eq!(crate::root_exit(&replies), super::KILLED);
        assert_eq!(end.last_signal, None, "no rung was climbed");
    });
}
