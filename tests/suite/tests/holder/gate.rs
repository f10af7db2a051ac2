//! Nothing of a command runs before its gate is opened, whatever happens to either end.

use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, wait};
use xioflow_protocol::{HELPER_EXIT_OK, Reply, Request};

use crate::until_empty;

/// Number of errno(3).
const ENOENT: i32 = 2;

/// An order that leaves a line in a file when it runs.
fn traced(stage: &Stage) -> Order {
    let trace = stage.path("trace");
    Order::fixture(
        stage,
        &["append-line", trace.to_str().expect("an ASCII path")],
    )
}

/// Checks that the command at the gate ends without having run.
fn assert_closed(stage: &Stage, root: u32) {
    assert!(
        wait::pid_gone(root, Deadline::usual()),
        "the command still waits at its gate"
    );
    assert!(!stage.path("trace").exists(), "the command has run");
}

#[test]
fn a_release_runs_it_once() {
    each_user(|stage| {
        let order = traced(stage);
        let mut holder = Holder::start(stage);
        let root = holder.gate(&order);
        assert!(wait::is_alive(root));
        assert!(
            !stage.path("trace").exists(),
            "the command ran before its release"
        );
        holder.send(&Request::Release);
        until_empty(&mut holder);
        let trace = std::fs::read_to_string(stage.path("trace")).expect("a trace");
        assert_eq!(trace, "ran\n");
    });
}

#[test]
fn at_the_gate_it_is_already_the_leader_of_its_session() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    let root = holder.gate(&traced(&stage));
    let pid = rustix::process::Pid::from_raw(i32::try_from(root).expect("a pid"));
    assert_eq!(rustix::process::getsid(pid).ok(), pid);
    assert_eq!(rustix::process::getpgid(pid).ok(), pid);
    holder.send(&Request::Discard);
    assert_closed(&stage, root);
}

#[test]
fn a_discard_runs_nothing() {
    each_user(|stage| {
        let mut holder = Holder::start(stage);
        let root = holder.gate(&traced(stage));
        holder.send(&Request::Discard);
        let answer = holder.reply();
        let nothing =
            |end: &xioflow_protocol::TreeEnd| end.exit.is_none() && end.survivors_total == 0;
        assert!(
            matches!(&answer, Reply::TreeEmpty(end) if nothing(end)),
            "{answer:?}"
        );
        assert_closed(stage, root);
        holder.hang_up();
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    });
}

#[test]
fn a_stop_at_the_gate_runs_nothing() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    let root = holder.gate(&traced(&stage));
    holder.send(&Request::Stop(xioflow_protocol::StopPlan::kill(5000)));
    assert_closed(&stage, root);
}

#[test]
fn the_end_of_the_host_at_the_gate_runs_nothing() {
    each_user(|stage| {
        let order = traced(stage);
        let mut holder = Holder::start(stage);
        let root = holder.gate(&order);
        holder.hang_up();
        assert_closed(stage, root);
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
        let word = order.last_word();
        assert!(!word.released && word.empty, "{word:?}");
        assert_eq!(word.root.map(|root| root.pid), Some(root));
    });
}

#[test]
fn the_end_of_the_helper_at_the_gate_runs_nothing() {
    each_user(|stage| {
        let mut holder = Holder::start(stage);
        let root = holder.gate(&traced(stage));
        holder.kill();
        assert_closed(stage, root);
    });
}

#[test]
fn the_end_of_the_helper_before_the_gate_runs_nothing() {
    let stage = Stage::new();
    Holder::start(&stage).kill();
    let mut holder = Holder::start(&stage);
    holder.greet();
    holder.kill();
    // Killed while it works on the launch, at a moment that is never twice the same.
    for _ in 0..50 {
        let mut holder = Holder::start(&stage);
        holder.greet();
        holder.send_launch(&traced(&stage));
        holder.kill();
    }
    assert!(!stage.path("trace").exists(), "the command has run");
}

#[test]
fn a_release_after_a_discard_runs_nothing() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    let root = holder.gate(&traced(&stage));
    holder.send(&Request::Discard);
    let mut frame = Vec::new();
    xioflow_protocol::encode(&Request::Release, &mut frame).expect("a short frame");
    // The helper may be gone already, which is as good.
    holder.try_send_bytes(&frame, &[]).ok();
    let replies = holder.rest();
    assert!(!replies.contains(&Reply::Running), "{replies:?}");
    assert_closed(&stage, root);
}

#[test]
fn the_file_that_is_executed_is_the_one_at_the_release() {
    let stage = Stage::new();
    let program = stage.write("tool", "#!/bin/sh\nexit 3\n", 0o755);
    let order = Order::new::<&str>(&stage, &program, []);
    let mut holder = Holder::start(&stage);
    holder.gate(&order);
    stage.write("tool", "#!/bin/sh\nexit 4\n", 0o755);
    holder.send(&Request::Release);
    let (replies, _) = until_empty(&mut holder);
    assert_eq!(
        crate::root_exit(&replies),
        xioflow_protocol::Exit::Exited { code: 4 }
    );
}

#[test]
fn a_file_that_vanishes_at_the_gate_is_a_failed_launch() {
    let stage = Stage::new();
    let program = stage.write("tool", "#!/bin/sh\nexit 3\n", 0o755);
    let order = Order::new::<&str>(&stage, &program, []);
    let mut holder = Holder::start(&stage);
    let root = holder.gate(&order);
    std::fs::remove_file(&program).expect("a file of the stage");
    holder.send(&Request::Release);
    let failure = crate::until_failure(&mut holder);
    assert_eq!(
        (failure.stage, failure.errno),
        (xioflow_protocol::Stage::Exec, ENOENT)
    );
    assert!(wait::pid_gone(root, Deadline::usual()));
}
