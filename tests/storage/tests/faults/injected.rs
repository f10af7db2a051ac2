//! Each call of the supervisor on a file of the domain fails, one at a time.

use std::fs;
use std::path::Path;

use xioflow_kit::{Chance, Stage, strace};
use xioflow_storage::trace::{self, Line};

use crate::world::World;

/// How many calls of each kind fail; `all` for each of them.
const FAULTS_VARIABLE: &str = "XIOFLOW_TEST_FAULTS";
const FAULTS_USUAL: usize = 2;

/// Calls on files, and what the system may answer. fcntl(2) is not among them: most of its calls here
/// give up locks, and that cannot fail.
const CALLS: [(&str, &[&str]); 15] = [
    (
        "openat",
        &["EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EMFILE"],
    ),
    ("open", &["EIO", "EACCES", "EMFILE"]),
    ("mkdir", &["EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES"]),
    ("chmod", &["EIO", "EROFS", "EPERM"]),
    ("write", &["EIO", "ENOSPC", "EDQUOT"]),
    ("pwrite64", &["EIO", "ENOSPC", "EDQUOT", "EROFS"]),
    ("pread64", &["EIO"]),
    ("ftruncate", &["EIO", "ENOSPC", "EROFS"]),
    ("fsync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("fdatasync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("rename", &["EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES"]),
    ("unlink", &["EIO", "EROFS", "EACCES"]),
    ("newfstatat", &["EIO", "EACCES"]),
    ("getdents64", &["EIO"]),
    ("mmap", &["ENOMEM"]),
];

/// The files of a domain; strace compares whole paths.
const FILES: [&str; 10] = [
    "",
    "domain.db",
    "domain.db-wal",
    "domain.db-shm",
    "domain.db.new",
    "domain.lock",
    "artifacts",
    "artifacts/a-stdout.log",
    "holders",
    ".gitignore",
];

#[test]
fn each_call_may_fail_in_a_new_domain() {
    calls_fail(false);
}

#[test]
fn each_call_may_fail_in_a_domain_that_is_there() {
    calls_fail(true);
}

fn calls_fail(is_there: bool) {
    if !strace::is_there() {
        eprintln!("{}", strace::MISSING);
        return;
    }
    let stage = Stage::new();
    let mut chance = Chance::new();
    let mut failed = 0;
    for (call, errors) in CALLS {
        let calls: Vec<usize> = (1..=count(&stage, call, is_there)).collect();
        for at in chance.pick(&calls, faults()) {
            let error = chance.pick(errors, 1)[0];
            fails(&stage, call, error, at, is_there);
            failed += 1;
        }
    }
    eprintln!("{failed} calls failed");
}

fn faults() -> usize {
    match std::env::var(FAULTS_VARIABLE) {
        Ok(text) if text == "all" => usize::MAX,
        Ok(text) => text.parse().expect("a number of faults, or all"),
        Err(_) => FAULTS_USUAL,
    }
}

/// A domain in which nothing has failed yet.
fn world<'a>(stage: &'a Stage, title: &str, is_there: bool) -> World<'a> {
    let world = World::new(stage, title);
    if is_there {
        let first = world.xioflow().args(["run", "--no-arbiter", "--", "true"]);
        first.finish().assert_code(0);
    }
    world
}

/// How often one thread makes the call on the domain's files, at most.
fn count(stage: &Stage, call: &str, is_there: bool) -> usize {
    let world = world(stage, call, is_there);
    let counted = traced(&world, &["-e", &format!("trace={call}")]);
    counted.assert_code(0);
    let lines = read_trace(stage);
    let mut calls = std::collections::HashMap::new();
    for line in &lines {
        if let Line::Call(call) = line {
            *calls.entry(call.tid).or_insert(0) += 1;
        }
    }
    calls.into_values().max().unwrap_or(0)
}

fn fails(stage: &Stage, call: &str, error: &str, at: usize, is_there: bool) {
    let title = format!("{call} number {at} answers {error}");
    let world = world(stage, &title, is_there);
    let injection = format!("inject={call}:error={error}:when={at}");
    let told = traced(&world, &["-e", &format!("trace={call}"), "-e", &injection]);
    // Which calls there are depends on times a little, so the last ones may not come.
    world.told(&told);
    world.holds(&told);
}

/// Runs the operation under strace, which looks at the domain's files alone.
fn traced(world: &World<'_>, options: &[&str]) -> xioflow_kit::Finished {
    let run = world.stage.run("strace");
    let run = run.args(["-f", "-y", "-xx", "-s", "64", "-o"]);
    let mut run = run.arg(world.stage.path("trace")).args(options);
    for file in FILES {
        let path = match file {
            "" => world.domain.clone(),
            file => world.domain.join(file),
        };
        run = run.arg("-P").arg(path);
    }
    let run = run.arg(world.stage.program("xioflow"));
    let run = run.args(world.words()).env("XIOFLOW_DOMAIN", &world.domain);
    run.finish()
}

fn read_trace(stage: &Stage) -> Vec<Line> {
    let path: &Path = &stage.path("trace");
    let text = fs::read_to_string(path).expect("a trace");
    let cut_off = text.replace("\"...", "\"");
    trace::read(&cut_off).unwrap_or_else(|error| panic!("{error}"))
}
