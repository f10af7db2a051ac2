//! Helpers that fail while the command stands at its gate, or before: an error says what happened,
//! nothing ran, nothing is recorded, and the same id can be used again.

use xioflow_kernel::{Caller, Driver, ExecuteError, HelperLost, LinkError};

use crate::world::{World, lost};

/// Runs against a helper with this script and has it lost in this way.
fn fails(script: &str, expected: impl Fn(&HelperLost) -> bool) {
    let world = World::new(script);
    let lost = lost(world.run().expect_err("no helper, no result"));
    assert!(expected(&lost), "{script}: {lost:?}");
    assert!(lost.to_string().chars().count() < 600, "{script}: {lost}");
    world.assert_nothing_happened();
}

fn out_of_order(what: &str) -> impl Fn(&HelperLost) -> bool {
    move |lost| matches!(lost, HelperLost::OutOfOrder(found) if *found == what)
}

#[test]
fn one_that_dies_is_gone_whenever_it_does() {
    for script in [
        "die",
        "exit",
        "hear-hello,die",
        "say-hello,die",
        "hear-hello,say-hello,exit",
        "hear-hello,say-hello,hear-launch,die",
    ] {
        fails(script, |lost| *lost == HelperLost::Gone);
    }
}

#[test]
fn one_that_closes_its_end_is_gone_though_it_lives() {
    for script in [
        "close-writing",
        "close-reading",
        "hear-hello,say-hello,hear-launch,close-writing",
        "hear-hello,say-hello,close-reading",
    ] {
        fails(script, |lost| *lost == HelperLost::Gone);
    }
}

#[test]
fn garbage_is_named() {
    use xioflow_protocol::FrameError::{Malformed, TooLong, Truncated};
    for before in [
        "",
        "hear-hello,say-hello,",
        "hear-hello,say-hello,hear-launch,",
    ] {
        let script = |step| format!("{before}{step}");
        fails(&script("garbage"), |lost| {
            matches!(lost, HelperLost::Garbage(Malformed { len: 6 }))
        });
        fails(&script("oversized"), |lost| {
            matches!(lost, HelperLost::Garbage(TooLong { claimed: u32::MAX }))
        });
        fails(&script("half,exit"), |lost| {
            matches!(lost, HelperLost::Garbage(Truncated { received: 8 }))
        });
    }
}

#[test]
fn another_version_is_named_with_what_to_do() {
    for script in [
        "hear-hello,say-hello-of-tomorrow",
        "hear-hello,say-refused-version,exit",
        "say-refused-version,close-reading",
    ] {
        fails(script, |lost| {
            matches!(lost, HelperLost::Version { found: 2, .. })
                && lost.to_string().contains("install both from one release")
        });
    }
}

#[test]
fn a_helper_that_does_not_greet_is_not_listened_to() {
    fails("hear-launch,say-spawned", out_of_order("no greeting"));
    fails("hear-launch,say-failed", out_of_order("no greeting"));
}

#[test]
fn one_greeting_is_enough() {
    fails(
        "hear-hello,say-hello,say-hello",
        out_of_order("a second greeting"),
    );
    fails(
        "hear-hello,say-hello,hear-launch,say-hello",
        out_of_order("a second greeting"),
    );
}

#[test]
fn news_of_a_command_that_was_not_launched_are_out_of_order() {
    for reply in [
        "running",
        "exited",
        "empty",
        "remains",
        "survivors",
        "signalled",
    ] {
        fails(
            &format!("hear-hello,say-hello,hear-launch,say-{reply}"),
            out_of_order("no launch report"),
        );
    }
}

#[test]
fn a_refusal_and_a_panic_are_passed_on_in_one_line() {
    fails("hear-hello,say-hello,hear-launch,say-refused", |lost| {
        matches!(lost, HelperLost::Refused(_))
    });
    fails(
        "hear-hello,say-hello,hear-launch,say-panicked",
        |lost| matches!(lost, HelperLost::Panicked(message) if !message.contains('\n')),
    );
}

#[test]
fn a_launch_report_that_is_true_is_recorded() {
    let world = World::new("hear-hello,say-hello,hear-launch,say-failed");
    let result = world.run().expect("a failed launch has a result");
    assert!(result.spawn_failure.is_some());
    assert_eq!(result.exit_code, Some(127));
    assert_eq!(world.times_run(), 0);
    world.assert_settled(&result);
}

/// A helper of an earlier release would leave the nice value unread.
#[test]
fn one_that_cannot_do_what_a_caller_needs_is_named() {
    let world = World::new("hear-hello,say-hello");
    let here = Caller::here();
    let other = (here.nice_value().expect("known") + 1).min(19);
    let asked = world.operation(world.traced()).caller(here.nice(other));
    let error = asked.run().expect_err("the helper cannot set it");
    let ExecuteError::Helper(LinkError::Lacks { feature, .. }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*feature, "nice");
    world.assert_nothing_happened();
}

/// One that would hold the tree in something weaker than was asked for is not asked to.
#[test]
fn one_that_knows_no_namespaces_is_named() {
    let world = World::new("hear-hello,say-hello");
    let asked = world.operation(world.traced().driver(Driver::PidNamespace));
    let error = asked.run().expect_err("the helper cannot make one");
    let ExecuteError::Helper(LinkError::Lacks { feature, .. }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*feature, "pid-namespace");
    world.assert_nothing_happened();
}
