//! A sync that fails once under an arbiter: it may have succeeded the next time without having written
//! anything, so this owner records nothing more, and another one serves.

use std::fs;

use xioflow_kit::{Deadline, Stage, running_as_root, strace, wait};

use crate::world::World;

#[test]
fn a_failed_sync_ends_an_arbiter_and_nothing_is_lost_with_it() {
    if !strace::is_there() {
        eprintln!("{}", strace::MISSING);
        return;
    }
    if !running_as_root() {
        eprintln!("skipped: needs root, to trace an arbiter that is running");
        return;
    }
    let stage = Stage::new();
    let world = World::new(&stage, "a sync fails under an arbiter");
    let run = |id: &str| {
        let run = world.xioflow().args(["run", "--op", id, "--lease", "disk"]);
        run.args(["--", "sh", "-c", &world.script()]).finish()
    };
    world
        .xioflow()
        .args(["run", "--", "true"])
        .finish()
        .assert_code(0);
    let arbiter = stage.arbiters()[0];
    let trace = stage.path("trace");
    let tracer = stage.run("strace").args(["-f", "-e", "trace=fdatasync"]);
    let tracer = tracer.arg("-P").arg(world.domain.join("domain.db-wal"));
    let tracer = tracer.args(["-e", "inject=fdatasync:error=EIO:when=1", "-o"]);
    let mut tracer = tracer
        .arg(&trace)
        .args(["-p", &arbiter.to_string()])
        .start();
    tracer.wait_for_complaint(b"attached");

    let told = run("a");
    told.assert_code(70).assert_complains("domain.db");
    assert!(
        wait::pid_gone(arbiter, Deadline::usual()),
        "the arbiter serves on"
    );
    drop(tracer.finish());
    let traced = fs::read_to_string(&trace).expect("a trace");
    assert_eq!(traced.matches("(INJECTED)").count(), 1, "{traced}");

    assert_eq!(world.marks(), 0, "it ran before it was on record");
    run("b").assert_code(0);
    assert_eq!(world.marks(), 1);
    let outcome = "SELECT coalesce((SELECT outcome FROM operations WHERE id = 'a'), 'none')";
    let recorded = world.ask(outcome);
    // What is on record is that nothing of it ran; or it is not on record at all.
    assert!(["failed", "none"].contains(&&*recorded), "{recorded}");
    stage.end_arbiters();
}
