//! Helpers that fail once the gate is open: the command may have run, so the end is indeterminate,
//! and what the operation holds stays held.

use xioflow_kernel::Evidence;
use xioflow_kernel::journal::Outcome;

use crate::world::{TO_THE_GATE, World};

/// Runs against a helper that opens the gate, goes on with these steps, and is lost.
fn is_lost(steps: &str, why: &str) {
    let world = World::new(&format!("{TO_THE_GATE},{steps}"));
    let result = world.run().expect("a result");
    assert_eq!(world.times_run(), 0, "a false helper runs nothing");
    world.assert_indeterminate(&result, why);
}

#[test]
fn one_that_dies_leaves_what_it_has_said() {
    is_lost("die", "the command may have run");
    is_lost("say-running,die", "the command ran");
    let world = World::new(&format!("{TO_THE_GATE},say-running,say-exited,die"));
    let result = world.run().expect("a result");
    assert_eq!(result.exit_code, Some(0));
    assert_eq!(result.evidence, Evidence::Observed);
    assert_eq!(result.tree_settlement, None);
    world.assert_indeterminate(&result, "the helper went away");
}

#[test]
fn garbage_ends_the_conversation() {
    is_lost("garbage", "frame of 6 bytes is not a known message");
}

#[test]
fn a_frame_that_claims_too_much_is_not_waited_for() {
    is_lost("say-running,oversized", "4294967295 bytes");
}

#[test]
fn half_a_reply_is_none() {
    is_lost("say-running,half,exit", "8 bytes into a frame");
}

#[test]
fn no_contradiction_becomes_a_result() {
    for (steps, why) in [
        ("say-running,say-running", "it runs, again"),
        ("say-exited,say-running", "it runs, again"),
        ("say-running+exited+exited", "a second exit"),
        ("say-running+exited+exited-otherwise", "a second exit"),
        (
            "say-running+failed",
            "a failed launch of a command that runs",
        ),
        ("say-empty", "another exit"),
        ("say-running+empty", "another exit"),
        ("say-running+exited-otherwise+empty", "another exit"),
        ("say-running+remains", "another exit"),
        ("say-hello", "a second greeting"),
        ("say-running+refused", "refused to go on"),
        ("say-running+panicked", "the helper failed"),
    ] {
        is_lost(steps, why);
    }
}

#[test]
fn a_second_launch_report_is_out_of_order() {
    is_lost(
        "say-running,say-spawned",
        "more descriptors than it has to pass",
    );
}

#[test]
fn an_exit_that_no_process_can_have_is_none() {
    is_lost(
        "say-running+exited-impossibly",
        "an exit that no process can have",
    );
}

#[test]
fn news_from_before_the_gate_was_opened_are_none() {
    for early in ["running", "exited+empty", "empty", "remains"] {
        let script = format!("hear-hello,say-hello,hear-launch,say-spawned+{early}");
        let world = World::new(&script);
        let result = world.run().expect("a result");
        assert_eq!(result.status, Outcome::Failed, "{early}");
        assert_eq!((result.exit_code, world.times_run()), (None, 0));
        let reason = result.reason.clone().unwrap_or_default();
        assert!(reason.contains("nothing of the command ran"), "{reason}");
        world.assert_settled(&result);
    }
}

#[test]
fn one_that_dies_before_it_can_open_the_gate_has_let_nothing_run() {
    let world = World::new("hear-hello,say-hello,hear-launch,say-spawned,die");
    let result = world.run().expect("a result");
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
    assert_eq!(world.times_run(), 0);
    // It may have died before the release or with it in its hands, which nobody can tell apart.
    if result.status == Outcome::Indeterminate {
        world.assert_indeterminate(&result, "the command may have run");
    } else {
        let reason = result.reason.clone().unwrap_or_default();
        assert!(reason.contains("nothing of the command ran"), "{reason}");
        world.assert_settled(&result);
    }
}

#[test]
fn a_child_that_ends_at_its_gate_is_a_failed_launch() {
    let world = World::new("hear-hello,say-hello,hear-launch,say-spawned+failed");
    let result = world.run().expect("a result");
    assert!(result.spawn_failure.is_some());
    world.assert_settled(&result);
}

#[test]
fn what_comes_after_the_end_is_not_heard() {
    for steps in [
        "say-running+exited+empty",
        "say-running+exited+empty+empty",
        "say-running+exited+empty+remains",
        "say-running+exited+empty,garbage",
        "say-running+exited+empty,die",
        "say-running+exited+empty,deaf",
    ] {
        let world = World::new(&format!("{TO_THE_GATE},{steps}"));
        let result = world.run().expect("a result");
        assert_eq!(result.status, Outcome::Succeeded, "{steps}: {result:?}");
        world.assert_settled(&result);
    }
}
