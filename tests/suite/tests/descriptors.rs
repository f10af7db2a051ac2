//! What a host is left with after many operations: no descriptor, no thread, no child.
//!
//! Alone in its program, because it counts what belongs to the whole process.

use std::fs;
use std::io::Write;
use std::time::Duration;

use xioflow_kernel::{Command, Domain, DomainOptions, Stdin};
use xioflow_kit::Stage;

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).expect("/proc is mounted").count()
}

fn command(stage: &Stage, words: &[&str]) -> Command {
    let command = Command::new(stage.fixture()).args(words.to_vec()).cwd("/");
    let environment = stage.environment().into_iter();
    environment.fold(command, |command, (name, value)| command.env(name, value))
}

/// One of each kind of end.
fn round(stage: &Stage, domain: &Domain) {
    let modes: [&[&str]; 4] = [
        &["exit", "0"],
        &["die-by-signal", "15"],
        &["flood-output", "both", "300000"],
        &["--exit", "0", "escape-setsid", "ignore", "1"],
    ];
    for words in modes {
        domain.run(command(stage, words)).expect("a result");
    }
    domain
        .run(Command::new("/nonexistent/program"))
        .expect("a result");
    inputs(stage, domain);
}

/// One of each kind of standard input; those that are written have a writer or none.
fn inputs(stage: &Stage, domain: &Domain) {
    let reader = || command(stage, &["read-stdin"]);
    for stdin in [Stdin::text("given"), Stdin::Closed] {
        domain.run(reader().stdin(stdin)).expect("a result");
    }
    let mut streamed = domain.operation(reader()).expect("a builder");
    let mut writer = streamed.stdin_stream();
    writer.write_all(b"streamed").expect("room in the pipe");
    drop(writer);
    streamed.run().expect("a result");
    let fifo = Stdin::File(stage.path("fifo"));
    let waiting = domain.operation(reader().stdin(fifo)).expect("a builder");
    let limit = Duration::from_millis(10);
    waiting.timeout(limit).run().expect("a result");
}

/// How many launches there are beside those, each with a helper of its own.
fn launches() -> usize {
    let named = std::env::var("XIOFLOW_TEST_LAUNCHES").ok();
    named.map_or(150, |text| {
        text.parse().expect("XIOFLOW_TEST_LAUNCHES: a number")
    })
}

/// The descriptors that a command has listed.
fn numbers(listed: &str) -> Vec<&str> {
    let lines = listed.lines();
    lines.filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn operations_cost_a_host_nothing_that_stays() {
    let stage = Stage::new();
    let options = DomainOptions::default().helper(stage.program("xioflow-reaper"));
    stage.run("mkfifo").arg("fifo").finish().assert_code(0);
    let before = entries("/proc/self/fd");
    {
        let domain = options.open(stage.domain()).expect("a domain");
        // The first rounds fill whatever is kept ready.
        round(&stage, &domain);
        let (descriptors, threads) = (entries("/proc/self/fd"), entries("/proc/self/task"));
        for _ in 0..3 {
            round(&stage, &domain);
        }
        for _ in 0..launches() {
            let seen = domain.run(command(&stage, &["fds"])).expect("a result");
            assert_eq!(numbers(&seen.stdout), ["0", "1", "2"], "{}", seen.stdout);
        }
        assert!(
            entries("/proc/self/fd") <= descriptors + 2,
            "descriptors pile up"
        );
        assert!(entries("/proc/self/task") <= threads, "threads pile up");
    }
    assert_eq!(
        entries("/proc/self/fd"),
        before,
        "a closed domain keeps descriptors open"
    );
    assert_eq!(children(), "", "children are left");
}

/// The pids of all children, each thread's.
fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let lists = tasks.map(|task| task.expect("a thread").path().join("children"));
    lists
        .map(|list| fs::read_to_string(list).unwrap_or_default())
        .collect()
}
