//! What the tests of the journal share: small values to commit, and a domain in a folder of its
//! own that is gone afterwards.
#![allow(
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of this"
)]

pub mod old;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;
use xioflow_journal::{
    Adjudication, AdjudicationVerdict, Change, Finish, Journal, NewOperation, OpenOptions,
    OperationKind, Outcome, Run, RunStatus, Task, TerminationReason,
};

/// A folder to make domains in.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn root(&self) -> PathBuf {
        self.0.path().join("domain")
    }

    pub fn open(&self) -> Journal {
        Journal::open(self.root(), &OpenOptions::default()).unwrap()
    }

    /// An owner with the Run `r`, ready for operations.
    pub fn open_with_run(&self) -> Journal {
        let journal = self.open();
        journal.commit(begin("r")).unwrap();
        journal
    }
}

/// A task and a Run of it.
pub fn begin(run_id: &str) -> Vec<Change> {
    vec![Change::SaveTask(task()), Change::AddRun(run(run_id))]
}

pub fn task() -> Task {
    Task {
        id: "t".into(),
        name: "task".into(),
        created_at_ms: 1,
        meta: json!({"a": [1, null]}),
    }
}

pub fn run(id: &str) -> Run {
    Run {
        id: id.into(),
        task_id: "t".into(),
        owner: "me".into(),
        status: RunStatus::Running,
        termination_reason: None,
        started_at_ms: 2,
        ended_at_ms: None,
        config: json!({"maxTokens": 5}),
    }
}

pub fn new_operation(id: &str, resources: &[&str]) -> NewOperation {
    NewOperation {
        id: id.into(),
        run_id: "r".into(),
        kind: OperationKind::Process,
        name: "build".into(),
        input_fingerprint: format!("fingerprint of {id}"),
        required_resources: resources.iter().map(|&r| r.to_owned()).collect(),
        mutation_roots: vec!["/src".into()],
        capability_id: None,
        timeout_ms: Some(30_000),
        resource_budget: Some(json!({"memoryMaxBytes": 1024})),
        spawn_gated: Some(true),
    }
}

pub fn register(id: &str, resources: &[&str]) -> Change {
    Change::RegisterOperation(Box::new(new_operation(id, resources)))
}

pub fn activate(id: &str) -> Change {
    Change::ActivateOperation {
        operation_id: id.into(),
        process_identity: json!({"pid": 4711, "startTime": 99}),
        holder: json!({"pid": 4710}),
    }
}

pub fn stop(id: &str) -> Change {
    Change::StopOperation {
        operation_id: id.into(),
        reason: TerminationReason::UserCancelled,
    }
}

/// A result that keeps the lease rule.
pub fn finish(id: &str, outcome: Outcome) -> Change {
    Change::FinishOperation(Box::new(Finish {
        operation_id: id.into(),
        outcome,
        result: json!({"status": outcome, "exitCode": 0}),
        outputs: Vec::new(),
        release_resources: outcome != Outcome::Indeterminate,
    }))
}

/// A decision about an end that could not be proven.
pub fn decision() -> Adjudication {
    Adjudication {
        verdict: AdjudicationVerdict::AbandonWithResiduals,
        actor: "ann".into(),
        note: Some("left alone".into()),
        residual_pids: vec![4711],
        decided_at_ms: 5,
    }
}

pub fn adjudicate(id: &str) -> Change {
    Change::Adjudicate {
        operation_id: id.into(),
        adjudication: decision(),
    }
}

pub fn end_run(id: &str, status: RunStatus) -> Change {
    Change::EndRun {
        run_id: id.into(),
        status,
        reason: TerminationReason::Completed,
    }
}

/// The content of a file, read by another process: reading a database here would drop the
/// locks that SQLite holds on it for this process.
pub fn bytes_of(path: &Path) -> Vec<u8> {
    let output = Command::new("cat").arg(path).output().unwrap();
    assert!(output.status.success(), "cannot read {}", path.display());
    output.stdout
}

/// What strace says when it is told to run this: `None`, with the reason printed, where there is no
/// strace or it may not trace.
pub fn traced(options: &[&str], test: &str, folder: &Path) -> Option<std::process::Output> {
    let probe = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: strace cannot be used here ({probe:?})");
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]).args(options);
    command
        .arg(std::env::current_exe().unwrap())
        .args(child_arguments(test))
        .env(FOLDER, folder);
    Some(command.output().unwrap())
}

/// Where a child process is told which folder to work in.
const FOLDER: &str = "XIOFLOW_TEST_FOLDER";

/// This test program again, to run one ignored test in a process of its own.
pub fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(child_arguments(test)).env(FOLDER, folder);
    command
}

pub fn child_arguments(test: &str) -> [&str; 5] {
    [
        "--exact",
        test,
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]
}

pub fn child_folder() -> PathBuf {
    std::env::var_os(FOLDER)
        .expect("only to be run by another test")
        .into()
}

/// Waits, in a child, for its parent to say something or to go away.
pub fn listen() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Runs a child until it says `line`, and kills it there.
pub fn kill_at(line: &str, test: &str, folder: &Path) {
    let mut child = child(test, folder).stdin_stdout().spawn().unwrap();
    // Kept until the child is dead: hanging up would let it end in an orderly way.
    let mut talk = Talk::with(&mut child);
    talk.expect(line);
    child.kill().unwrap();
    child.wait().unwrap();
}

pub trait Pipes {
    fn stdin_stdout(&mut self) -> &mut Self;
}

impl Pipes for Command {
    fn stdin_stdout(&mut self) -> &mut Self {
        self.stdin(Stdio::piped()).stdout(Stdio::piped())
    }
}

/// A conversation with a child, line by line.
pub struct Talk {
    hear: BufReader<ChildStdout>,
    say: ChildStdin,
}

impl Talk {
    pub fn with(child: &mut Child) -> Self {
        Self {
            hear: BufReader::new(child.stdout.take().unwrap()),
            say: child.stdin.take().unwrap(),
        }
    }

    /// Reads until the child says `line`. The test harness has its own to say before that.
    pub fn expect(&mut self, line: &str) {
        let mut heard = String::new();
        while !heard.lines().last().unwrap_or_default().ends_with(line) {
            assert_ne!(
                self.hear.read_line(&mut heard).unwrap(),
                0,
                "the child left after: {heard}"
            );
        }
    }

    /// What else a child that is gone has said, in whole lines.
    pub fn rest(mut self) -> String {
        let mut heard = String::new();
        self.hear.read_to_string(&mut heard).unwrap();
        heard.truncate(heard.rfind('\n').map_or(0, |end| end + 1));
        heard
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.say, "{line}").unwrap();
    }
}
