//! The true helper killed at each moment of an operation, by somebody who stands between it and its
//! supervisor.

use xioflow_kernel::journal::{Outcome, TerminationReason};
use xioflow_kernel::{
    DescendantPolicy, DomainOptions, Driver, ExecuteError, HelperLost, Scope, StopManner,
    TreeSettlement,
};
use xioflow_kit::{Deadline, wait};

use std::time::Duration;

use crate::world::{World, in_time, kill, lost};

#[test]
fn before_the_launch_nothing_happened() {
    for moment in [
        "before-hello",
        "after-hello",
        "after-greeting",
        "before-launch",
    ] {
        let world = World::new(&format!("between,{moment},kill"));
        let lost = lost(world.run().expect_err("no helper"));
        assert_eq!(lost, HelperLost::Gone, "{moment}");
        world.assert_nothing_happened();
    }
}

#[test]
fn on_the_launch_nothing_happened() {
    for moment in ["after-launch", "before-spawned"] {
        let world = World::new(&format!("between,{moment},kill"));
        let lost = lost(world.run().expect_err("no helper"));
        assert_eq!(lost, HelperLost::Gone, "{moment}");
        world.assert_nothing_happened();
    }
}

#[test]
fn before_the_release_nothing_ran() {
    // The release is on its way and never arrives, which the supervisor cannot know.
    let world = World::new("between,before-release,kill");
    let result = world.run().expect("a result");
    assert_eq!(world.times_run(), 0);
    world.assert_indeterminate(&result, "the command may have run");
}

#[test]
fn after_the_gate_report_the_command_did_not_run() {
    let world = World::new("between,after-spawned,kill");
    let result = world.run().expect("a result");
    assert_eq!(world.times_run(), 0);
    match result.status {
        // It was gone before the release could be sent.
        Outcome::Failed => world.assert_settled(&result),
        _ => world.assert_indeterminate(&result, "the command may have run"),
    }
}

#[test]
fn after_the_release_it_may_have_run() {
    let world = World::new("between,after-release,kill");
    let result = world.run().expect("a result");
    assert!(world.times_run() <= 1);
    world.assert_indeterminate(&result, "what became of its tree was not seen");
}

#[test]
fn while_the_command_runs_it_is_killed_through_its_pidfd() {
    let world = World::new("between,after-running,kill");
    let ready = world.stage.path("ready");
    let words = ["--ready", ready.to_str().expect("ASCII"), "ignore-signals"];
    let result = in_time(world.operation(world.fixture(&words))).expect("a result");
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
    world.assert_indeterminate(&result, "the command ran");
}

#[test]
fn an_end_that_was_not_told_is_not_known() {
    let world = World::new("between,before-exited,kill");
    let result = world.run().expect("a result");
    assert_eq!(world.times_run(), 1);
    assert_eq!(result.exit_code, None);
    world.assert_indeterminate(&result, "the command ran");
}

#[test]
fn an_exit_that_was_told_is_kept_though_the_tree_is_not_known() {
    for moment in ["after-exited", "before-empty"] {
        let world = World::new(&format!("between,{moment},kill"));
        let result = world.run().expect("a result");
        assert_eq!(
            (world.times_run(), result.exit_code),
            (1, Some(0)),
            "{moment}"
        );
        assert_eq!(result.tree_settlement, None);
        world.assert_indeterminate(&result, "what became of its tree was not seen");
    }
}

#[test]
fn descendants_that_are_waited_for_are_lost_with_their_helper() {
    let world = World::new("between,after-exited,kill");
    let ready = world.stage.path("ready");
    let words = [
        "--ready",
        ready.to_str().expect("ASCII"),
        "--exit",
        "4",
        "daemonise",
        "1",
    ];
    let operation = world.operation(world.fixture(&words));
    let result = in_time(operation.descendants(DescendantPolicy::Wait)).expect("a result");
    assert_eq!(result.exit_code, Some(4));
    for pid in world.stage.wait_ready(&ready) {
        kill(pid);
        assert!(wait::pid_gone(pid, Deadline::usual()));
    }
    world.assert_indeterminate(&result, "what became of its tree was not seen");
}

#[test]
fn after_its_account_it_is_not_missed() {
    let world = World::new("between,after-empty,kill");
    let result = world.run().expect("a result");
    assert_eq!((result.status, world.times_run()), (Outcome::Succeeded, 1));
    world.assert_settled(&result);
}

