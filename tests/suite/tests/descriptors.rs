//! What a host is left with after many operations: no descriptor, no thread, no child.
//!
//! Alone in its program, because it counts what belongs to the whole process.

use std::fs;

use xioflow_kernel::{Command, Domain, DomainOptions};
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
}

#[test]
fn operations_cost_a_host_nothing_that_stays() {
    let stage = Stage::new();
    let options = DomainOptions::default().helper(stage.program("xioflow-reaper"));
    let before = entries("/proc/self/fd");
    {
        let domain = options.open(stage.domain()).expect("a domain");
        // The first rounds fill whatever is kept ready.
        round(&stage, &domain);
        let (descriptors, threads) = (entries("/proc/self/fd"), entries("/proc/self/task"));
        for _ in 0..3 {
            round(&stage, &domain);
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
