//! How long commits take: one caller alone, then many at once. For people; nothing is asserted.
//!
//! `cargo run --release -p xioflow-journal --example latency -- [FOLDER]`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use xioflow_journal::{
    Change, Journal, NewOperation, OpenOptions, OperationKind, Run, RunStatus, Task,
};

const COMMITS: u32 = 2000;
const THREADS: u32 = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(parent)?;
    let journal = Journal::open(folder.path().join("domain"), &OpenOptions::default())?;
    journal.commit(begin())?;
    report("one caller", &journal, 1)?;
    report("32 callers", &journal, THREADS)?;
    journal.close()?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program for people")]
fn report(name: &str, journal: &Journal, threads: u32) -> Result<(), Box<dyn std::error::Error>> {
    let before = journal.stats();
    let begun = Instant::now();
    let mut times = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..threads)
            .map(|t| scope.spawn(move || call(journal, threads, t, COMMITS / threads)))
            .collect();
        callers
            .into_iter()
            .map(|c| c.join().map_err(|_| "a caller panicked"))
            .collect::<Result<Vec<_>, _>>()
    })?
    .concat();
    let took = begun.elapsed();
    times.sort_unstable();
    let after = journal.stats();
    let commits = times.len();
    println!(
        "{name}: {:.0} commits/s, median {:?}, p99 {:?}, {} transactions for {commits} commits",
        f64::from(u32::try_from(commits)?) / took.as_secs_f64(),
        times[commits / 2],
        times[commits * 99 / 100],
        after.transactions - before.transactions,
    );
    Ok(())
}

/// What launching an operation commits.
fn call(journal: &Journal, threads: u32, thread: u32, commits: u32) -> Vec<Duration> {
    let one = |n| {
        let id = format!("{threads}-{thread}-{n}");
        let begun = Instant::now();
        journal
            .commit(vec![register(&id), activate(&id)])
            .map(|_| begun.elapsed())
    };
    (0..commits).filter_map(|n| one(n).ok()).collect()
}

fn begin() -> Vec<Change> {
    let task = Task {
        id: "t".into(),
        name: "t".into(),
        created_at_ms: 0,
        meta: json!({}),
    };
    let run = Run {
        id: "r".into(),
        task_id: "t".into(),
        owner: "latency".into(),
        status: RunStatus::Running,
        termination_reason: None,
        started_at_ms: 0,
        ended_at_ms: None,
        config: json!({}),
    };
    vec![Change::SaveTask(task), Change::AddRun(run)]
}

fn register(id: &str) -> Change {
    Change::RegisterOperation(Box::new(NewOperation {
        id: id.into(),
        run_id: "r".into(),
        kind: OperationKind::Process,
        name: "true".into(),
        input_fingerprint: "0".repeat(64),
        required_resources: vec![format!("resource of {id}")],
        mutation_roots: Vec::new(),
        capability_id: None,
        timeout_ms: None,
        resource_budget: None,
        spawn_gated: Some(true),
    }))
}

fn activate(id: &str) -> Change {
    let identity =
        json!({"pid": 1, "startTimeTicks": 1, "bootId": "0".repeat(36), "pidfdInode": 1});
    Change::ActivateOperation {
        operation_id: id.into(),
        process_identity: identity.clone(),
        holder: identity,
    }
}
