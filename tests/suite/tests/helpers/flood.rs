//! Helpers that send too much: the supervisor's memory and descriptors stay what they were, and it
//! gets round to everything else.

use std::fs;
use std::time::Duration;

use xioflow_kernel::HelperLost;

use crate::world::{TO_THE_GATE, World, in_time, lost};

/// How much the process may grow while a helper floods it: a few of the longest frames, decoded.
const GROWTH_MAX_KIB: u64 = 256 * 1024;

/// The largest resident set so far, in KiB; begun again by [`forget_peak`].
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number
        .and_then(|number| number.parse().ok())
        .expect("a number of kB")
}

/// proc(5): 5 resets the peak resident set to the present one.
fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("our own peak");
}

fn floods_before(script: &str, expected: impl Fn(&HelperLost) -> bool) {
    let world = World::new(script);
    forget_peak();
    let before = peak_kib();
    let lost = lost(world.run().expect_err("no launch report"));
    assert!(expected(&lost), "{script}: {lost:?}");
    assert!(
        peak_kib() < before + GROWTH_MAX_KIB,
        "{script}: {} KiB more",
        peak_kib() - before
    );
    world.assert_nothing_happened();
}

fn floods_after(steps: &str, why: &str) {
    let world = World::new(&format!("{TO_THE_GATE},say-running,{steps}"));
    forget_peak();
    let before = peak_kib();
    let result = world.run().expect("a result");
    assert!(
        peak_kib() < before + GROWTH_MAX_KIB,
        "{steps}: {} KiB more",
        peak_kib() - before
    );
    assert!(result.survivors.is_empty());
    world.assert_indeterminate(&result, why);
}

#[test]
fn greetings_without_end() {
    floods_before("for-ever-hello", |lost| {
        *lost == HelperLost::OutOfOrder("a second greeting")
    });
}

#[test]
fn replies_without_end_instead_of_a_launch_report() {
    floods_before("say-hello,for-ever-signalled", |lost| {
        *lost == HelperLost::OutOfOrder("no launch report")
    });
    floods_before("say-hello,for-ever-many-survivors", |lost| {
        matches!(lost, HelperLost::Excess(_))
    });
}

#[test]
fn replies_without_end_while_the_command_runs() {
    floods_after("for-ever-signalled", "replies without end");
    floods_after("for-ever-survivors", "replies without end");
}

#[test]
fn survivors_by_the_million() {
    floods_after(
        "for-ever-many-survivors",
        "a list of more processes than it may have",
    );
    floods_after(
        "say-many-survivors",
        "a list of more processes than it may have",
    );
}

#[test]
fn descriptors_by_the_hundred_are_closed() {
    for script in [
        "pass-253-hello",
        "hear-hello,say-hello,hear-launch,pass-100-running",
        "hear-hello,say-hello,hear-launch,pass-2-failed",
    ] {
        floods_before(script, |lost| {
            *lost == HelperLost::Excess("more descriptors than it has to pass")
        });
    }
    floods_after("pass-100-signalled", "more descriptors than it has to pass");
    floods_after("pass-1-signalled", "more descriptors than it has to pass");
}

#[test]
fn a_wish_is_heard_while_the_helper_talks() {
    let world = World::new(&format!("{TO_THE_GATE},say-running,for-ever-signalled"));
    let operation = world.operation(world.traced());
    // Whichever comes first, the count or the clock: it ends.
    let result = in_time(operation.timeout(Duration::from_millis(1))).expect("a result");
    world.assert_indeterminate(&result, "");
}
