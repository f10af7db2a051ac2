//! The true helper stopped by SIGSTOP at each moment of an operation, and woken when it is all over:
//! it finds that nobody is there, and ends what it holds.

use std::time::Duration;

use xioflow_kernel::{HelperLost, StopManner};
use xioflow_kit::{Deadline, wait};

use crate::world::{World, in_time, lost, thaw};

#[test]
fn before_the_gate_nothing_happened_and_nothing_happens_later() {
    for moment in [
        "after-greeting",
        "before-launch",
        "after-launch",
        "before-spawned",
    ] {
        let world = World::impatient(&format!("between,{moment},freeze"));
        let lost = lost(world.run().expect_err("no launch report"));
        assert!(
            matches!(lost, HelperLost::Silent { .. }),
            "{moment}: {lost:?}"
        );
        thaw_all(&world);
        world.assert_nothing_happened();
    }
}

#[test]
fn before_the_release_nothing_runs_later() {
    let world = World::impatient("between,before-release,freeze");
    let result = world.run().expect("a result");
    thaw_all(&world);
    assert_eq!(world.times_run(), 0);
    world.assert_indeterminate(&result, "the command may have run");
}

#[test]
fn a_command_that_ends_meanwhile_is_not_waited_for_without_end() {
    let world = World::impatient("between,after-running,freeze");
    let gate = world.stage.path("gate");
    let script = format!("until [ -e {} ]; do :; done", gate.display());
    let command = xioflow_kernel::Command::new("/bin/sh").args(["-c", &script]);
    let handle = world.operation(command.cwd("/")).start().expect("a thread");
    world.wait_done("freeze");
    std::fs::write(gate, "").expect("a file of the stage");
    let result = handle.wait().expect("a result");
    thaw_all(&world);
    assert_eq!(result.exit_code, None);
    world.assert_indeterminate(&result, "no answer within");
}

#[test]
fn a_stop_of_a_tree_whose_helper_is_stopped_has_an_end() {
    let world = World::impatient("between,after-running,freeze");
    let ready = world.stage.path("ready");
    let words = ["--ready", ready.to_str().expect("ASCII"), "ignore-signals"];
    let handle = world
        .operation(world.fixture(&words))
        .start()
        .expect("a thread");
    let pids = world.stage.wait_ready(&ready);
    world.wait_done("freeze");
    handle
        .canceller()
        .stop(StopManner::Kill, Duration::ZERO)
        .expect("it runs");
    let result = handle.wait().expect("a result");
    thaw_all(&world);
    assert!(
        pids.iter()
            .all(|pid| wait::pid_gone(*pid, Deadline::usual()))
    );
    world.assert_indeterminate(&result, "no answer within");
}

#[test]
fn an_exit_that_was_told_is_kept() {
    let world = World::impatient("between,after-exited,freeze");
    let ready = world.stage.path("ready");
    let words = [
        "--ready",
        ready.to_str().expect("ASCII"),
        "--exit",
        "4",
        "daemonise",
        "1",
    ];
    let result = in_time(world.operation(world.fixture(&words))).expect("a result");
    thaw_all(&world);
    // Awake, it ends what has outlived the command.
    let pids = world.stage.wait_ready(&ready);
    assert!(
        pids.iter()
            .all(|pid| wait::pid_gone(*pid, Deadline::usual()))
    );
    assert_eq!(result.exit_code, Some(4));
    world.assert_indeterminate(&result, "no answer within");
}

/// Wakes every true helper that was stopped. Those who stood between are gone or on their way.
fn thaw_all(world: &World) {
    for (pid, done) in world.done() {
        if done == "freeze" {
            thaw(pid);
        }
    }
}
