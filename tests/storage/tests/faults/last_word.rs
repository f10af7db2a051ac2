//! Storage fails while the helper of a killed supervisor writes its last word.

use xioflow_kit::{Stage, running_as_root, strace};

use crate::world::World;

/// The calls that a last word takes, in their order, each with what it is made on, as strace sees it.
const CALLS: [(&str, &str); 5] = [
    ("openat", "a.word.tmp"),
    ("write", "holders/a.word.tmp"),
    ("fsync", "holders/a.word.tmp"),
    ("renameat2", "a.word.tmp"),
    ("fsync", "holders"),
];

/// Kills the supervisor once its command runs, and waits until the helper has ended.
const SCRIPT: &str = r#"
    mkfifo runs
    "$X" run --no-arbiter --op a --lease disk -- sh -c 'echo > runs; exec sleep 60' &
    read line < runs
    kill -9 $!
    wait $!
    true"#;

#[test]
fn a_last_word_that_cannot_be_written_is_whole_or_not_there() {
    if !strace::is_there() {
        eprintln!("{}", strace::MISSING);
        return;
    }
    if !running_as_root() {
        eprintln!("skipped: needs root, to trace the helper");
        return;
    }
    for (call, on) in CALLS {
        fails(call, on);
    }
}

fn fails(call: &str, on: &str) {
    let stage = Stage::new();
    let world = World::new(&stage, format!("{call} on {on}"));
    // A name below a descriptor is compared as it is given, a descriptor by its path.
    let on = match on.starts_with("holders") {
        true => world.domain.join(on),
        false => on.into(),
    };
    let run = stage
        .run("strace")
        .args(["-f", "-o"])
        .arg(stage.path("trace"));
    let run = run.args(["-e", &format!("trace={call}")]).arg("-P").arg(on);
    let run = run.args(["-e", &format!("inject={call}:error=EIO:when=1")]);
    let run = run
        .args(["sh", "-c", SCRIPT])
        .env("XIOFLOW_DOMAIN", &world.domain);
    // strace ends with the last process that it has traced, which is the helper.
    let ended = run.env("X", stage.program("xioflow")).finish();
    ended.assert_code(0);
    let holders = world.domain.join("holders");
    let left: Vec<_> = std::fs::read_dir(&holders).expect("a folder").collect();
    let words = left.len();
    let next = world
        .xioflow()
        .args(["run", "--no-arbiter", "--", "true"])
        .finish();
    next.assert_code(0);
    let outcome = world.ask("SELECT outcome FROM operations WHERE id = 'a'");
    let held = world.ask("SELECT count(*) || '' FROM resource_leases");
    let expected = match words {
        0 => ("indeterminate", "1"),
        _ => ("failed", "0"),
    };
    assert_eq!(
        (&*outcome, &*held),
        expected,
        "{call}: {words} files\n{next}"
    );
    let traced = std::fs::read_to_string(stage.path("trace")).expect("a trace");
    assert!(
        traced.contains("(INJECTED)"),
        "{call} did not fail: {traced}"
    );
}