#[test]
fn a_stop_that_it_did_not_finish_is_indeterminate() {
    let moments = [
        ("before", "stop"),
        ("after", "stop"),
        ("before", "signalled"),
        ("after", "signalled"),
    ];
    for moment in moments.map(|(when, message)| format!("{when}-{message}")) {
        let world = World::new(&format!("between,after-running,{moment},kill"));
        let ready = world.stage.path("ready");
        let words = ["--ready", ready.to_str().expect("ASCII"), "ignore-signals"];
        let operation = world.operation(world.fixture(&words));
        let handle = operation.start().expect("a thread");
        let pids = world.stage.wait_ready(&ready);
        handle
            .canceller()
            .stop(StopManner::Terminate, Duration::from_secs(20))
            .expect("it runs");
        let result = handle.wait().expect("a result");
        let stop = result.stop.clone().expect("it was asked to stop");
        let told = (moment == "after-signalled").then_some("SIGTERM");
        assert_eq!(stop.last_signal.as_deref(), told, "{moment}");
        assert!(
            pids.iter()
                .all(|pid| wait::pid_gone(*pid, Deadline::usual()))
        );
        world.assert_indeterminate(&result, "the command ran");
    }
}

#[test]
fn one_that_waits_for_work_is_replaced() {
    let world = World::new("between,after-greeting");
    let helper = world.wait_done("after-greeting");
    kill(helper);
    assert!(wait::pid_gone(helper, Deadline::usual()));
    let result = world.run().expect("a result");
    assert_eq!((result.status, world.times_run()), (Outcome::Succeeded, 1));
    world.assert_settled(&result);
}

#[test]
fn a_host_that_adopts_orphans_proves_the_end_of_the_tree() {
    let world = World::with(
        "between,after-running,kill",
        DomainOptions::default().adopt_orphans(true),
    );
    let ready = world.stage.path("ready");
    let words = [
        "--ready",
        ready.to_str().expect("ASCII"),
        "escape-setsid",
        "ignore",
        "3",
    ];
    let result = in_time(world.operation(world.fixture(&words))).expect("a result");
    assert_eq!(result.status, Outcome::Failed, "{result:?}");
    assert_eq!(
        result.termination_reason,
        Some(TerminationReason::CrashDetected)
    );
    assert!(result.residual_pids.is_empty());
    world.assert_settled(&result);
}

#[test]
fn a_host_that_adopts_orphans_collects_the_child_at_the_gate() {
    for script in ["between,before-spawned,kill", "between,after-launch,kill"] {
        let options = DomainOptions::default().adopt_orphans(true);
        let world = World::with(script, options);
        let lost = lost(world.run().expect_err("no helper"));
        assert_eq!(lost, HelperLost::Gone);
        world.assert_nothing_happened();
    }
}

#[test]
fn a_host_that_adopts_no_more_does_not_say_that_nothing_is_left() {
    let options = DomainOptions::default().adopt_orphans(true);
    let world = World::with("between,after-running,kill", options);
    rustix::process::set_child_subreaper(None).expect("nothing refuses that");
    let ready = world.stage.path("ready");
    let words = ["--ready", ready.to_str().expect("ASCII"), "ignore-signals"];
    let result = in_time(world.operation(world.fixture(&words))).expect("a result");
    world.assert_indeterminate(&result, "what became of its tree was not seen");
}

/// A host that adopts nobody sees only the command itself end; with a namespace it sees all of it end.
#[test]
fn with_a_pid_namespace_the_end_of_the_tree_is_proven_without_adopting() {
    let world = World::new("between,after-running,kill");
    let ready = world.stage.path("ready");
    let words = ["--ready", ready.to_str().expect("ASCII"), "ignore-signals"];
    let command = world.fixture(&words).driver(Driver::PidNamespace);
    let result = match world.operation(command).run() {
        Err(ExecuteError::DriverRefused { call, source, .. }) => {
            eprintln!("skipped: needs pid namespaces: {call}: {source}");
            return;
        }
        ended => ended.expect("a result"),
    };
    assert_eq!(result.status, Outcome::Failed);
    let crashed = Some(TerminationReason::CrashDetected);
    assert_eq!(result.termination_reason, crashed);
    assert_eq!(result.tree_settlement, Some(TreeSettlement::Reaped));
    assert_eq!(result.scope, Scope::PidNamespace);
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
    let reason = result.reason.unwrap_or_default();
    assert!(reason.contains("with its pid namespace"), "{reason}");
}
