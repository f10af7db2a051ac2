//! How long a domain with a million events takes to open: for its owner and for a reader, after a
//! clean close, and after its owner was killed with a large log. For people; nothing is asserted.
//!
//! `cargo run --release -p xioflow-journal --example opening -- [FOLDER [OPERATIONS]]`

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;
use xioflow_journal::{
    Change, Finish, Journal, NewOperation, OpenOptions, OperationFilter, OperationKind, Outcome,
    Query, Reader, Run, RunStatus, Task, TerminationReason,
};

type Failure = Box<dyn std::error::Error>;

/// With four events each: a million.
const OPERATIONS: usize = 250_000;

/// In one transaction, so that no checkpoint can shorten the log before its owner is killed.
const IN_THE_LOG: usize = 20_000;

/// How many operations share a commit while the domain is made.
const BATCH: usize = 1000;

/// Tells the child in which the owner is killed where the domain is.
const CHILD: &str = "XIOFLOW_EXAMPLE_CHILD";

fn main() -> Result<(), Failure> {
    if let Some(root) = std::env::var_os(CHILD) {
        return fill_the_log(Path::new(&root));
    }
    let mut arguments = std::env::args_os().skip(1);
    let parent = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let operations = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok())
        .unwrap_or(OPERATIONS);
    let folder = tempfile::tempdir_in(parent)?;
    let root = folder.path().join("domain");
    timed("made", || make(&root, operations))?;
    measure("after a clean close", &root)?;
    kill_with_a_large_log(&root)?;
    measure("after a kill", &root)?;
    let journal = Journal::open(&root, &OpenOptions::default())?;
    let report = timed("integrity check", || Ok(journal.check_integrity(|_| {})?))?;
    if !report.is_sound() {
        return Err(format!("{report:?}").into());
    }
    Ok(())
}

fn measure(when: &str, root: &Path) -> Result<(), Failure> {
    let reader = timed(&format!("{when}: reader opened"), || {
        Ok(Reader::open(root)?)
    })?;
    timed(&format!("{when}: reader's newest 20"), || newest(&reader))?;
    let journal = timed(&format!("{when}: owner opened"), || {
        Ok(Journal::open(root, &OpenOptions::default())?)
    })?;
    let ask = |what: &str| format!("{when}: {what}");
    drop(timed(&ask("unsettled"), || Ok(journal.unsettled()?))?);
    drop(timed(&ask("open Runs"), || Ok(journal.open_runs()?))?);
    drop(timed(&ask("undecided"), || {
        Ok(journal.unadjudicated(None)?)
    })?);
    drop(timed(&ask("inherited"), || Ok(journal.inherited()?))?);
    drop(timed(&ask("oldest files"), || {
        Ok(journal.stored_files(None, 100)?)
    })?);
    timed(&ask("counts"), || Ok(journal.counts()?))?;
    timed(&format!("{when}: closed"), || Ok(journal.close()?))
}

fn newest(source: &impl Query) -> Result<(), Failure> {
    let filter = OperationFilter {
        limit: Some(20),
        ..OperationFilter::default()
    };
    drop(source.operations(&filter)?);
    drop(source.events(source.last_seq()? - 20, None, None)?);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program for people")]
fn timed<T>(what: &str, act: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    let result = act()?;
    println!("{what}: {:?}", begun.elapsed());
    Ok(result)
}

#[expect(clippy::print_stdout, reason = "a program for people")]
fn make(root: &Path, operations: usize) -> Result<(), Failure> {
    let journal = Journal::open(root, &OpenOptions::default())?;
    for first in (0..operations).step_by(BATCH) {
        let run_id = format!("run-{first}");
        let mut changes = begin(&run_id);
        for n in first..operations.min(first + BATCH) {
            changes.extend(whole_operation(n, &run_id));
        }
        changes.push(Change::EndRun {
            run_id,
            status: RunStatus::Failed,
            reason: TerminationReason::Completed,
        });
        journal.commit(changes)?;
    }
    println!("{} events", journal.last_seq()?);
    journal.close()?;
    let len = std::fs::metadata(root.join("domain.db"))?.len();
    println!("{} MiB", len >> 20);
    Ok(())
}

/// Kills an owner whose last transaction is in the log and nowhere else.
#[expect(clippy::print_stdout, reason = "a program for people")]
fn kill_with_a_large_log(root: &Path) -> Result<(), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .env(CHILD, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let hear = child.stdout.take().ok_or("no pipe")?;
    BufReader::new(hear).read_line(&mut String::new())?;
    child.kill()?;
    child.wait()?;
    let len = std::fs::metadata(root.join("domain.db-wal"))?.len();
    println!("a log of {} MiB", len >> 20);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program for people")]
fn fill_the_log(root: &Path) -> Result<(), Failure> {
    let journal = Journal::open(root, &OpenOptions::default())?;
    // A reader in the middle of an answer keeps the log from being written back.
    let behind = rusqlite::Connection::open(root.join("domain.db"))?;
    behind.execute_batch("BEGIN; SELECT count(*) FROM owners")?;
    let mut changes = begin("late");
    changes.extend((0..IN_THE_LOG).flat_map(|n| whole_operation(usize::MAX - n, "late")));
    journal.commit(changes)?;
    println!("filled");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn begin(run_id: &str) -> Vec<Change> {
    let task = Task {
        id: "task".into(),
        name: "task".into(),
        created_at_ms: 0,
        meta: json!({}),
    };
    let run = Run {
        id: run_id.into(),
        task_id: "task".into(),
        owner: "me".into(),
        status: RunStatus::Running,
        termination_reason: None,
        started_at_ms: 0,
        ended_at_ms: None,
        config: json!({}),
    };
    vec![Change::SaveTask(task), Change::AddRun(run)]
}

/// Four events: intent, activation, result, release.
fn whole_operation(n: usize, run_id: &str) -> [Change; 3] {
    let id = format!("operation-{n}");
    let new = NewOperation {
        id: id.clone(),
        run_id: run_id.into(),
        kind: OperationKind::Process,
        name: "cargo build --release".into(),
        input_fingerprint: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
            .into(),
        required_resources: vec![format!("resource-{n}")],
        mutation_roots: Vec::new(),
        capability_id: None,
        timeout_ms: Some(30_000),
        resource_budget: None,
        spawn_gated: Some(true),
    };
    let identity = json!({"pid": n % 32_768, "startTime": n, "bootId": "b1c9bb71-8d0a-4a4e-9a53-6d1e1c4f6f0e"});
    let finish = Finish {
        operation_id: id.clone(),
        outcome: Outcome::Succeeded,
        result: json!({"status": "succeeded", "exitCode": 0, "durationMs": 1234, "stdoutBytes": 0}),
        outputs: Vec::new(),
        release_resources: true,
    };
    [
        Change::RegisterOperation(Box::new(new)),
        Change::ActivateOperation {
            operation_id: id,
            process_identity: identity.clone(),
            holder: identity,
        },
        Change::FinishOperation(Box::new(finish)),
    ]
}
