//! What it costs to open a domain whose owner died, with much behind it and much unfinished: time, and the
//! largest resident set of the process that opens it.
//!
//! `cargo xtask bench recovery [FINISHED [UNFINISHED]]`; 100000 and 1000 by default, the figures that the bar is about.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use xioflow_kernel::journal::{
    Change, Finish, Journal, NewOperation, OpenOptions, OperationKind, Outcome, Run, RunStatus,
    Stream, Task, TerminationReason,
};
use xioflow_kernel::{DomainOptions, artifact_name};
use xioflow_protocol::{Exit, Identity, LAST_WORD_FORMAT, LastWord, TreeEnd, Usage};

/// Operations in one commit while the domain is made.
const BATCH: usize = 500;

/// What each unfinished operation had printed.
const PRINTED: &[u8] = &[b'x'; 4096];

type Outcomes = Result<(), Box<dyn Error>>;

/// Makes such a domain, and has another process open it.
pub(crate) fn measure(arguments: &[String]) -> Outcomes {
    let number = |at: usize, default: usize| match arguments.get(at) {
        Some(text) => text.parse().map_err(|_| format!("{text} is no number")),
        None => Ok(default),
    };
    let (finished, unfinished) = (number(0, 100_000)?, number(1, 1000)?);
    let scratch = TempDir::new()?;
    make(scratch.path(), finished, unfinished)?;
    let opened = Command::new(env::current_exe()?)
        .arg("recovery-open")
        .arg(scratch.path())
        .output()?;
    if !opened.status.success() {
        return Err(String::from_utf8_lossy(&opened.stderr).into_owned().into());
    }
    crate::say(&format!(
        "opening a domain with {finished} finished and {unfinished} unfinished operations:"
    ));
    crate::say(String::from_utf8_lossy(&opened.stdout).trim_end());
    Ok(())
}

/// Opens a domain, and says what that has cost.
pub(crate) fn open(folder: &str) -> Outcomes {
    let began = Instant::now();
    let programs = env::var_os("XIOFLOW_TEST_BIN_DIR").ok_or("run it with `cargo xtask bench`")?;
    let helper = Path::new(&programs).join("xioflow-reaper");
    let domain = DomainOptions::default().helper(helper).open(folder)?;
    let took_ms = began.elapsed().as_millis();
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    let cases: String = domain.recovered().iter().map(|it| it.case).collect();
    let count = |case| cases.chars().filter(|it| *it == case).count();
    crate::say(&format!(
        "{took_ms} ms, {}",
        peak.unwrap_or("VmHWM unknown")
    ));
    crate::say(&format!(
        "settled: {} by a last word (A), {} of an earlier boot (D), {} without a trace (G)",
        count('A'),
        count('D'),
        count('G')
    ));
    Ok(())
}

fn make(folder: &Path, finished: usize, unfinished: usize) -> Outcomes {
    let journal = Journal::open(folder, &OpenOptions::default())?;
    journal.commit(vec![Change::SaveTask(Task {
        id: "task".into(),
        name: "task".into(),
        created_at_ms: 1,
        meta: Value::Null,
    })])?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let boot = boot.trim().replace('-', "");
    let all: Vec<usize> = (0..finished + unfinished).collect();
    for some in all.chunks(BATCH) {
        let mut changes = Vec::new();
        for &at in some {
            begin(&mut changes, at, &boot);
            if at < finished {
                end(&mut changes, at);
            }
        }
        journal.commit(changes)?;
    }
    for at in finished..finished + unfinished {
        let name = artifact_name(&id(at), Stream::Stdout);
        fs::write(folder.join("artifacts").join(name), PRINTED)?;
        if at % 3 == 0 {
            let word = folder.join("holders").join(format!("{}.word", id(at)));
            fs::write(
                word,
                last_word(at, &boot)?
                    .to_bytes()
                    .map_err(|e| e.to_string())?,
            )?;
        }
    }
    Ok(journal.close()?)
}

fn id(at: usize) -> String {
    format!("op-{at}")
}

/// A process that is gone; every third one belongs to an earlier boot.
fn identity(at: usize, boot: &str) -> Value {
    let boot = match at % 3 {
        1 => "00".repeat(16),
        _ => boot.to_owned(),
    };
    json!({ "pid": 4_000_000, "pgid": null, "startTicks": at, "bootId": boot, "pidfdInode": at,
            "osStartTime": null, "commandFingerprint": null })
}

fn begin(changes: &mut Vec<Change>, at: usize, boot: &str) {
    let run_id = format!("run-{at}");
    changes.push(Change::AddRun(Run {
        id: run_id.clone(),
        task_id: "task".into(),
        owner: "bench".into(),
        status: RunStatus::Running,
        termination_reason: None,
        started_at_ms: 1,
        ended_at_ms: None,
        config: json!({}),
    }));
    changes.push(Change::RegisterOperation(Box::new(NewOperation {
        id: id(at),
        run_id,
        kind: OperationKind::Process,
        name: "build".into(),
        input_fingerprint: "0".repeat(64),
        required_resources: vec![format!("resource-{at}")],
        mutation_roots: Vec::new(),
        capability_id: None,
        timeout_ms: None,
        resource_budget: None,
        spawn_gated: Some(true),
    })));
    changes.push(Change::ActivateOperation {
        operation_id: id(at),
        process_identity: identity(at, boot),
        holder: identity(at, boot),
    });
}

fn end(changes: &mut Vec<Change>, at: usize) {
    changes.push(Change::FinishOperation(Box::new(Finish {
        operation_id: id(at),
        outcome: Outcome::Succeeded,
        result: json!({ "operationId": id(at), "status": "succeeded", "exitCode": 0 }),
        outputs: Vec::new(),
        release_resources: true,
    })));
    changes.push(Change::EndRun {
        run_id: format!("run-{at}"),
        status: RunStatus::Succeeded,
        reason: TerminationReason::Completed,
    });
}

fn last_word(at: usize, boot: &str) -> Result<LastWord, Box<dyn Error>> {
    let mut boot_id = [0; 16];
    for (at, byte) in boot_id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&boot[2 * at..2 * at + 2], 16)?;
    }
    let ticks = u64::try_from(at)?;
    Ok(LastWord {
        format: LAST_WORD_FORMAT,
        operation_id: id(at),
        holder: Identity {
            pid: 4_000_000,
            start_ticks: ticks,
            boot_id,
            pidfd_inode: Some(ticks),
        },
        root: None,
        released: true,
        launch_failure: None,
        end: TreeEnd {
            exit: Some(Exit::Exited { code: 0 }),
            survivors: Vec::new(),
            survivors_total: 0,
            usage: Usage::default(),
            last_signal: None,
            group_empty: None,
        },
        empty: true,
        written_at_ms: 1,
        stopped: false,
        namespace: None,
    })
}
