//! Helpers that owe an answer and say nothing: each wait has its end, and the error says how long it
//! was.

use std::time::{Duration, Instant};

use xioflow_kernel::{Command, HelperLost, StopManner};

use crate::world::{SHORT, TO_THE_GATE, World, lost};

/// How much longer than its patience a wait may take on a busy machine.
const SLACK: Duration = Duration::from_secs(10);

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a short time")
}

/// The helper does not bring the command to its gate, and is given up after the patience.
fn is_given_up(script: &str, command: impl Fn(&World) -> Command) {
    let world = World::impatient(script);
    let begun = Instant::now();
    let operation = world.operation(command(&world));
    let lost = lost(crate::world::in_time(operation).expect_err("no answer"));
    let waited_ms = millis(SHORT.launch);
    assert_eq!(lost, HelperLost::Silent { waited_ms }, "{script}");
    assert!(begun.elapsed() >= SHORT.launch, "{script}");
    assert!(begun.elapsed() < SHORT.launch + SLACK, "{script}");
    world.assert_nothing_happened();
}

#[test]
fn a_launch_is_not_waited_for_without_end() {
    for script in [
        "deaf",
        "freeze",
        "hear-hello",
        "hear-hello,say-hello",
        "hear-hello,say-hello,hear-launch",
        "hear-hello,say-hello,hear-launch,freeze",
        "hear-hello,say-hello,hear-launch,half",
    ] {
        is_given_up(script, World::traced);
    }
}

#[test]
fn a_byte_now_and_then_is_no_answer() {
    is_given_up("hear-hello,say-hello,hear-launch,drip", World::traced);
}

#[test]
fn a_launch_of_six_mebibytes_does_not_wait_for_a_reader() {
    // Far more than a socket takes, and less than a frame can have.
    let long = "x".repeat(100_000);
    let large = |world: &World| world.traced().args(vec![long.clone(); 60]);
    for script in ["deaf", "say-hello,freeze", "say-hello,deaf"] {
        is_given_up(script, large);
    }
}

#[test]
fn an_execution_that_is_not_reported_is_lost() {
    let world = World::impatient(TO_THE_GATE);
    let begun = Instant::now();
    let result = world.run().expect("a result");
    assert!(begun.elapsed() >= SHORT.report);
    assert!(begun.elapsed() < SHORT.report + SLACK);
    let why = format!(
        "no answer within {} ms; the command may have run",
        millis(SHORT.report)
    );
    world.assert_indeterminate(&result, &why);
}

#[test]
fn an_end_that_the_system_shows_must_be_reported() {
    let world = World::impatient(&format!("{TO_THE_GATE},say-running,end-stand-in"));
    let result = world.run().expect("a result");
    assert_eq!(result.exit_code, None, "nobody has said how");
    let why = format!(
        "no answer within {} ms; the command ran",
        millis(SHORT.report)
    );
    world.assert_indeterminate(&result, &why);
}

#[test]
fn a_command_that_runs_owes_nothing() {
    let world = World::impatient(&format!("{TO_THE_GATE},say-running"));
    let operation = world.operation(world.traced());
    let limit = SHORT.report * 2;
    let begun = Instant::now();
    // Only its own timeout ends it, and then the silence of the ladder does.
    let result = crate::world::in_time(operation.timeout(limit).timeout_grace(Duration::ZERO));
    assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
    let result = result.expect("a result");
    assert!(result.stop.is_some());
    world.assert_indeterminate(&result, "no answer within");
}

#[test]
fn a_ladder_that_is_not_climbed_is_lost_when_it_would_be_over() {
    let world = World::impatient(&format!(
        "{TO_THE_GATE},say-running,hear-stop,say-signalled,freeze"
    ));
    let handle = world.operation(world.traced()).start().expect("a thread");
    world.wait_done("say-running");
    handle
        .canceller()
        .stop(StopManner::Kill, Duration::ZERO)
        .expect("it runs");
    let helper = world.wait_done("say-signalled");
    let result = handle.wait().expect("a result");
    // Where it is still stopped, it would hear of its end only then.
    crate::world::thaw(helper);
    assert!(result.stop.is_some());
    world.assert_indeterminate(&result, "no answer within");
}

#[test]
fn the_rest_of_a_tree_is_not_waited_for_without_end() {
    let world = World::impatient(&format!("{TO_THE_GATE},say-running+exited"));
    let result = world.run().expect("a result");
    assert_eq!(result.exit_code, Some(0), "that was said");
    world.assert_indeterminate(&result, "no answer within");
}
