//! What a helper costs while nothing happens: no wake-up, and little memory of its own.

use std::fs;
use std::time::Duration;

use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, wait};
use xioflow_protocol::{Request, StopPlan};

use crate::until_empty;

/// The most memory that belongs to one helper alone.
const PRIVATE_MAX_KIB: u64 = 1024;

/// How long it is watched.
const LOOK: Duration = Duration::from_secs(2);

/// How often it has given up the processor, by itself or not.
fn switches(pid: u32) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines.map(str::to_owned).collect()
}

fn pass(pid: u32, time: Duration) {
    let deadline = Deadline::after(time);
    assert!(!wait::pid_gone(pid, deadline), "the helper has ended");
}

/// Waits until what was under way is over.
fn settle(pid: u32) {
    wait::until("rest", Deadline::usual(), || {
        let before = switches(pid);
        pass(pid, Duration::from_millis(200));
        switches(pid) == before
    });
}

fn assert_never_wakes(pid: u32, when: &str) {
    settle(pid);
    let before = switches(pid);
    assert_eq!(before.len(), 2, "proc(5) has two such lines");
    pass(pid, LOOK);
    assert_eq!(switches(pid), before, "{when}");
}

#[test]
fn an_idle_helper_never_wakes() {
    each_user(|stage| {
        let mut warm = Holder::start(stage);
        warm.greet();
        assert_never_wakes(warm.pid(), "before a launch");
        warm.hang_up();
        warm.wait();
        let mut holder = Holder::start(stage);
        hold_a_sleeper(&mut holder, stage);
        assert_never_wakes(holder.pid(), "with a tree that sleeps");
        end(holder);
    });
}

/// A helper is not dumpable, so only root may look at its memory.
#[test]
fn an_idle_helper_has_little_memory() {
    if !xioflow_kit::running_as_root() {
        println!("skipped: only root may look at the memory of a helper");
        return;
    }
    each_user(|stage| {
        // Pages of the program count as one helper's own while nobody else has them: one for each operation is usual.
        let mut beside = Holder::start(stage);
        hold_a_sleeper(&mut beside, stage);
        let mut holder = Holder::start(stage);
        hold_a_sleeper(&mut holder, stage);
        settle(holder.pid());
        let private = private_kib(holder.pid());
        assert!(
            (1..=PRIVATE_MAX_KIB).contains(&private),
            "{private} KiB are private"
        );
        end(holder);
        end(beside);
    });
}

fn hold_a_sleeper(holder: &mut Holder<'_>, stage: &Stage) {
    holder.run(&Order::fixture(stage, &["sleep"]));
}

fn end(mut holder: Holder<'_>) {
    holder.send(&Request::Stop(StopPlan::kill(5000)));
    until_empty(&mut holder);
}

fn private_kib(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/smaps_rollup");
    let rollup = fs::read_to_string(path).expect("it lives, and root may look");
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    let sizes = private.filter_map(|line| line.split_whitespace().nth(1));
    sizes.map(|size| size.parse::<u64>().expect("a size")).sum()
}
